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
	"strings"

	"github.com/wasmnode/wasmnode/internal/durable"
	"github.com/wasmnode/wasmnode/internal/regularfile"
)

// signatureSuffix ends the name of a plugin's signature, after that of its file.
const signatureSuffix = ".sig"

// fileMode has everybody read what is in a plugin directory.
const fileMode = 0o644

// WriteFile puts a file into a plugin directory, in the place of one that is there: at once,
// and durably.
func WriteFile(dir, name string, content []byte) error {
	return durable.Replace(filepath.Join(dir, name), content, fileMode)
}

// Stage writes a file that is to be called name, durably, under a name that no catalog looks at.
func Stage(dir, name string, content []byte) (*durable.File, error) {
	return StageFrom(dir, name, func(w io.Writer) error {
		_, err := w.Write(content)
		return err
	})
}

// StageFrom is [Stage] for a content that is not all in memory.
func StageFrom(dir, name string, write func(w io.Writer) error) (*durable.File, error) {
	f, err := durable.Begin(filepath.Join(dir, name), fileMode)
	if err != nil {
		return nil, err
	}
	if err := write(f); err != nil {
		f.Drop()
		return nil, err
	}
	if err := f.Sync(); err != nil {
		f.Drop()
		return nil, err
	}
	return f, nil
}

// Sweep removes what whoever changed a plugin directory left behind when it was killed, and
// returns the names of what it has removed. What somebody uses stays.
func Sweep(dir string) (removed []string, err error) {
	return durable.Sweep(dir, func(name string) bool {
		return name == FileName || IsPluginFile(strings.TrimSuffix(name, signatureSuffix))
	})
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
