package cluster

import (
	"errors"
	"io/fs"
	"os"
	"strings"

	"github.com/wasmnode/wasmnode/internal/durable"
)

// Note is a small text that is kept in a file of the data directory, as the region whose servers
// it belongs to; empty: there is none.
func Note(file string) (text string, err error) { return contentOf(file) }

// SetNote keeps such a text durably, readable by the file's owner only.
func SetNote(file, text string) error {
	if was, err := contentOf(file); err == nil && was == text {
		return nil
	}
	return durable.Replace(file, []byte(text+"\n"), 0o600)
}

// contentOf is what is in a small file, without the space around it; empty: there is none.
func contentOf(path string) (string, error) {
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return strings.TrimSpace(string(content)), err
}
