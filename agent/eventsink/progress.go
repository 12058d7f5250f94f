package eventsink

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/wasmnode/wasmnode/internal/durable"
)

// readProgress reads an index; nil: none was written.
func readProgress(path string) (*uint64, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	index, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return nil, fmt.Errorf("%s: there is no index in it", path)
	}
	return &index, nil
}

// writeProgress takes the place of the index that was written, in one step.
func writeProgress(path string, index uint64) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return durable.Replace(path, []byte(strconv.FormatUint(index, 10)+"\n"), 0o600)
}
