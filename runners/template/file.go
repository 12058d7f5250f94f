package template

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"

	"github.com/wasmnode/wasmnode/internal/boltfile"
	"github.com/wasmnode/wasmnode/runners/allocdir"
)

// rendering is one rendering at work. It belongs to one goroutine.
type rendering struct {
	ctx   context.Context
	in    Input
	left  int               // bytes that functions may still make
	files map[string]string // read so far, with their stamps before
	// lookups are of the services and variables that were looked up so far, with the stamps
	// that they had.
	lookups   map[string]string
	missing   []string          // variables that it cannot do without
	secrets   map[string]bool   // values of variables
	secret    bool              // it has read a file that is one
	scratch   map[string]any    // what it puts aside
	keys      int               // made so far
	addresses map[string]string // what was asked about the machine's, with the answers
	// compared is how much was since somebody looked whether the time is over.
	compared int
}

// errMade is that functions make, or would make, too much.
var errMade = fmt.Errorf("it makes more than %d bytes of text on the way", maxMade)

// spend counts what a function made, or is about to make. It ends a rendering whose time is over.
func (r *rendering) spend(n int) error {
	if r.left -= n; r.left < 0 || n < 0 {
		return errMade
	}
	return r.ctx.Err()
}

// file reads a file of the task's for a template: nothing where it names none.
func (r *rendering) file(name string) (string, error) {
	if name = strings.TrimSpace(name); name == "" {
		return "", nil
	}
	return r.read(name)
}

// read reads a file of the task's.
func (r *rendering) read(name string) (string, error) {
	if _, known := r.files[name]; !known {
		r.files[name] = Stamp(r.in.Dir, name)
	}
	data, err := readFile(r.in.Dir, name)
	if err != nil {
		return "", err
	}
	r.secret = r.secret || r.in.Dir.Secret(name)
	return string(data), r.spend(len(data))
}

func readFile(dir *allocdir.TaskDir, name string) ([]byte, error) {
	root, rel, err := dir.Place(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }()
	// A pipe that the task put there must not hold the agent up.
	f, err := root.OpenFile(rel, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, fileFailed(name, err)
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return nil, fileFailed(name, err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%w %q: it is not a regular file", ErrFile, name)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxSource+1))
	if err != nil {
		return nil, fileFailed(name, err)
	}
	if len(data) > maxSource {
		return nil, fmt.Errorf("%w %q: it has more than %d bytes", ErrFile, name, maxSource)
	}
	return data, nil
}

// fileFailed describes what failed with a file, without where it is on the host.
func fileFailed(name string, err error) error {
	return fmt.Errorf("%w %q: %w", ErrFile, name, allocdir.WithoutPath(err))
}

// Stamp shows whether a file has changed since, without reading it: two stamps are equal
// if it has not. A file that is not there has one, too.
func Stamp(dir *allocdir.TaskDir, name string) string {
	root, rel, err := dir.Place(name)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = root.Close() }()
	info, err := root.Stat(rel)
	if err != nil {
		return err.Error()
	}
	inode := uint64(0)
	if s, is := info.Sys().(*syscall.Stat_t); is {
		inode = s.Ino
	}
	return fmt.Sprintf("%d %d %d", inode, info.Size(), info.ModTime().UnixNano())
}

// Current reads what is at the destination now; nil: nothing that can be read.
func (t *Template) Current(in Input) []byte {
	data, err := readFile(in.Dir, in.Env.Replace(t.Destination))
	if err != nil {
		return nil
	}
	return data
}

// Write writes a rendering to the destination, whole or not at all.
func (t *Template) Write(in Input, content []byte) error {
	dest := in.Env.Replace(t.Destination)
	root, rel, err := in.Dir.Place(dest)
	if err != nil {
		return fmt.Errorf("destination: %w", err)
	}
	defer func() { _ = root.Close() }()
	if err := allocdir.Replace(root, rel, content, t.perms, t.uid, t.gid, "template"); err != nil {
		if boltfile.IsFull(err) {
			err = errors.New("the node's disk is full")
		}
		return fileFailed(dest, err)
	}
	return nil
}
