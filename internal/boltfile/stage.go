package boltfile

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/bbolt"

	"github.com/wasmnode/wasmnode/internal/durable"
	"github.com/wasmnode/wasmnode/internal/failpoint"
)

// stagedPath is where a database waits for the next Open of a file, whose place it takes.
func stagedPath(path string) string { return path + ".restore" }

// Stage has another database take the file's place at the next Open, whole or, if that
// fails, not at all. This file goes on until then. The database has to be one that Open
// would open; one that was staged before is forgotten.
func (f *File) Stage(write func(io.Writer) error) error {
	f.staging.Lock()
	defer f.staging.Unlock()
	staged := stagedPath(f.path)
	unchecked := staged + ".unchecked"
	defer os.Remove(unchecked)
	if err := writeWhole(unchecked, write); err != nil {
		return err
	}
	if err := fits(unchecked, f.opts); err != nil {
		return err
	}
	failpoint.Here(staged, "stage")
	if err := os.Rename(unchecked, staged); err != nil {
		return err
	}
	failpoint.Here(staged, "staged")
	return durable.SyncDir(filepath.Dir(staged))
}

// fits refuses a database that is not one for this program.
func fits(path string, opts Options) error {
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true, Timeout: opts.LockWait})
	if err != nil {
		return err
	}
	h, err := readHeader(db, path, opts)
	switch {
	case err != nil:
	case h == nil:
		err = corrupt(path, opts, errLost)
	default:
		err = h.fits(path, opts)
	}
	return errors.Join(err, db.Close())
}

// takeStaged puts a staged database in a file's place, and keeps the file under another
// name.
func takeStaged(path string, opts Options) error {
	staged := stagedPath(path)
	file, err := os.Open(staged)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w", opts.Kind, err)
	}
	defer file.Close()
	handle, err := lock(path, opts)
	if err != nil {
		return err
	}
	defer handle.Close()
	if err := Verify(file); err != nil {
		return fmt.Errorf("%s %s: %w: %w; move it away to go on with what was there before, or restore the snapshot again", opts.Kind, staged, ErrCorrupt, err)
	}
	kept := path + replacedFile + time.Now().UTC().Format(timeInName)
	if err := os.Link(path, kept); err != nil {
		return fmt.Errorf("%s %s: keeping it as it was: %w", opts.Kind, path, err)
	}
	failpoint.Here(staged, "take")
	if err := os.Rename(staged, path); err != nil {
		return fmt.Errorf("%s: %w", opts.Kind, err)
	}
	failpoint.Here(staged, "taken")
	opts.Logger.Warn("a restored snapshot took a file's place", "file", path, "kept_as", kept)
	prune(path, replacedFile, opts.Logger)
	if opts.Restored != nil {
		opts.Restored()
	}
	return durable.SyncDir(filepath.Dir(path))
}
