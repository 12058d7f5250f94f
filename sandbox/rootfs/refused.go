package rootfs

import (
	"io/fs"
	"path"

	experimentalsys "github.com/tetratelabs/wazero/experimental/sys"
	"github.com/tetratelabs/wazero/sys"
)

// Refused is a root directory of which a guest may use nothing: whatever it asks for there is
// EACCES, whether there is such a file or not. Without it a guest's own library answers for paths
// that are in no directory of the guest's, and nobody knows which those were.
type Refused struct {
	experimentalsys.UnimplementedFS
	tell func(Refusal)
	dirs virtualDirs
}

// Refusal is what a guest asked for in a [Refused].
type Refusal struct {
	Path  string // absolute
	Dir   bool   // it asked for a directory
	Write bool   // it asked to change something
}

// NewRefused returns one. Tell is called in the guest's calls, of each refusal.
func NewRefused(tell func(Refusal)) *Refused { return &Refused{tell: tell} }

func (r *Refused) refuse(name string, dir, write bool) experimentalsys.Errno {
	r.tell(Refusal{Path: path.Join("/", name), Dir: dir, Write: write})
	return experimentalsys.EACCES
}

// OpenFile opens the directory itself, and nothing else. It is open [MaxOpenFiles] times at most.
func (r *Refused) OpenFile(name string, flag experimentalsys.Oflag, _ fs.FileMode) (experimentalsys.File, experimentalsys.Errno) {
	if local(name) != "." {
		const writes = experimentalsys.O_RDWR | experimentalsys.O_WRONLY | experimentalsys.O_CREAT | experimentalsys.O_TRUNC
		return nil, r.refuse(name, flag&experimentalsys.O_DIRECTORY != 0, flag&writes != 0)
	}
	dir, no := r.dirs.add(flag)
	if no != 0 {
		return nil, no
	}
	return &refusedDir{dir, r}, 0
}

// Lstat describes the directory itself.
func (r *Refused) Lstat(name string) (sys.Stat_t, experimentalsys.Errno) { return r.Stat(name) }

// Stat describes the directory itself.
func (r *Refused) Stat(name string) (sys.Stat_t, experimentalsys.Errno) {
	if local(name) != "." {
		return sys.Stat_t{}, r.refuse(name, false, false)
	}
	return sys.Stat_t{Mode: fs.ModeDir | 0o555, Nlink: 1}, 0
}

// Readlink is refused, as is all that follows.
func (r *Refused) Readlink(name string) (string, experimentalsys.Errno) {
	return "", r.refuse(name, false, false)
}

// Mkdir implements [experimentalsys.FS].
func (r *Refused) Mkdir(name string, _ fs.FileMode) experimentalsys.Errno {
	return r.refuse(name, false, true)
}

// Chmod implements [experimentalsys.FS].
func (r *Refused) Chmod(name string, _ fs.FileMode) experimentalsys.Errno {
	return r.refuse(name, false, true)
}

// Rename implements [experimentalsys.FS].
func (r *Refused) Rename(from, _ string) experimentalsys.Errno { return r.refuse(from, false, true) }

// Rmdir implements [experimentalsys.FS].
func (r *Refused) Rmdir(name string) experimentalsys.Errno { return r.refuse(name, false, true) }

// Unlink implements [experimentalsys.FS].
func (r *Refused) Unlink(name string) experimentalsys.Errno { return r.refuse(name, false, true) }

// Link implements [experimentalsys.FS].
func (r *Refused) Link(from, _ string) experimentalsys.Errno { return r.refuse(from, false, true) }

// Symlink implements [experimentalsys.FS].
func (r *Refused) Symlink(_, name string) experimentalsys.Errno { return r.refuse(name, false, true) }

// Utimens implements [experimentalsys.FS].
func (r *Refused) Utimens(name string, _, _ int64) experimentalsys.Errno {
	return r.refuse(name, false, true)
}

// refusedDir is the directory itself, opened.
type refusedDir struct {
	virtualDir
	of *Refused
}

// Stat implements [experimentalsys.File].
func (d *refusedDir) Stat() (sys.Stat_t, experimentalsys.Errno) { return d.of.Stat(".") }

// Readdir is refused.
func (d *refusedDir) Readdir(int) ([]experimentalsys.Dirent, experimentalsys.Errno) {
	return nil, d.of.refuse(".", true, false)
}
