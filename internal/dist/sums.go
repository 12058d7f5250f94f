package main

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/wasmnode/wasmnode/internal/pluginsign"
)

// The file of checksums, and of its signature.
const (
	sumsName      = "SHA256SUMS"
	signatureName = sumsName + ".sig"
)

// sums writes the checksums of all files of a directory, as sha256sum -c reads them.
func sums(dir string) error {
	entries, err := os.ReadDir(dir) // sorted
	if err != nil {
		return err
	}
	var b bytes.Buffer
	for _, e := range entries {
		content, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%x  %s\n", sha256.Sum256(content), e.Name())
	}
	return os.WriteFile(filepath.Join(dir, sumsName), b.Bytes(), 0o644)
}

// sign signs the checksums with a key as plugins are signed with, and tells with which. Without
// one it says that nothing is signed.
func sign(dir, key string) error {
	if key == "" {
		fmt.Fprintln(os.Stderr, "nothing is signed: make dist KEY=FILE signs the checksums; wasmnode plugin keygen makes a key")
		return nil
	}
	private, err := pluginsign.ReadPrivateKey(key, func() ([]byte, error) {
		password, is := os.LookupEnv("WASMNODE_KEY_PASSWORD")
		if !is {
			return nil, errors.New("the key has a password: it is that of the variable WASMNODE_KEY_PASSWORD")
		}
		return []byte(password), nil
	})
	if err != nil {
		return err
	}
	content, err := os.ReadFile(filepath.Join(dir, sumsName))
	if err != nil {
		return err
	}
	signature, err := private.SignFile(content)
	if err != nil {
		return err
	}
	bundle, err := signature.Text()
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, signatureName), bundle, 0o644)
}
