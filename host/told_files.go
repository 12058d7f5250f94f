package host

import (
	"io/fs"
	"path"

	experimentalsys "github.com/tetratelabs/wazero/experimental/sys"
	"github.com/tetratelabs/wazero/sys"
)

// toldFiles tells of each path that a guest asks for in a directory.
type toldFiles struct {
	experimentalsys.FS
	at   string // where the guest sees it
	tell func(name string)
}

// told has the surroundings of an instance told of what it asks for in a directory.
func told(files experimentalsys.FS, at string, to Surroundings) experimentalsys.FS {
	if to == nil {
		return files
	}
	return &toldFiles{files, at, to.Named}
}

// says tells of a path. That of the directory itself is asked for by every instance, when it begins.
func (f *toldFiles) says(name string) string {
	if at := path.Join(f.at, name); at != f.at {
		f.tell(at)
	}
	return name
}

// OpenFile implements [experimentalsys.FS], as do those below.
func (f *toldFiles) OpenFile(name string, flag experimentalsys.Oflag, perm fs.FileMode) (experimentalsys.File, experimentalsys.Errno) {
	file, no := f.FS.OpenFile(f.says(name), flag, perm)
	if no == 0 && path.Join(f.at, name) == f.at {
		file = &toldDir{file, f}
	}
	return file, no
}

func (f *toldFiles) Lstat(name string) (sys.Stat_t, experimentalsys.Errno) {
	return f.FS.Lstat(f.says(name))
}

func (f *toldFiles) Stat(name string) (sys.Stat_t, experimentalsys.Errno) {
	return f.FS.Stat(f.says(name))
}

func (f *toldFiles) Mkdir(name string, perm fs.FileMode) experimentalsys.Errno {
	return f.FS.Mkdir(f.says(name), perm)
}

func (f *toldFiles) Rename(from, to string) experimentalsys.Errno {
	return f.FS.Rename(f.says(from), f.says(to))
}

func (f *toldFiles) Rmdir(name string) experimentalsys.Errno { return f.FS.Rmdir(f.says(name)) }

func (f *toldFiles) Unlink(name string) experimentalsys.Errno { return f.FS.Unlink(f.says(name)) }

func (f *toldFiles) Link(from, to string) experimentalsys.Errno {
	return f.FS.Link(f.says(from), f.says(to))
}

func (f *toldFiles) Symlink(to, name string) experimentalsys.Errno {
	return f.FS.Symlink(to, f.says(name))
}

func (f *toldFiles) Readlink(name string) (string, experimentalsys.Errno) {
	return f.FS.Readlink(f.says(name))
}

func (f *toldFiles) Chmod(name string, perm fs.FileMode) experimentalsys.Errno {
	return f.FS.Chmod(f.says(name), perm)
}

func (f *toldFiles) Utimens(name string, atim, mtim int64) experimentalsys.Errno {
	return f.FS.Utimens(f.says(name), atim, mtim)
}

// toldDir is the directory itself, which is told of once it is read.
type toldDir struct {
	experimentalsys.File
	of *toldFiles
}

// Readdir implements [experimentalsys.File].
func (d *toldDir) Readdir(n int) ([]experimentalsys.Dirent, experimentalsys.Errno) {
	d.of.tell(d.of.at)
	return d.File.Readdir(n)
}
