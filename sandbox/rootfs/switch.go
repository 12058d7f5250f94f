package rootfs

import (
	"io"
	"io/fs"

	experimentalsys "github.com/tetratelabs/wazero/experimental/sys"
	"github.com/tetratelabs/wazero/sys"
)

// Switch is a directory that a guest sees at one place for as long as it lives, and that is
// another one of the host's from call to call, or none: it is empty then, and nothing can be
// made in it. The guest may use it while it is in a call; it is switched between two.
type Switch struct {
	experimentalsys.UnimplementedFS
	open    func() (*FS, error) // nil: there is none now
	current *FS                 // nil: it was not used yet
	failed  error
	done    func() <-chan struct{}
	dirs    virtualDirs
}

// NewSwitch returns one without a directory. What done returns is as in [FS.StopOn].
func NewSwitch(done func() <-chan struct{}) *Switch { return &Switch{done: done} }

// Set makes it the directory that open opens, when it is used for the first time.
func (s *Switch) Set(open func() (*FS, error)) { s.open = open }

// Clear makes it none, closes what the guest left open, and returns how much that was.
func (s *Switch) Clear() (left int) {
	if s.current != nil {
		left = s.current.OpenFiles()
		_ = s.current.Close() // it was opened for reading
	}
	s.open, s.current, s.failed = nil, nil, nil
	return left
}

// now returns the directory that it is. ENOENT: none.
func (s *Switch) now() (*FS, experimentalsys.Errno) {
	switch {
	case s.current != nil:
		return s.current, 0
	case s.failed != nil:
		return nil, errno(s.failed)
	case s.open == nil:
		return nil, experimentalsys.ENOENT
	}
	if s.current, s.failed = s.open(); s.failed != nil {
		return nil, errno(s.failed)
	}
	s.current.StopOn(s.done)
	return s.current, 0
}

// OpenFile opens a file, or the directory itself, which then is what the switch is at the time:
// it is open [MaxOpenFiles] times at most.
func (s *Switch) OpenFile(name string, flag experimentalsys.Oflag, perm fs.FileMode) (experimentalsys.File, experimentalsys.Errno) {
	if local(name) == "." {
		dir, no := s.dirs.add(flag)
		if no != 0 {
			return nil, no
		}
		return &switchDir{virtualDir: dir, to: s}, 0
	}
	to, no := s.now()
	if no != 0 {
		return nil, no
	}
	return to.OpenFile(name, flag, perm)
}

// Lstat describes a path without following its last link.
func (s *Switch) Lstat(name string) (sys.Stat_t, experimentalsys.Errno) {
	return s.describe(name, (*FS).Lstat)
}

// Stat describes a path, following links that stay inside.
func (s *Switch) Stat(name string) (sys.Stat_t, experimentalsys.Errno) {
	return s.describe(name, (*FS).Stat)
}

func (s *Switch) describe(name string, stat func(*FS, string) (sys.Stat_t, experimentalsys.Errno)) (sys.Stat_t, experimentalsys.Errno) {
	to, no := s.now()
	switch {
	case no == 0:
		return stat(to, name)
	case local(name) == ".":
		return sys.Stat_t{Mode: fs.ModeDir | 0o555, Nlink: 1}, 0
	}
	return sys.Stat_t{}, no
}

// Readlink returns where a link points to.
func (s *Switch) Readlink(name string) (string, experimentalsys.Errno) {
	to, no := s.now()
	if no != 0 {
		return "", no
	}
	return to.Readlink(name)
}

// change changes something in the directory that it is.
func (s *Switch) change(change func(to *FS) experimentalsys.Errno) experimentalsys.Errno {
	to, no := s.now()
	if no != 0 {
		return no
	}
	return change(to)
}

// Mkdir makes a directory.
func (s *Switch) Mkdir(name string, perm fs.FileMode) experimentalsys.Errno {
	return s.change(func(to *FS) experimentalsys.Errno { return to.Mkdir(name, perm) })
}

// Chmod changes permission bits.
func (s *Switch) Chmod(name string, perm fs.FileMode) experimentalsys.Errno {
	return s.change(func(to *FS) experimentalsys.Errno { return to.Chmod(name, perm) })
}

// Rename moves a file within the directory.
func (s *Switch) Rename(from, to string) experimentalsys.Errno {
	return s.change(func(dir *FS) experimentalsys.Errno { return dir.Rename(from, to) })
}

// Rmdir removes an empty directory.
func (s *Switch) Rmdir(name string) experimentalsys.Errno {
	return s.change(func(to *FS) experimentalsys.Errno { return to.Rmdir(name) })
}

// Unlink removes a file or a link.
func (s *Switch) Unlink(name string) experimentalsys.Errno {
	return s.change(func(to *FS) experimentalsys.Errno { return to.Unlink(name) })
}

// Link makes a hard link within the directory.
func (s *Switch) Link(from, to string) experimentalsys.Errno {
	return s.change(func(dir *FS) experimentalsys.Errno { return dir.Link(from, to) })
}

// Symlink makes a symbolic link; see [FS.Symlink].
func (s *Switch) Symlink(target, name string) experimentalsys.Errno {
	return s.change(func(to *FS) experimentalsys.Errno { return to.Symlink(target, name) })
}

// Utimens changes access and modification times.
func (s *Switch) Utimens(name string, atim, mtim int64) experimentalsys.Errno {
	return s.change(func(to *FS) experimentalsys.Errno { return to.Utimens(name, atim, mtim) })
}

// switchDir is the open directory: that which the switch is when it is used.
type switchDir struct {
	virtualDir
	to      *Switch
	listing experimentalsys.File // nil: it is not being listed
	of      *FS                  // whose listing it is
}

func (d *switchDir) Stat() (sys.Stat_t, experimentalsys.Errno) { return d.to.Stat(".") }

// Seek begins the listing again.
func (d *switchDir) Seek(offset int64, whence int) (int64, experimentalsys.Errno) {
	if offset != 0 || whence != io.SeekStart {
		return 0, experimentalsys.EINVAL
	}
	return 0, d.endListing()
}

// Readdir lists the directory. A listing does not go on in another one.
func (d *switchDir) Readdir(n int) ([]experimentalsys.Dirent, experimentalsys.Errno) {
	to, no := d.to.now()
	if no == experimentalsys.ENOENT {
		return nil, 0
	}
	if no != 0 {
		return nil, no
	}
	if d.of != to {
		listing, no := to.OpenFile(".", experimentalsys.O_RDONLY, 0)
		if no != 0 {
			return nil, no
		}
		d.listing, d.of = listing, to
	}
	return d.listing.Readdir(n)
}

func (d *switchDir) endListing() experimentalsys.Errno {
	if d.listing == nil {
		return 0
	}
	listing := d.listing
	d.listing, d.of = nil, nil
	return listing.Close()
}

// Close is idempotent.
func (d *switchDir) Close() experimentalsys.Errno {
	_ = d.virtualDir.Close() // never fails
	return d.endListing()
}
