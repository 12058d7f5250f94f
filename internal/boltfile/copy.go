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

// DefaultCopyEvery is how often the last good copy of a node's files is brought up to date:
// what a damaged file costs is the changes since, and a copy costs what writing the file
// once costs.
const DefaultCopyEvery = 5 * time.Minute

// CopyPath is where the last good copy of a file is.
func CopyPath(path string) string { return path + ".last-good" }

// copyLoop keeps the last good copy until the file is closed.
func (f *File) copyLoop(every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		f.keepCopy()
		select {
		case <-tick.C:
		case <-f.stop:
			return
		}
	}
}

// keepCopy brings the last good copy up to date. What keeps it from that is the file's
// business no further: the log tells it.
func (f *File) keepCopy() {
	f.copying.Lock()
	defer f.copying.Unlock()
	if err := f.copyIfChanged(); err != nil {
		f.opts.Logger.Warn("no copy of a file could be kept", "file", f.path, "copy", CopyPath(f.path), "error", err)
	}
}

// copyIfChanged makes the last good copy, unless there is one of what the file is now.
func (f *File) copyIfChanged() error {
	now, err := describe(f.path)
	if err != nil {
		return err
	}
	if copied, err := describe(CopyPath(f.path)); err == nil && copied == now {
		return nil
	}
	return copyTo(f.View, CopyPath(f.path))
}

// Forget has the last good copy know what was written before, for what must not come back
// with it. Where there is no room for a new copy, there is none from then on. It does nothing
// for a file of which no copy is kept.
func (f *File) Forget() error {
	if f.opts.CopyEvery == 0 {
		return nil
	}
	f.copying.Lock()
	defer f.copying.Unlock()
	if f.copyIfChanged() == nil {
		return nil
	}
	if err := os.Remove(CopyPath(f.path)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := durable.SyncDir(filepath.Dir(f.path)); err != nil {
		return err
	}
	if err := f.copyIfChanged(); err != nil {
		f.opts.Logger.Warn("the last good copy of a file was removed, since it could not be brought up to date", "file", f.path, "error", err)
	}
	return nil
}

// describe returns what a database says of itself. A copy says the same.
func describe(path string) (meta, error) {
	file, err := os.Open(path)
	if err != nil {
		return meta{}, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return meta{}, err
	}
	return newestMeta(file, info.Size())
}

// copyTo writes a consistent copy of a database, which is read by view.
func copyTo(view func(func(*bbolt.Tx) error) error, path string) error {
	return writeWhole(path, func(out io.Writer) error {
		return view(func(tx *bbolt.Tx) error {
			_, err := tx.WriteTo(out)
			return err
		})
	})
}

// writeWhole writes a database to a file, which is there whole and good or, if that fails,
// as it was before.
func writeWhole(path string, write func(io.Writer) error) error {
	out, err := durable.Begin(path, 0o600)
	if err != nil {
		return err
	}
	defer out.Drop()
	if err := write(out); err != nil {
		return err
	}
	if err := out.Sync(); err != nil {
		return err
	}
	if err := Verify(out.File); err != nil {
		return fmt.Errorf("%s: %w: %w", path, ErrCorrupt, err)
	}
	failpoint.Here(path, "rename")
	err = out.Commit()
	failpoint.Here(path, "renamed")
	return err
}
