// Package pluginsign signs plugins with key pairs, and says who has signed one: without a
// network, a clock or an authority. Keys, signatures of files and signatures of what is in a
// registry have the forms that cosign gives them.
//
// A signature says that a key's owner meant a content, and nothing about its name or age. The
// package must never know what a plugin is.
//
// Start reading at [PrivateKey], [ReadFile] and [Keys.Verify].
package pluginsign

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"

	"github.com/secure-systems-lab/go-securesystemslib/encrypted"

	"github.com/wasmnode/wasmnode/internal/regularfile"
)

const (
	// The types of the PEM blocks that keys are in.
	typePublic    = "PUBLIC KEY"
	typePlain     = "PRIVATE KEY"
	typePlainEC   = "EC PRIVATE KEY"
	typeEncrypted = "ENCRYPTED SIGSTORE PRIVATE KEY"
	typeCosign    = "ENCRYPTED COSIGN PRIVATE KEY" // of cosign before version 2
	// maxKey bounds a key's file, in bytes.
	maxKey = 64 << 10
	// shownID is how much of a key's ID people see.
	shownID = 12
)

// PrivateKey signs: ECDSA on the curve P-256 with SHA-256.
type PrivateKey struct{ key *ecdsa.PrivateKey }

// NewKey draws a key.
func NewKey() (*PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	return &PrivateKey{key}, nil
}

// PEM is the key's file, encrypted with a password. An empty one protects nothing.
func (k *PrivateKey) PEM(password []byte) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(k.key)
	if err != nil {
		return nil, err
	}
	box, err := encrypted.Encrypt(der, password)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: typeEncrypted, Bytes: box}), nil
}

// ReadPrivateKey reads a private key's file. The password is asked for if it is encrypted. The
// error is one line that names the file.
func ReadPrivateKey(path string, password func() ([]byte, error)) (*PrivateKey, error) {
	block, err := readPEM(path)
	if err != nil {
		return nil, err
	}
	der := block.Bytes
	switch block.Type {
	case typePlain, typePlainEC:
	case typeEncrypted, typeCosign:
		secret, err := password()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if der, err = encrypted.Decrypt(der, secret); err != nil {
			return nil, fmt.Errorf("%s: the password is another, or the file is damaged", path)
		}
	case typePublic:
		return nil, fmt.Errorf("%s: this is the public key: sign with the private one, verify with this", path)
	default:
		return nil, fmt.Errorf("%s: %q is not a private key", path, block.Type)
	}
	key, err := parsePrivate(block.Type, der)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return key, nil
}

func parsePrivate(kind string, der []byte) (*PrivateKey, error) {
	var key any
	var err error
	if kind == typePlainEC {
		key, err = x509.ParseECPrivateKey(der)
	} else {
		key, err = x509.ParsePKCS8PrivateKey(der)
	}
	if err != nil {
		return nil, fmt.Errorf("the private key is damaged: %w", err)
	}
	k, ok := key.(*ecdsa.PrivateKey)
	if !ok || k.Curve != elliptic.P256() {
		return nil, errOtherKind
	}
	return &PrivateKey{k}, nil
}

var errOtherKind = errors.New("a key of another kind: it has to be one of ECDSA on the curve P-256")

// Public is the key's other half, which people know by a name.
func (k *PrivateKey) Public(name string) (PublicKey, error) { return newPublic(name, &k.key.PublicKey) }

// sign signs what has that SHA-256. The same key gives the same signature again.
func (k *PrivateKey) sign(sum [sha256.Size]byte) ([]byte, error) {
	return k.key.Sign(nil, sum[:], crypto.SHA256)
}

// PublicKey verifies what its private key has signed.
type PublicKey struct {
	Name string // for people: its file
	ID   string // the SHA-256 of the key, in hexadecimal
	key  *ecdsa.PublicKey
}

func newPublic(name string, key *ecdsa.PublicKey) (PublicKey, error) {
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return PublicKey{}, err
	}
	sum := sha256.Sum256(der)
	return PublicKey{name, hex.EncodeToString(sum[:]), key}, nil
}

// PEM is the key's file.
func (k PublicKey) PEM() ([]byte, error) {
	der, err := x509.MarshalPKIXPublicKey(k.key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: typePublic, Bytes: der}), nil
}

// String is what people see of the key.
func (k PublicKey) String() string { return fmt.Sprintf("%s (%s)", k.Name, short(k.ID)) }

// short is what people see of a key's ID.
func short(id string) string { return id[:min(len(id), shownID)] }

// ReadPublicKey reads a public key's file. The error is one line that names the file.
func ReadPublicKey(path string) (PublicKey, error) {
	block, err := readPEM(path)
	if err != nil {
		return PublicKey{}, err
	}
	if block.Type != typePublic {
		return PublicKey{}, fmt.Errorf("%s: %q is not a public key", path, block.Type)
	}
	key, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return PublicKey{}, fmt.Errorf("%s: the public key is damaged: %w", path, err)
	}
	k, ok := key.(*ecdsa.PublicKey)
	if !ok || k.Curve != elliptic.P256() {
		return PublicKey{}, fmt.Errorf("%s: %w", path, errOtherKind)
	}
	return newPublic(path, k)
}

// readPEM reads a file with one block of PEM in it.
func readPEM(path string) (*pem.Block, error) {
	text, err := regularfile.Read(path, maxKey)
	if err != nil {
		return nil, err
	}
	block, rest := pem.Decode(text)
	switch {
	case block == nil:
		return nil, fmt.Errorf("%s: this is no key: it has no PEM in it", path)
	case len(bytes.TrimSpace(rest)) > 0:
		return nil, fmt.Errorf("%s: something follows the key", path)
	}
	return block, nil
}
