package keyring

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
)

// signingBits is the size of the keys that sign, as Nomad's.
const signingBits = 2048

// signingAlgorithm is that of JSON Web Signature which the keys are for.
const signingAlgorithm = "RS256"

// signingFile is what the file of a signing key has, as JSON: the key is sealed with its root key,
// so that one that was changed, or is another root key's, cannot be opened.
type signingFile struct {
	KeyID     string
	Algorithm string
	Sealed    []byte // PKCS #8
}

// SigningKey returns the RSA key that belongs to a root key, and makes one that is durable when there
// is none: root keys of earlier versions have none. The error is a [KeyError].
func (r *Ring) SigningKey(id string) (*rsa.PrivateKey, error) {
	r.making.Lock() // one is made once, and nobody who seals waits for it
	defer r.making.Unlock()
	key, err := r.signingKey(id)
	if !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	if err := r.Check(id); err != nil {
		return nil, err
	}
	made, err := rsa.GenerateKey(rand.Reader, signingBits)
	if err == nil {
		err = r.writeSigning(id, made)
	}
	if err != nil {
		return nil, &KeyError{id, signingPath(r.pathOf(id)), err}
	}
	r.keepSigning(id, made)
	return made, nil
}

// PublicKey returns the public half of the RSA key of a root key; nil: it has none, or that of a
// root key whose file is not there. Errors are a [KeyError].
func (r *Ring) PublicKey(id string) (*rsa.PublicKey, error) {
	key, err := r.signingKey(id)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return &key.PublicKey, nil
}

// signingKey returns a signing key, from its file if it was not used yet. The error is a
// [KeyError], of [fs.ErrNotExist] where there is none.
func (r *Ring) signingKey(id string) (*rsa.PrivateKey, error) {
	r.mu.Lock()
	key := r.signing[id]
	r.mu.Unlock()
	if key != nil {
		return key, nil
	}
	path, err := r.path(id)
	if err != nil {
		return nil, &KeyError{id, r.dir, err}
	}
	if r.dir == "" {
		return nil, &KeyError{id, "memory", fs.ErrNotExist}
	}
	if key, err = r.readSigning(signingPath(path), id); err != nil {
		return nil, &KeyError{id, signingPath(path), err}
	}
	r.keepSigning(id, key)
	return key, nil
}

func (r *Ring) keepSigning(id string, key *rsa.PrivateKey) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.signing[id] = key
}

// readSigning reads the file of a signing key. An error has no path: its caller names it.
func (r *Ring) readSigning(path, id string) (*rsa.PrivateKey, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, errors.Unwrap(err)
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, maxFile))
	if err != nil {
		return nil, err
	}
	var file signingFile
	if err := json.Unmarshal(content, &file); err != nil {
		return nil, fmt.Errorf("it is damaged: %w", err)
	}
	switch {
	case file.KeyID != id:
		return nil, fmt.Errorf("it is of the root key %q", file.KeyID)
	case file.Algorithm != signingAlgorithm:
		return nil, fmt.Errorf("its algorithm %q is not known", file.Algorithm)
	}
	text, err := r.Open(id, file.Sealed, signingAbout(id))
	if err != nil {
		return nil, err
	}
	parsed, err := x509.ParsePKCS8PrivateKey(text)
	if err != nil {
		return nil, fmt.Errorf("it is damaged: %w", err)
	}
	key, is := parsed.(*rsa.PrivateKey)
	if !is {
		return nil, errors.New("it is no RSA key")
	}
	return key, nil
}

// writeSigning makes a signing key durable, unless the ring is in memory.
func (r *Ring) writeSigning(id string, key *rsa.PrivateKey) error {
	if r.dir == "" {
		return nil
	}
	text, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	sealed, err := r.Seal(id, text, signingAbout(id))
	if err != nil {
		return err
	}
	content, err := json.Marshal(signingFile{id, signingAlgorithm, sealed})
	if err != nil {
		return err
	}
	return write(signingPath(r.pathOf(id)), append(content, '\n'))
}

// pathOf is the file of a key whose ID is known to be one.
func (r *Ring) pathOf(id string) string {
	path, _ := r.path(id) // the key was read before
	return path
}

// signingPath is the file of a signing key beside that of its root key.
func signingPath(path string) string { return strings.TrimSuffix(path, ".key") + ".rsa" }

// signingAbout is what a sealed signing key is bound to.
func signingAbout(id string) []byte { return []byte("signing key\x00" + id) }
