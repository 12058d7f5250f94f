package allocdir

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"syscall"
	"time"
)

// What a disk may have to be handed to another node.
const (
	// MaxDiskEntries is how many files, directories and links.
	MaxDiskEntries = 1_000_000
	// maxDiskDepth is how deep its directories may be: each is open while what is in it is read.
	maxDiskDepth = 128
	// maxPath bounds a name and the target of a link: Linux's own bound of a path.
	maxPath = 4096
)

// ErrTorn is returned when an archive was begun and could not be gone on with: what is there of it
// is none.
var ErrTorn = errors.New("the archive breaks off")

// Snapshot writes the allocation's disk as a tar archive: what is in the shared data directory
// and in the tasks' local ones, as Nomad's nodes hand it to each other. Sockets, pipes and devices are
// left out, and how many were is returned. After an error that is the disk's, the archive ends with a
// file that says so, and is whole; after one of w's or of ctx, or when a file shrinks while it is read,
// it is not: the error is ErrTorn.
func (d *Dir) Snapshot(ctx context.Context, w io.Writer) (leftOut int, err error) {
	s := &snapshot{ctx: ctx, out: tar.NewWriter(w)}
	err = s.disk(d.root)
	if err != nil && s.torn == nil && ctx.Err() == nil {
		s.tellFailure(path.Base(d.root), err)
	}
	if s.torn == nil && ctx.Err() == nil {
		_ = s.tear(s.out.Close()) // it is in s.torn
	}
	switch {
	case ctx.Err() != nil:
		return s.leftOut, fmt.Errorf("allocdir: snapshot: %w: %w", ErrTorn, ctx.Err())
	case s.torn != nil:
		return s.leftOut, fmt.Errorf("allocdir: snapshot: %w: %w", ErrTorn, s.torn)
	case err != nil:
		return s.leftOut, fmt.Errorf("allocdir: snapshot: %w", err)
	}
	return s.leftOut, nil
}

// snapshot is one that is being written. It belongs to one goroutine.
type snapshot struct {
	ctx              context.Context
	out              *tar.Writer
	entries, leftOut int
	torn             error // why nothing can be added any more; nil: it can
}

// tear records an error after which the archive cannot be gone on with.
func (s *snapshot) tear(err error) error {
	if s.torn == nil {
		s.torn = err
	}
	return err
}

func (s *snapshot) disk(dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return WithoutPath(err)
	}
	defer root.Close()
	if err := s.part(root, SharedName, DataName); err != nil {
		return err
	}
	top, err := root.Open(".")
	if err != nil {
		return WithoutPath(err)
	}
	defer top.Close()
	return eachEntry(top, func(info fs.FileInfo) error {
		if name := info.Name(); name != SharedName && info.IsDir() {
			return s.part(root, name, LocalName)
		}
		return nil
	})
}

// part writes one directory of the disk. One that is not there, or is a link, is none.
func (s *snapshot) part(root *os.Root, above, name string) error {
	for _, step := range []string{above, name} {
		next, err := enter(root, step)
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, errNoDirectory), errors.Is(err, errLink):
			return nil
		case err != nil:
			return WithoutPath(err)
		}
		defer next.Close()
		root = next
	}
	info, err := root.Stat(".")
	if err != nil {
		return WithoutPath(err)
	}
	if err := s.header(path.Join(above, name), info, ""); err != nil {
		return err
	}
	return s.dir(root, ".", path.Join(above, name), 0)
}

// dir writes what is in a directory, at is its name in the archive.
func (s *snapshot) dir(root *os.Root, name, at string, depth int) error {
	if depth > maxDiskDepth {
		return fmt.Errorf("its directories are more than %d deep", maxDiskDepth)
	}
	dir, err := root.OpenFile(name, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return WithoutPath(err)
	}
	defer dir.Close()
	return eachEntry(dir, func(info fs.FileInfo) error {
		return s.entry(root, path.Join(name, info.Name()), path.Join(at, info.Name()), info, depth)
	})
}

// eachEntry gives what is in a directory, some of it at a time: a task can make any number.
func eachEntry(dir *os.File, do func(fs.FileInfo) error) error {
	for {
		infos, err := dir.Readdir(listed)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return WithoutPath(err)
		}
		for _, info := range infos {
			if err := do(info); err != nil {
				return err
			}
		}
	}
}

func (s *snapshot) entry(root *os.Root, name, at string, info fs.FileInfo, depth int) error {
	switch info.Mode().Type() {
	case fs.ModeDir:
		if err := s.header(at, info, ""); err != nil {
			return err
		}
		return s.dir(root, name, at, depth+1)
	case fs.ModeSymlink:
		target, err := root.Readlink(name)
		if err != nil {
			return WithoutPath(err)
		}
		return s.header(at, info, target)
	case 0:
		return s.file(root, name, at)
	}
	s.leftOut++
	return nil
}

// file writes a regular file, as long as it is when it is opened.
func (s *snapshot) file(root *os.Root, name, at string) error {
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return WithoutPath(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return WithoutPath(err)
	}
	if !info.Mode().IsRegular() {
		return errReplaced
	}
	if err := s.header(at, info, ""); err != nil {
		return err
	}
	if _, err := io.CopyN(s.out, f, info.Size()); err != nil {
		return s.tear(fmt.Errorf("%s: %w", at, err))
	}
	return nil
}

// header begins an entry.
func (s *snapshot) header(name string, info fs.FileInfo, target string) error {
	if err := s.ctx.Err(); err != nil {
		return err
	}
	if s.entries++; s.entries > MaxDiskEntries {
		return fmt.Errorf("it has more than %d files", MaxDiskEntries)
	}
	h := &tar.Header{Name: name, Linkname: target, Mode: int64(info.Mode().Perm()), ModTime: info.ModTime()}
	switch {
	case info.IsDir():
		h.Typeflag, h.Name = tar.TypeDir, name+"/"
	case info.Mode()&fs.ModeSymlink != 0:
		h.Typeflag = tar.TypeSymlink
	default:
		h.Typeflag, h.Size = tar.TypeReg, info.Size()
	}
	if owner, ok := info.Sys().(*syscall.Stat_t); ok {
		h.Uid, h.Gid = int(owner.Uid), int(owner.Gid)
	}
	return s.tear(s.out.WriteHeader(h))
}

// failureName is that of the file by which a node of Nomad says that it could not make a snapshot.
func failureName(allocID string) string { return "NOMAD-" + allocID + "-ERROR.log" }

func (s *snapshot) tellFailure(allocID string, why error) {
	text := []byte("Error snapshotting: " + why.Error())
	h := &tar.Header{Typeflag: tar.TypeReg, Name: failureName(allocID), Mode: 0o666, Size: int64(len(text)), ModTime: time.Unix(0, 0)}
	if s.tear(s.out.WriteHeader(h)) == nil {
		_, err := s.out.Write(text)
		_ = s.tear(err) // it is in s.torn
	}
}
