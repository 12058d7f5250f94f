package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"strings"

	"github.com/wasmnode/wasmnode/internal/pluginregistry"
	"github.com/wasmnode/wasmnode/internal/pluginsign"
)

// keySet is which keys a command trusts: with none, it verifies nothing.
type keySet struct{ paths []string }

// String implements [flag.Value].
func (s *keySet) String() string { return strings.Join(s.paths, ",") }

// Set implements [flag.Value].
func (s *keySet) Set(path string) error {
	s.paths = append(s.paths, path)
	return nil
}

// keyFlags adds the option of a command that verifies.
func keyFlags(f *flag.FlagSet) *keySet {
	s := &keySet{}
	f.Var(s, "key", "")
	return s
}

// vouched says who has signed what.
type vouched struct {
	keys pluginsign.Keys
	// by is what people see of it.
	by string
}

// read reads the keys that are trusted.
func (s *keySet) read() (*vouched, error) {
	keys, err := pluginsign.ReadKeys(s.paths)
	return &vouched{keys: keys}, err
}

// verify verifies a signature's file of a content, and notes by whom it is; nil: there is none.
func (v *vouched) verify(f *pluginsign.File, digest string) error {
	if f == nil || len(v.keys) == 0 {
		return v.unverified(f != nil)
	}
	by, err := v.keys.Verify(f, digest)
	v.by = by.String()
	return err
}

// unverified notes that nothing is verified, which is an error where it should be.
func (v *vouched) unverified(signed bool) error {
	switch {
	case len(v.keys) > 0:
		return fmt.Errorf("it is not signed; trusted: %s", v.keys)
	case signed:
		v.by = "somebody, not verified: name the public key with -key"
	default:
		v.by = "nobody"
	}
	return nil
}

// verifyText is verify of a signature that is not read.
func (v *vouched) verifyText(text []byte, digest string) error {
	if text == nil || len(v.keys) == 0 {
		return v.unverified(text != nil)
	}
	f, err := pluginsign.Parse(text)
	if err != nil {
		return fmt.Errorf("its signature: %w", err)
	}
	return v.verify(f, digest)
}

// verifyBeside is verify of the signature beside a plugin's file.
func (v *vouched) verifyBeside(file, digest string) error {
	f, err := pluginsign.ReadFile(file + pluginsign.Suffix)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("its signature: %w", err)
	}
	return v.verify(f, digest)
}

// signature fetches the signatures of what was pulled, as the file that they are kept in; nil:
// there are none.
func (s registrySet) signature(ctx context.Context, r pluginregistry.Reference, p *pluginregistry.Pulled) (*pluginsign.File, error) {
	ctx, cancel := context.WithTimeout(ctx, *s.timeout)
	defer cancel()
	all, err := r.Signatures(ctx, s.config(), p.Digest)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	f := &pluginsign.File{Manifest: p.Manifest}
	for _, one := range all {
		f.Signatures = append(f.Signatures, pluginsign.OfManifest(one.Payload, one.Signature))
	}
	return f, nil
}

// textOf is what is in a signature's file; nil: there is none.
func textOf(f *pluginsign.File) ([]byte, error) {
	if f == nil {
		return nil, nil
	}
	return f.Text()
}
