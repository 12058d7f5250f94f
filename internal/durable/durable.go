// Package durable puts files in their places whole: who reads one finds what was there before or
// what is there now, and what is there now outlives the machine's end. A file is written under a
// name beside its own, synced, and renamed, and its directory is synced. Of a process that was
// killed meanwhile at most that one name is left, locked by nobody, and the next write of the file
// takes it away, as [Sweep] does for files that nobody writes again.
//
// It must never know what is in the files. Start reading at [Replace]; files that are not all in
// memory, or wait for others before they have their names, are a [File].
package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wasmnode/wasmnode/internal/failpoint"
)

// suffix ends the name of a file that is being written, which a dot begins.
const suffix = ".unfinished"

func unfinished(path string) string {
	return filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+suffix)
}

// busyWait bounds how long a write waits for another one of the same file, and busyTick is how
// often it looks.
const (
	busyWait = 10 * time.Second
	busyTick = 10 * time.Millisecond
)

// ErrBusy is of a file that another has been writing for ten seconds.
var ErrBusy = errors.New("another process is writing it: try again when it is done")

// Replace writes a file, in the place of one that is there. The mode is exactly that, whatever the
// umask. Of several at once the last one wins. After an error the file is as it was, or, if only the
// directory could not be synced, as it is to be.
func Replace(path string, content []byte, mode fs.FileMode) error {
	f, err := Begin(path, mode)
	if err != nil {
		return err
	}
	defer f.Drop()
	if _, err := f.Write(content); err != nil {
		return err
	}
	return f.Commit()
}

// File is a file that is being written and has not its name yet. One goroutine uses it, and drops
// it in the end; it does not close it.
type File struct {
	*os.File // locked, so that others know that somebody writes it
	path     string
	done     bool
}

// Begin makes a file that is to be at a path. While another one is being written for the same path
// it waits, ten seconds at the most: the error is [ErrBusy] then. What a process that was killed has
// left of it is removed. Errors are one line that begins with the path.
func Begin(path string, mode fs.FileMode) (*File, error) {
	f, err := begin(unfinished(path), mode)
	if err != nil {
		if at := (*fs.PathError)(nil); errors.As(err, &at) {
			err = at.Err
		}
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &File{File: f, path: path}, nil
}

// begin returns a file of a name that is locked.
func begin(name string, mode fs.FileMode) (*os.File, error) {
	for deadline := time.Now().Add(busyWait); ; {
		f, err := create(name, mode)
		if !errors.Is(err, fs.ErrExist) {
			return f, err
		}
		gone, err := removeStale(name)
		switch {
		case err != nil:
			return nil, err
		case gone:
		case time.Now().After(deadline):
			return nil, ErrBusy
		default:
			time.Sleep(busyTick)
		}
	}
}

// create makes a file that is not there and locks it; [fs.ErrExist]: it is there, or was taken for
// a leftover before it was locked.
func create(name string, mode fs.FileMode) (_ *os.File, err error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			f.Close()
		}
	}()
	failpoint.Here("durable.made")
	if err := flock(f, unix.LOCK_EX); err != nil {
		return nil, errors.Join(err, os.Remove(name))
	}
	if !isAt(f, name) {
		return nil, fs.ErrExist
	}
	if mode != 0o600 {
		if err := f.Chmod(mode); err != nil {
			return nil, errors.Join(err, os.Remove(name))
		}
	}
	return f, nil
}

// Commit gives the file its name, in the place of one that has it, durably.
func (f *File) Commit() error {
	return f.place(func() error { return os.Rename(f.Name(), f.path) })
}

// CommitNew gives the file its name, durably. The error is [fs.ErrExist] if a file has it.
func (f *File) CommitNew() error {
	return f.place(func() error {
		if err := os.Link(f.Name(), f.path); err != nil {
			return err
		}
		failpoint.Here("durable.linked")
		return os.Remove(f.Name())
	})
}

func (f *File) place(give func() error) error {
	if err := f.Sync(); err != nil {
		return err
	}
	if err := give(); err != nil {
		return err
	}
	f.end()
	return SyncDir(filepath.Dir(f.path))
}

// Drop removes the file, unless it has its name or was dropped.
func (f *File) Drop() {
	if !f.done {
		_ = os.Remove(f.Name()) // the next write does it
		f.end()
	}
}

// end lets go of the lock by itself: a process that is being forked may have the file open for an
// instant longer.
func (f *File) end() {
	f.done = true
	_ = flock(f.File, unix.LOCK_UN) // closing it is enough
	f.Close()
}

// Sweep removes what was left in a directory of files whose writers were killed, of those with
// names that of holds for, and returns the names of what it has removed. What somebody writes stays;
// what cannot be removed keeps nothing else from it.
func Sweep(dir string, of func(name string) bool) (removed []string, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		hidden, is := strings.CutSuffix(e.Name(), suffix)
		name, dotted := strings.CutPrefix(hidden, ".")
		if !is || !dotted || !e.Type().IsRegular() || !of(name) {
			continue
		}
		stale, failed := removeStale(filepath.Join(dir, e.Name()))
		if err = errors.Join(err, failed); stale && failed == nil {
			removed = append(removed, e.Name())
		}
	}
	return removed, err
}

// removeStale removes an unfinished file unless somebody writes it, and reports whether it is gone.
func removeStale(name string) (bool, error) {
	if info, err := os.Lstat(name); err == nil && !info.Mode().IsRegular() {
		return false, fmt.Errorf("%s is in the way: remove it", name)
	}
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	switch err := flock(f, unix.LOCK_EX|unix.LOCK_NB); {
	case errors.Is(err, unix.EWOULDBLOCK):
		return false, nil
	case err != nil:
		return false, err
	case !isAt(f, name): // it has its name by now, and another may be being written
		return true, nil
	}
	return true, os.Remove(name)
}

// flock changes the lock of an open file.
func flock(f *os.File, how int) error {
	for {
		if err := unix.Flock(int(f.Fd()), how); !errors.Is(err, unix.EINTR) {
			if err != nil {
				err = &fs.PathError{Op: "flock", Path: f.Name(), Err: err}
			}
			return err
		}
	}
}

// isAt reports whether an open file still has that name.
func isAt(f *os.File, name string) bool {
	opened, err := f.Stat()
	if err != nil {
		return false
	}
	named, err := os.Lstat(name)
	return err == nil && os.SameFile(opened, named)
}

// SyncDir has the names in a directory outlive the machine's end. File systems that have nothing
// to do for that are no error.
func SyncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := dir.Sync(); err != nil && !errors.Is(err, unix.EINVAL) {
		return err
	}
	return nil
}
