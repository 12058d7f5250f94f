package trial

import (
	"io/fs"
	"path"

	experimentalsys "github.com/tetratelabs/wazero/experimental/sys"
	"github.com/tetratelabs/wazero/sys"
)

// maxFileBytes is how much one read or write of a file moves in a call that is recorded or
// repeated. What is longer is short, as WASI's may be.
const maxFileBytes = 1 << 20

// files is a directory of a plugin whose calls can be repeated: what it asks of it in a call goes
// through the world.
type files struct {
	world *world
	at    string        // where the plugin sees it
	op    func() string // that the plugin is in
	real  experimentalsys.FS
}

var _ experimentalsys.FS = (*files)(nil)

// use has something done, which is told of or played. Nothing is done without a real directory.
func (f *files) use(ask *fileAsk, do func(a *fileAnswer) experimentalsys.Errno) *fileAnswer {
	return f.world.use(f.op(), ask, func() *fileAnswer {
		if f.real == nil {
			return &fileAnswer{errno: experimentalsys.EIO}
		}
		a := &fileAnswer{}
		a.errno = do(a)
		return a
	})
}

// path is what the plugin calls a file.
func (f *files) path(name string) string { return path.Join(f.at, name) }

// OpenFile implements [experimentalsys.FS], as do those below. The directory itself is opened by
// every instance, when it begins, and is told of when something is done with it.
func (f *files) OpenFile(name string, flag experimentalsys.Oflag, perm fs.FileMode) (experimentalsys.File, experimentalsys.Errno) {
	at := f.path(name)
	if at == f.at {
		return &openFile{of: f, path: at, flag: flag, stat: sys.Stat_t{Mode: fs.ModeDir}, root: true}, 0
	}
	var real experimentalsys.File
	a := f.use(&fileAsk{function: "open", Path: at, Flags: uint32(flag), Mode: uint32(perm)}, func(a *fileAnswer) (no experimentalsys.Errno) {
		if real, no = f.real.OpenFile(name, flag, perm); no != 0 {
			return no
		}
		var stat sys.Stat_t
		if stat, no = real.Stat(); no != 0 {
			_ = real.Close() // it is not used
			return no
		}
		a.Stat = statOf(stat)
		return 0
	})
	if a.errno != 0 {
		return nil, a.errno
	}
	return &openFile{of: f, path: at, flag: flag, real: real, stat: a.Stat.stat(), number: f.world.opened()}, 0
}

// noted is use of a function that is about a path and answers no more than whether it worked.
func (f *files) noted(function, name string, ask fileAsk, do func() experimentalsys.Errno) experimentalsys.Errno {
	ask.function, ask.Path = function, f.path(name)
	return f.use(&ask, func(*fileAnswer) experimentalsys.Errno { return do() }).errno
}

func (f *files) status(function, name string, do func(string) (sys.Stat_t, experimentalsys.Errno)) (sys.Stat_t, experimentalsys.Errno) {
	a := f.use(&fileAsk{function: function, Path: f.path(name)}, func(a *fileAnswer) experimentalsys.Errno {
		stat, no := do(name)
		a.Stat = statOf(stat)
		return no
	})
	return a.Stat.stat(), a.errno
}

func (f *files) Lstat(name string) (sys.Stat_t, experimentalsys.Errno) {
	return f.status("lstat", name, func(name string) (sys.Stat_t, experimentalsys.Errno) { return f.real.Lstat(name) })
}

func (f *files) Stat(name string) (sys.Stat_t, experimentalsys.Errno) {
	return f.status("stat", name, func(name string) (sys.Stat_t, experimentalsys.Errno) { return f.real.Stat(name) })
}

func (f *files) Mkdir(name string, perm fs.FileMode) experimentalsys.Errno {
	return f.noted("mkdir", name, fileAsk{Mode: uint32(perm)}, func() experimentalsys.Errno { return f.real.Mkdir(name, perm) })
}

func (f *files) Chmod(name string, perm fs.FileMode) experimentalsys.Errno {
	return f.noted("chmod", name, fileAsk{Mode: uint32(perm)}, func() experimentalsys.Errno { return f.real.Chmod(name, perm) })
}

func (f *files) Rename(from, to string) experimentalsys.Errno {
	return f.noted("rename", from, fileAsk{To: f.path(to)}, func() experimentalsys.Errno { return f.real.Rename(from, to) })
}

func (f *files) Rmdir(name string) experimentalsys.Errno {
	return f.noted("rmdir", name, fileAsk{}, func() experimentalsys.Errno { return f.real.Rmdir(name) })
}

func (f *files) Unlink(name string) experimentalsys.Errno {
	return f.noted("unlink", name, fileAsk{}, func() experimentalsys.Errno { return f.real.Unlink(name) })
}

func (f *files) Link(from, to string) experimentalsys.Errno {
	return f.noted("link", from, fileAsk{To: f.path(to)}, func() experimentalsys.Errno { return f.real.Link(from, to) })
}

func (f *files) Symlink(to, name string) experimentalsys.Errno {
	return f.noted("symlink", name, fileAsk{To: to}, func() experimentalsys.Errno { return f.real.Symlink(to, name) })
}

func (f *files) Readlink(name string) (string, experimentalsys.Errno) {
	a := f.use(&fileAsk{function: "readlink", Path: f.path(name)}, func(a *fileAnswer) (no experimentalsys.Errno) {
		a.Link, no = f.real.Readlink(name)
		return no
	})
	return a.Link, a.errno
}

func (f *files) Utimens(name string, atim, mtim int64) experimentalsys.Errno {
	return f.noted("utimens", name, fileAsk{Atime: atim, Mtime: mtim}, func() experimentalsys.Errno { return f.real.Utimens(name, atim, mtim) })
}
