package pluginlock

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/wasmnode/wasmnode/internal/regularfile"
)

// WriteFile puts a file into a plugin directory, in the place of one that is there: at once,
// and durably. After an error the directory is as it was.
func WriteFile(dir, name string, content []byte) error {
	s, err := Stage(dir, name, content)
	if err != nil {
		return err
	}
	defer s.Drop()
	return s.Commit()
}

// Staged is a file of a plugin directory under a name that no catalog looks at. One goroutine
// uses it, and drops it in the end.
type Staged struct {
	file *os.File // locked, so that others know that somebody uses it; nil: dropped, or committed
	to   string
}

// Stage writes a file that is to be called name, durably.
func Stage(dir, name string, content []byte) (*Staged, error) {
	return StageFrom(dir, name, func(w io.Writer) error {
		_, err := w.Write(content)
		return err
	})
}

// StageFrom is [Stage] for a content that is not all in memory.
func StageFrom(dir, name string, write func(w io.Writer) error) (_ *Staged, err error) {
	f, err := os.CreateTemp(dir, "."+name+".*")
	if err != nil {
		return nil, err
	}
	s := &Staged{f, filepath.Join(dir, name)}
	defer func() {
		if err != nil {
			s.Drop()
		}
	}()
	if err = lock(f); err != nil {
		return nil, fmt.Errorf("%s: flock: %w", f.Name(), err)
	}
	if err = write(f); err != nil {
		return nil, err
	}
	if err = f.Chmod(0o644); err != nil {
		return nil, err
	}
	return s, f.Sync()
}

// Commit gives the file its name, in the place of one that has it.
func (s *Staged) Commit() error {
	if err := os.Rename(s.file.Name(), s.to); err != nil {
		return err
	}
	s.file.Close()
	s.file = nil
	return syncDir(filepath.Dir(s.to))
}

// Drop removes the file unless it has its name.
func (s *Staged) Drop() {
	if s.file == nil {
		return
	}
	os.Remove(s.file.Name())
	s.file.Close()
	s.file = nil
}

// stagedName is how staged files of plugin directories are called.
var stagedName = regexp.MustCompile(`^\..+\.(wasm|wasm\.sig|lock)\.[0-9]+$`)

// Sweep removes what whoever changed a plugin directory left behind when it was killed, and
// returns the files' names. What somebody uses stays.
func Sweep(dir string) (removed []string, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if !stagedName.MatchString(e.Name()) || !e.Type().IsRegular() {
			continue
		}
		switch stale, err := removeStale(filepath.Join(dir, e.Name())); {
		case err != nil:
			return removed, err
		case stale:
			removed = append(removed, e.Name())
		}
	}
	return removed, nil
}

// removeStale removes a staged file unless it is used, and reports whether it was not.
func removeStale(path string) (bool, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil // committed, or dropped
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	switch err := lock(f); {
	case errors.Is(err, unix.EWOULDBLOCK):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("%s: flock: %w", path, err)
	}
	return true, os.Remove(path)
}

// lock takes the lock of an open file, or fails at once: with EWOULDBLOCK if another has it.
func lock(f *os.File) error { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) }

// syncDir makes the names in a directory durable.
func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// Files returns the names of the plugins' files in a directory, sorted.
func Files(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir) // sorted
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if IsPluginFile(e.Name()) {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// A Difference is a file that is not what the lock says.
type Difference struct {
	File string
	What string // on one line
}

// Verify compares a directory with its lock, by file. An error means that this could not be
// found out.
func (l *Lock) Verify(dir string) ([]Difference, error) {
	found, err := Files(dir)
	if err != nil {
		return nil, err
	}
	names := slices.Clone(found)
	for _, e := range l.Plugins {
		names = append(names, e.File)
	}
	slices.Sort(names)
	var differences []Difference
	for _, name := range slices.Compact(names) {
		what, err := l.difference(dir, name)
		if err != nil {
			return nil, err
		}
		if what != "" {
			differences = append(differences, Difference{name, what})
		}
	}
	return differences, nil
}

// difference returns what is wrong with a file; "": it is what the lock says.
func (l *Lock) difference(dir, name string) (string, error) {
	e, locked := l.Entry(name)
	if !locked {
		return "not in the lock", nil
	}
	info, err := os.Stat(filepath.Join(dir, name))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "missing", nil
	case err != nil:
		return "", err
	case !info.Mode().IsRegular():
		return "changed: it is not a regular file", nil
	case info.Size() != e.Size:
		return fmt.Sprintf("changed: it has %d bytes, the lock says %d", info.Size(), e.Size), nil
	}
	digest, err := digestOf(filepath.Join(dir, name))
	if err != nil || digest == e.SHA256 {
		return "", err
	}
	return fmt.Sprintf("changed: its SHA-256 is %s, the lock says %s", digest, e.SHA256), nil
}

// digestOf returns a file's SHA-256, in hexadecimal.
func digestOf(path string) (string, error) {
	f, _, err := regularfile.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
