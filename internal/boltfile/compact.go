package boltfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"go.etcd.io/bbolt"

	"github.com/wasmnode/wasmnode/internal/durable"
	"github.com/wasmnode/wasmnode/internal/failpoint"
)

// leastCompacted is how large a file is at least that is made smaller, in bytes.
const leastCompacted = 8 << 20

// compactedTx is how much is copied in a transaction, in bytes.
const compactedTx = 1 << 20

// isWasteful reports whether three quarters of a file hold nothing: bbolt uses them again, and never
// gives them back to the disk. Of a file that grows half may be empty.
func isWasteful(db *bbolt.DB) bool {
	info, err := os.Stat(db.Path())
	if err != nil || info.Size() < leastCompacted || db.IsReadOnly() {
		return false
	}
	counted := errors.New("counted")
	_ = db.Update(func(*bbolt.Tx) error { return counted }) // writes nothing
	return inUse(db) < info.Size()/4
}

// compact puts a file in the place of an open one, with the same in it and without its free pages. The
// open one is locked until its name is the new one's, and is to be closed then: replaced says so, also with
// an error.
func compact(db *bbolt.DB, opts Options) (replaced bool, _ error) {
	path := db.Path()
	small := path + ".compact" // nobody else writes it: we have the file's lock
	if err := os.Remove(small); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	if err := copyCompact(db, small); err != nil {
		return false, errors.Join(err, os.RemoveAll(small))
	}
	before, err := os.Stat(path)
	if err != nil {
		return false, err
	}
	after, err := os.Stat(small)
	if err != nil {
		return false, err
	}
	failpoint.Here(path, "compact")
	if err := os.Rename(small, path); err != nil {
		return false, err
	}
	failpoint.Here(path, "compacted")
	opts.Logger.Info("a file was made smaller", "file", path, "bytes", after.Size(), "before", before.Size())
	return true, durable.SyncDir(filepath.Dir(path))
}

// copyCompact copies what is in a database to a new file, which is durable and good then.
func copyCompact(db *bbolt.DB, path string) error {
	small, err := bbolt.Open(path, 0o600, &bbolt.Options{FreelistType: bbolt.FreelistMapType, NoFreelistSync: true})
	if err != nil {
		return err
	}
	if err := errors.Join(bbolt.Compact(small, db, compactedTx), small.Sync(), small.Close()); err != nil {
		return err
	}
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := Verify(file); err != nil {
		return fmt.Errorf("%s: %w: %w", path, ErrCorrupt, err)
	}
	return nil
}
