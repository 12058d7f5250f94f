package allocdir

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// ErrSecret is returned for what is in a secrets directory.
var ErrSecret = errors.New("allocdir: secrets are not readable from outside the task")

// ErrNotRegular is returned when a file to be read is a directory, pipe, device or socket.
var ErrNotRegular = errors.New("allocdir: not a regular file")

// maxListed is how many entries of a directory are listed. A task can make any number, and the
// agent holds all that it lists.
const maxListed = 10_000

// listed is how many entries are read at a time.
const listed = 1000

// Entry is a file or directory as a user of the file API sees it.
type Entry struct {
	Name    string
	IsDir   bool
	Size    int64
	Mode    fs.FileMode
	ModTime time.Time
}

func entryOf(info fs.FileInfo) Entry {
	return Entry{
		Name: info.Name(), IsDir: info.IsDir(), Size: info.Size(),
		Mode: info.Mode(), ModTime: info.ModTime(),
	}
}

// List lists a directory by name. The path is relative to the allocation's directory;
// one that leads out of it, through symbolic links too, is an error. So is a directory of
// more than maxListed entries.
func (d *Dir) List(name string) ([]Entry, error) {
	at, err := d.area(name)
	if err != nil {
		return nil, err
	}
	defer at.root.Close()
	dir, err := at.root.OpenFile(at.rest, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("allocdir: list: %w", err)
	}
	defer dir.Close()
	entries := []Entry{}
	for {
		infos, err := dir.Readdir(listed)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("allocdir: list: %w", err)
		}
		for _, info := range infos {
			entries = append(entries, entryOf(info))
		}
		if len(entries) > maxListed {
			return nil, fmt.Errorf("allocdir: list: %q has more than %d entries", name, maxListed)
		}
	}
	slices.SortFunc(entries, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
	return entries, nil
}

// Stat describes a file or directory. Paths are as for List.
func (d *Dir) Stat(name string) (Entry, error) {
	at, err := d.area(name)
	if err != nil {
		return Entry{}, err
	}
	defer at.root.Close()
	look := at.root.Stat
	if at.exact {
		look = at.root.Lstat
	}
	info, err := look(at.rest)
	if err != nil {
		return Entry{}, fmt.Errorf("allocdir: stat: %w", err)
	}
	e := entryOf(info)
	e.Name = path.Base(clean(name))
	return e, nil
}

// Open opens a regular file for reading at an offset. Paths are as for List.
func (d *Dir) Open(name string, offset int64) (io.ReadCloser, error) {
	at, err := d.area(name)
	if err != nil {
		return nil, err
	}
	defer at.root.Close()
	// Without O_NONBLOCK opening a pipe that a task made would wait for its writer.
	f, err := at.root.OpenFile(at.rest, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("allocdir: open: %w", err)
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%w: %s", ErrNotRegular, name)
	}
	if err == nil && at.exact {
		err = same(at, info)
	}
	if err == nil {
		_, err = f.Seek(offset, io.SeekStart)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("allocdir: open: %w", err)
	}
	return f, nil
}

// clean makes a path of the API's relative and lexically free of "..".
func clean(name string) string {
	return strings.TrimPrefix(path.Clean("/"+filepath.ToSlash(name)), "/")
}

// place is where a path leads: a path within a tree that it cannot leave.
type place struct {
	root *os.Root
	rest string
	// exact: rest is not to be followed when it is a link.
	exact bool
}

// same checks that what was opened is what has the name, not what a link led to.
func same(at place, opened fs.FileInfo) error {
	named, err := at.root.Lstat(at.rest)
	if err == nil && !os.SameFile(named, opened) {
		err = errReplaced
	}
	return err
}

// area opens the smallest directory tree that a path may be answered from, and gives
// the path within it. Symbolic links are followed within that tree only, so that no
// link that a task makes leads to secrets, its own or another task's:
//
//	""            the allocation's directory, for listing
//	alloc/…       the shared directory
//	TASK          the task's directory, for listing
//	TASK/DIR/…    that directory
//	TASK/secrets  refused
func (d *Dir) area(name string) (place, error) {
	parts := strings.Split(clean(name), "/")
	depth := 2
	if parts[0] == SharedName {
		depth = 1
	}
	if len(parts) >= 2 && depth == 2 && parts[1] == SecretsName {
		return place{}, ErrSecret
	}
	root, err := os.OpenRoot(d.root)
	if err != nil {
		return place{}, fmt.Errorf("allocdir: %w", err)
	}
	for i := 0; i < depth && i < len(parts) && parts[i] != ""; i++ {
		sub, err := enter(root, parts[i])
		if errors.Is(err, errNoDirectory) && i == len(parts)-1 {
			return place{root, parts[i], true}, nil // a file
		}
		root.Close()
		if err != nil {
			return place{}, fmt.Errorf("allocdir: %s: %w", name, err)
		}
		root = sub
	}
	rest := "."
	if len(parts) > depth {
		rest = path.Join(parts[depth:]...)
	}
	return place{root: root, rest: rest}, nil
}

var (
	errNoDirectory = errors.New("is not a directory")
	errLink        = errors.New("is a symbolic link")
	errReplaced    = errors.New("was replaced while it was read")
)

// enter opens a subdirectory that is one itself, not a link to one. A task that swaps
// it in between is found out, because what was opened is not what was looked at.
func enter(root *os.Root, name string) (*os.Root, error) {
	looked, err := root.Lstat(name)
	if err != nil {
		return nil, err
	}
	if looked.Mode().Type() == fs.ModeSymlink {
		return nil, errLink
	}
	if !looked.IsDir() {
		return nil, errNoDirectory
	}
	sub, err := root.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	opened, err := sub.Stat(".")
	if err != nil || !os.SameFile(looked, opened) {
		sub.Close()
		return nil, errReplaced
	}
	return sub, nil
}
