package trial

import (
	"slices"

	experimentalsys "github.com/tetratelabs/wazero/experimental/sys"
	"github.com/tetratelabs/wazero/sys"
)

// openFile is a file or directory that a plugin has open. The engine uses one from one goroutine.
type openFile struct {
	experimentalsys.UnimplementedFile
	of     *files
	path   string
	flag   experimentalsys.Oflag
	real   experimentalsys.File // nil: it is played, or a root that was not asked for anything
	stat   sys.Stat_t           // when it was opened
	number int                  // which of the world's
	root   bool
	append bool
}

var _ experimentalsys.File = (*openFile)(nil)

// use has something done with it, which is told of or played.
func (f *openFile) use(ask fileAsk, do func(real experimentalsys.File, a *fileAnswer) experimentalsys.Errno) *fileAnswer {
	ask.Path, ask.file = f.path, f.number
	return f.of.use(&ask, func(a *fileAnswer) (no experimentalsys.Errno) {
		if f.real == nil && f.root {
			if f.real, no = f.of.real.OpenFile(".", f.flag, 0); no != 0 {
				return no
			}
		}
		if f.real == nil {
			return experimentalsys.EIO
		}
		return do(f.real, a)
	})
}

// noted is use of a function that answers no more than whether it worked.
func (f *openFile) noted(ask fileAsk, do func(real experimentalsys.File) experimentalsys.Errno) experimentalsys.Errno {
	return f.use(ask, func(real experimentalsys.File, _ *fileAnswer) experimentalsys.Errno { return do(real) }).errno
}

// Dev implements [experimentalsys.File], as do those below.
func (f *openFile) Dev() (uint64, experimentalsys.Errno) {
	stat, no := f.known()
	return stat.Dev, no
}

func (f *openFile) Ino() (sys.Inode, experimentalsys.Errno) {
	stat, no := f.known()
	return stat.Ino, no
}

// known is its state when it was opened, which of a root nobody has asked for.
func (f *openFile) known() (sys.Stat_t, experimentalsys.Errno) {
	if f.root {
		return f.Stat()
	}
	return f.stat, 0
}

func (f *openFile) IsDir() (bool, experimentalsys.Errno) { return f.stat.Mode.IsDir(), 0 }

func (f *openFile) IsAppend() bool {
	if f.real != nil {
		return f.real.IsAppend()
	}
	return f.append || f.flag&experimentalsys.O_APPEND != 0
}

func (f *openFile) SetAppend(enable bool) experimentalsys.Errno {
	if f.real != nil {
		return f.real.SetAppend(enable)
	}
	f.append, f.flag = enable, f.flag&^experimentalsys.O_APPEND
	return 0
}

func (f *openFile) Stat() (sys.Stat_t, experimentalsys.Errno) {
	a := f.use(fileAsk{function: "fstat"}, func(real experimentalsys.File, a *fileAnswer) experimentalsys.Errno {
		stat, no := real.Stat()
		a.Stat = statOf(stat)
		return no
	})
	return a.Stat.stat(), a.errno
}

func (f *openFile) Read(buf []byte) (int, experimentalsys.Errno) {
	return f.read(fileAsk{function: "read"}, buf, func(real experimentalsys.File, buf []byte) (int, experimentalsys.Errno) { return real.Read(buf) })
}

func (f *openFile) Pread(buf []byte, off int64) (int, experimentalsys.Errno) {
	return f.read(fileAsk{function: "pread", Offset: off}, buf, func(real experimentalsys.File, buf []byte) (int, experimentalsys.Errno) { return real.Pread(buf, off) })
}

func (f *openFile) read(ask fileAsk, buf []byte, do func(experimentalsys.File, []byte) (int, experimentalsys.Errno)) (int, experimentalsys.Errno) {
	buf = buf[:min(len(buf), maxFileBytes)]
	ask.room = uint32(len(buf)) //nolint:gosec // it is bounded
	a := f.use(ask, func(real experimentalsys.File, a *fileAnswer) experimentalsys.Errno {
		n, no := do(real, buf)
		a.data = slices.Clone(buf[:max(n, 0)])
		return no
	})
	return copy(buf, a.data), a.errno
}

func (f *openFile) Write(buf []byte) (int, experimentalsys.Errno) {
	return f.write(fileAsk{function: "write"}, buf, func(real experimentalsys.File, buf []byte) (int, experimentalsys.Errno) { return real.Write(buf) })
}

func (f *openFile) Pwrite(buf []byte, off int64) (int, experimentalsys.Errno) {
	return f.write(fileAsk{function: "pwrite", Offset: off}, buf, func(real experimentalsys.File, buf []byte) (int, experimentalsys.Errno) { return real.Pwrite(buf, off) })
}

func (f *openFile) write(ask fileAsk, buf []byte, do func(experimentalsys.File, []byte) (int, experimentalsys.Errno)) (int, experimentalsys.Errno) {
	buf = buf[:min(len(buf), maxFileBytes)]
	ask.data = slices.Clone(buf)
	a := f.use(ask, func(real experimentalsys.File, a *fileAnswer) (no experimentalsys.Errno) {
		a.Count, no = do(real, buf)
		return no
	})
	return min(max(a.Count, 0), len(buf)), a.errno
}

func (f *openFile) Seek(offset int64, whence int) (int64, experimentalsys.Errno) {
	a := f.use(fileAsk{function: "seek", Offset: offset, Whence: whence}, func(real experimentalsys.File, a *fileAnswer) (no experimentalsys.Errno) {
		a.Offset, no = real.Seek(offset, whence)
		return no
	})
	return a.Offset, a.errno
}

func (f *openFile) Readdir(n int) ([]experimentalsys.Dirent, experimentalsys.Errno) {
	a := f.use(fileAsk{function: "readdir", Count: n}, func(real experimentalsys.File, a *fileAnswer) experimentalsys.Errno {
		entries, no := real.Readdir(n)
		for _, e := range entries {
			a.Entries = append(a.Entries, fileEntry{e.Name, e.Ino, uint32(e.Type)})
		}
		return no
	})
	return a.dirents(), a.errno
}

func (f *openFile) Truncate(size int64) experimentalsys.Errno {
	return f.noted(fileAsk{function: "truncate", Size: size}, func(real experimentalsys.File) experimentalsys.Errno { return real.Truncate(size) })
}

func (f *openFile) Sync() experimentalsys.Errno {
	return f.noted(fileAsk{function: "sync"}, experimentalsys.File.Sync)
}

func (f *openFile) Datasync() experimentalsys.Errno {
	return f.noted(fileAsk{function: "datasync"}, experimentalsys.File.Datasync)
}

func (f *openFile) Utimens(atim, mtim int64) experimentalsys.Errno {
	return f.noted(fileAsk{function: "futimens", Atime: atim, Mtime: mtim}, func(real experimentalsys.File) experimentalsys.Errno { return real.Utimens(atim, mtim) })
}

// Close always works, and is not told of.
func (f *openFile) Close() experimentalsys.Errno {
	if f.real == nil {
		return 0
	}
	return f.real.Close()
}
