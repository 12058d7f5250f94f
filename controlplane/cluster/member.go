package cluster

import (
	"errors"
	"io/fs"
	"os"
	"strings"

	"github.com/wasmnode/wasmnode/internal/durable"
)

// Member is the region whose servers a data directory belongs to, as a file in it says; empty:
// it belongs to none.
func Member(file string) (region string, err error) { return contentOf(file) }

// SetMember makes a data directory one of a region, durably, before anything of it is in there.
func SetMember(file, region string) error {
	if was, err := Member(file); err == nil && was == region {
		return nil
	}
	return durable.Replace(file, []byte(region+"\n"), 0o600)
}

// contentOf is what is in a small file, without the space around it; empty: there is none.
func contentOf(path string) (string, error) {
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return strings.TrimSpace(string(content)), err
}
