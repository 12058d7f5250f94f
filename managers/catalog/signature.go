package catalog

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/wasmnode/wasmnode/internal/pluginsign"
)

// checkSignature returns the trusted key that has signed a content of a file: nothing of what
// none has signed is compiled or run. Where no key is trusted, none is asked for.
func (c *Catalog) checkSignature(file, digest string) (by pluginsign.PublicKey, err error) {
	c.mu.Lock()
	keys := c.files.settings.TrustedKeys
	c.mu.Unlock()
	if len(keys) == 0 {
		return by, nil
	}
	signature := file + pluginsign.Suffix
	s, err := pluginsign.ReadFile(filepath.Join(c.cfg.Dir, signature))
	var path *fs.PathError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return by, &notMeantError{fmt.Sprintf("it is not signed: there is no %s; trusted: %s", signature, keys)}
	case errors.As(err, &path):
		return by, &unreadableError{err}
	case err != nil:
		return by, &notMeantError{fmt.Sprintf("%s is no signature: %s", signature, OneLine(err))}
	}
	if by, err = keys.Verify(s, digest); err != nil {
		return by, &notMeantError{fmt.Sprintf("%s: %s", signature, OneLine(err))}
	}
	return by, nil
}

// isUntrusted reports whether what is in charge of a file is not signed with a key that is
// trusted now.
func (t *files) isUntrusted(f *file) bool {
	keys := t.settings.TrustedKeys
	return f.unit != nil && len(keys) > 0 && !keys.Has(f.content.signer.ID)
}

// retireUntrusted takes what is in charge of a file out of service if its signer is not
// trusted, once nothing better was found in the file. What was verified stays in charge
// whatever becomes of the signature's file: it is for contents that come.
func (t *files) retireUntrusted(f *file) []action {
	if !t.isUntrusted(f) {
		return nil
	}
	return []action{settle{f.unit, given{grants: t.settings.Others}}, t.retire(f, f.reason)} // it may run tasks
}
