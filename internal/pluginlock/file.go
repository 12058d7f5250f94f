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
	"slices"

	"golang.org/x/sys/unix"
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
type Staged struct{ path, to string }

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
	s := &Staged{f.Name(), filepath.Join(dir, name)}
	defer func() {
		if err != nil {
			s.Drop()
		}
	}()
	defer f.Close()
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
	if err := os.Rename(s.path, s.to); err != nil {
		return err
	}
	s.path = ""
	return syncDir(filepath.Dir(s.to))
}

// Drop removes the file unless it has its name.
func (s *Staged) Drop() {
	if s.path != "" {
		os.Remove(s.path)
	}
}

// Hold waits until no other process changes a plugin directory by this package, and keeps
// others from it until release is called.
func Hold(dir string) (release func(), err error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(d.Fd()), unix.LOCK_EX); err != nil {
		d.Close()
		return nil, fmt.Errorf("%s: flock: %w", dir, err)
	}
	return func() { d.Close() }, nil
}

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
	f, err := os.Open(path)
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
