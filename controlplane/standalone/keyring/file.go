package keyring

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	nomad "github.com/hashicorp/nomad/api"
)

// maxFile bounds a key's file, which has some 200 bytes.
const maxFile = 4 << 10

// keyFile is what a key's file has, as JSON.
type keyFile struct {
	KeyID     string
	Algorithm nomad.EncryptionAlgorithm
	Key       []byte
	// Sum is of the ID and the key: a damaged key is told from one that does not fit.
	Sum []byte
}

func encode(id string, key []byte) []byte {
	b, err := json.Marshal(keyFile{id, nomad.EncryptionAlgorithmAES256GCM, key, sumOf(id, key)})
	if err != nil {
		panic(err) // texts and bytes can be encoded
	}
	return append(b, '\n')
}

// decode reads the file of a key, and refuses one that is another's, or damaged.
func decode(content []byte, id string) (key []byte, err error) {
	var f keyFile
	if err := json.Unmarshal(content, &f); err != nil {
		return nil, fmt.Errorf("it is damaged: %w", err)
	}
	switch {
	case f.KeyID != id:
		return nil, fmt.Errorf("it is of the root key %q", f.KeyID)
	case f.Algorithm != nomad.EncryptionAlgorithmAES256GCM:
		return nil, fmt.Errorf("its algorithm %q is not known", f.Algorithm)
	case len(f.Key) != keySize, subtle.ConstantTimeCompare(f.Sum, sumOf(id, f.Key)) != 1:
		return nil, errors.New("it is damaged: its sum is not that of its key")
	}
	return f.Key, nil
}

// read reads the file of a key. An error has no path: its caller names it.
func read(path, id string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, errors.Unwrap(err)
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, maxFile))
	if err != nil {
		return nil, err
	}
	return decode(content, id)
}

func sumOf(id string, key []byte) []byte {
	sum := sha256.Sum256(append([]byte(id), key...))
	return sum[:]
}
