// Package keyring seals what a control plane stores with keys that lie in files of their own,
// so that who has the control plane's file, or a copy of it, has nothing that is sealed; and it
// has a key to sign with beside each of them. It knows neither what is sealed or signed nor which
// key is used when. [Ring] is where to start reading.
package keyring

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/rsa"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/google/uuid"

	"github.com/wasmnode/wasmnode/internal/durable"
	"github.com/wasmnode/wasmnode/internal/failpoint"
)

// keySize is that of AES-256, in bytes.
const keySize = 32

// Ring is a directory of keys, a file each, which only their owner may read. A file is read when
// its key is used first, and tried again when it could not be: it can be put back meanwhile. It
// is safe for concurrent use.
type Ring struct {
	dir string // empty: in memory

	making sync.Mutex // while a signing key is made; taken before mu

	mu      sync.Mutex
	keys    map[string]cipher.AEAD
	signing map[string]*rsa.PrivateKey
}

// New returns the ring of a directory, which is made with the first key; empty: one that is
// kept in memory.
func New(dir string) *Ring {
	return &Ring{dir: dir, keys: map[string]cipher.AEAD{}, signing: map[string]*rsa.PrivateKey{}}
}

// Sweep removes what is left of keys that were being written when the process ended: nothing refers
// to them.
func (r *Ring) Sweep() error {
	if r.dir == "" {
		return nil
	}
	_, err := durable.Sweep(r.dir, func(string) bool { return true })
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// KeyError is why a key cannot be used.
type KeyError struct {
	// ID is the key's, and Path its file.
	ID, Path string
	// Err is what is wrong with the file.
	Err error
}

// Error implements error.
func (e *KeyError) Error() string {
	return fmt.Sprintf("root key %s cannot be read: %s: %v", e.ID, e.Path, e.Err)
}

// Unwrap returns what is wrong with the file.
func (e *KeyError) Unwrap() error { return e.Err }

// ErrAltered is of what is not as it was sealed: by that key, about that, and whole.
var ErrAltered = errors.New("it is not what was sealed with its key: it was changed, or damaged")

// Add draws a key for a new ID, a UUID. It is durable when Add returns nil.
func (r *Ring) Add(id string) error {
	path, err := r.path(id)
	if err != nil {
		return err
	}
	key := make([]byte, keySize)
	_, _ = rand.Read(key) // it never fails
	if r.dir != "" {
		if err := write(path, encode(id, key)); err != nil {
			return fmt.Errorf("writing a root key: %w", err)
		}
	}
	aead := cipherOf(key)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keys[id] = aead
	return nil
}

// Check reports why a key cannot be used; nil: it can. The error is a [KeyError].
func (r *Ring) Check(id string) error {
	_, err := r.key(id)
	return err
}

// Has reports whether there may be something of a key, whether it can be used or not.
func (r *Ring) Has(id string) bool {
	path, err := r.path(id)
	if err != nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.keys[id] != nil || r.dir == "" {
		return r.keys[id] != nil
	}
	_, err = os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// Remove forgets a key and the one that signs beside it, and their files, for good. One that is not
// there is no error.
func (r *Ring) Remove(id string) error {
	path, err := r.path(id)
	if err != nil {
		return err
	}
	r.mu.Lock()
	delete(r.keys, id)
	delete(r.signing, id)
	r.mu.Unlock()
	if r.dir == "" {
		return nil
	}
	for _, file := range []string{signingPath(path), path} { // the last is what Has looks for
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// Seal encrypts a text with a key, and binds it to what it is about, which [Ring.Open] has to be
// told again. The error is a [KeyError].
func (r *Ring) Seal(id string, text, about []byte) ([]byte, error) {
	aead, err := r.key(id)
	if err != nil {
		return nil, err
	}
	nonce := make([]byte, aead.NonceSize(), aead.NonceSize()+len(text)+aead.Overhead())
	_, _ = rand.Read(nonce) // it never fails
	return aead.Seal(nonce, nonce, text, about), nil
}

// Open decrypts what [Ring.Seal] made. Errors are a [KeyError] and [ErrAltered].
func (r *Ring) Open(id string, sealed, about []byte) ([]byte, error) {
	aead, err := r.key(id)
	if err != nil {
		return nil, err
	}
	if len(sealed) < aead.NonceSize() {
		return nil, ErrAltered
	}
	nonce, rest := sealed[:aead.NonceSize()], sealed[aead.NonceSize():]
	text, err := aead.Open(nil, nonce, rest, about)
	if err != nil {
		return nil, ErrAltered
	}
	return text, nil
}

// key returns a key, from its file if it was not used yet.
func (r *Ring) key(id string) (cipher.AEAD, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if aead := r.keys[id]; aead != nil {
		return aead, nil
	}
	path, err := r.path(id)
	if err != nil {
		return nil, &KeyError{id, r.dir, err}
	}
	if r.dir == "" {
		return nil, &KeyError{id, "memory", fs.ErrNotExist}
	}
	key, err := read(path, id)
	if err != nil {
		return nil, &KeyError{id, path, err}
	}
	r.keys[id] = cipherOf(key)
	return r.keys[id], nil
}

// path is the file of a key. An ID that is no UUID, which could lead elsewhere, has none.
func (r *Ring) path(id string) (string, error) {
	if parsed, err := uuid.Parse(id); err != nil || parsed.String() != id {
		return "", fmt.Errorf("%q is not the ID of a root key", id)
	}
	return filepath.Join(r.dir, id+".key"), nil
}

// cipherOf is AES-256 in Galois counter mode with a key.
func cipherOf(key []byte) cipher.AEAD {
	block, err := aes.NewCipher(key)
	if err != nil {
		panic(err) // a key of another size: no caller has one
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		panic(err) // a block of another size
	}
	return aead
}

// write puts a file in its place whole, and has it and its directory stay there.
func write(path string, content []byte) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	failpoint.Here("rootkey.write")
	if err := durable.Replace(path, content, 0o600); err != nil {
		return err
	}
	failpoint.Here("rootkey.renamed")
	return durable.SyncDir(filepath.Dir(dir))
}
