// Package pluginlock reads, writes and compares the lock file of a plugin directory: which
// files belong in it, and what is in each. The agent takes nothing else from a directory
// that has one.
//
// The package must never know what a plugin is: whoever writes a lock says what it is called.
//
// Start reading at [Lock] and [Lock.Refusal].
package pluginlock

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/wasmnode/wasmnode/internal/durable"
	"github.com/wasmnode/wasmnode/internal/regularfile"
)

const (
	// FileName is that of a plugin directory's lock file.
	FileName = "plugins.lock"
	// PluginSuffix is how the names of plugins' files end.
	PluginSuffix = ".wasm"
	// MaxBytes bounds a lock file.
	MaxBytes = 1 << 20
	// format is the version of the lock file's form.
	format = 1
)

// Lock is what a plugin directory has in it. It is a value that is not changed. Nil locks
// nothing.
type Lock struct {
	Version int     `json:"version"` // of the form
	Plugins []Entry `json:"plugins"` // sorted by file, each once
}

// Entry is a plugin's file.
type Entry struct {
	File string `json:"file"` // its name in the directory
	// Name and PluginVersion are the plugin's own words, for people.
	Name          string `json:"name"`
	PluginVersion string `json:"plugin_version,omitempty"`
	SHA256        string `json:"sha256"` // in lower-case hexadecimal
	Size          int64  `json:"size"`   // in bytes
	Source        string `json:"source,omitempty"`
}

// New returns the lock of some files.
func New(entries []Entry) *Lock {
	sorted := slices.Clone(entries)
	if sorted == nil {
		sorted = []Entry{}
	}
	slices.SortFunc(sorted, func(a, b Entry) int { return cmp.Compare(a.File, b.File) })
	return &Lock{Version: format, Plugins: sorted}
}

// Parse reads a lock file's text. The error says on one line what is wrong with it.
func Parse(text []byte) (*Lock, error) {
	if len(text) > MaxBytes {
		return nil, fmt.Errorf("it has more than %d bytes", MaxBytes)
	}
	var l Lock
	// A later form may have other members: which one it is comes first.
	if err := json.Unmarshal(text, &struct {
		Version *int `json:"version"`
	}{&l.Version}); err == nil && l.Version != format {
		return nil, fmt.Errorf("it is of version %d, and this is a program for version %d", l.Version, format)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&l); err != nil {
		return nil, at(text, err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows its end")
	}
	for i, e := range l.Plugins {
		if err := e.check(); err != nil {
			return nil, err
		}
		if i > 0 && l.Plugins[i-1].File >= e.File {
			return nil, fmt.Errorf("%q is there twice, or not in its place: files are sorted", e.File)
		}
	}
	return &l, nil
}

// at adds the line to an error of the JSON decoder.
func at(text []byte, err error) error {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	offset := int64(len(text))
	switch {
	case errors.As(err, &syntax):
		offset = syntax.Offset
	case errors.As(err, &kind):
		offset = kind.Offset
	case !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF):
		return err // an unknown member, which is named
	}
	return fmt.Errorf("line %d: %w", 1+bytes.Count(text[:min(offset, int64(len(text)))], []byte("\n")), err)
}

// check reports what is wrong with an entry.
func (e Entry) check() error {
	switch digest, err := hex.DecodeString(e.SHA256); {
	case !IsPluginFile(e.File):
		return fmt.Errorf("%q is not the name of a plugin's file: it ends in %s and begins with no dot", e.File, PluginSuffix)
	case err != nil || len(digest) != 32 || strings.ToLower(e.SHA256) != e.SHA256:
		return fmt.Errorf("%s: %q is not a SHA-256 in lower-case hexadecimal", e.File, e.SHA256)
	case e.Size < 0:
		return fmt.Errorf("%s: its size is negative", e.File)
	}
	return nil
}

// IsPluginFile reports whether that is the name of a file that a plugin directory's plugins
// are looked for in.
func IsPluginFile(name string) bool {
	return strings.HasSuffix(name, PluginSuffix) && !strings.HasPrefix(name, ".") && filepath.Base(name) == name
}

// Read reads the lock file of a plugin directory. The error is one of [fs.ErrNotExist] if
// there is none.
func Read(dir string) (*Lock, error) {
	path := filepath.Join(dir, FileName)
	text, err := readFile(path, MaxBytes)
	if err != nil {
		return nil, err
	}
	l, err := Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return l, nil
}

// readFile reads a regular file, and at most a byte beyond the limit.
func readFile(path string, limit int64) ([]byte, error) {
	f, _, err := regularfile.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, limit+1))
}

// ReadIfAny is [Read], and nil where there is no lock file.
func ReadIfAny(dir string) (*Lock, error) {
	l, err := Read(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return l, err
}

// Write puts a lock file into a plugin directory, in the place of one that is there. What
// reads it meanwhile finds the one or the other, whole, also after a loss of power.
func (l *Lock) Write(dir string) error {
	s, err := l.Stage(dir)
	if err != nil {
		return err
	}
	defer s.Drop()
	return s.Commit()
}

// Stage writes a lock file that has not its name yet.
func (l *Lock) Stage(dir string) (*durable.File, error) {
	text, err := l.text()
	if err != nil {
		return nil, err
	}
	return Stage(dir, FileName, text)
}

// text is what is in the lock's file.
func (l *Lock) text() ([]byte, error) {
	text, err := json.MarshalIndent(l, "", "  ")
	if err != nil {
		return nil, err
	}
	text = append(text, '\n')
	if _, err := Parse(text); err != nil {
		return nil, fmt.Errorf("%s: %w", FileName, err)
	}
	return text, nil
}

// Entry returns the entry of a file, and whether there is one.
func (l *Lock) Entry(file string) (Entry, bool) {
	if l == nil {
		return Entry{}, false
	}
	i, found := slices.BinarySearchFunc(l.Plugins, file, func(e Entry, file string) int { return cmp.Compare(e.File, file) })
	if !found {
		return Entry{}, false
	}
	return l.Plugins[i], true
}

// With returns the lock with an entry, in the place of that of its file.
func (l *Lock) With(e Entry) *Lock {
	var entries []Entry
	if l != nil {
		entries = slices.DeleteFunc(slices.Clone(l.Plugins), func(o Entry) bool { return o.File == e.File })
	}
	return New(append(entries, e))
}

// Refusal returns why a file of that digest does not belong in the directory; nil: it does.
func (l *Lock) Refusal(file, digest string) error {
	if l == nil {
		return nil
	}
	switch e, locked := l.Entry(file); {
	case !locked:
		return fmt.Errorf("it is not in %s: remove it, or have it in: wasmnode plugin lock", FileName)
	case e.SHA256 != digest:
		return fmt.Errorf("its SHA-256 is %s, %s says %s: put the right file back, or take this one: wasmnode plugin lock", digest, FileName, e.SHA256)
	}
	return nil
}
