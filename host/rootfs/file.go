package rootfs

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"

	experimentalsys "github.com/tetratelabs/wazero/experimental/sys"
	"github.com/tetratelabs/wazero/sys"
)

// file is an open file or directory. wazero uses one from one goroutine at a time.
type file struct {
	experimentalsys.UnimplementedFile
	fs     *FS
	name   string
	file   *os.File
	stat   sys.Stat_t
	dir    bool
	append bool
	writes bool
	listed bool // a directory has been read to its end
}

func newFile(f *FS, name string, opened *os.File, flag experimentalsys.Oflag) (experimentalsys.File, experimentalsys.Errno) {
	info, err := opened.Stat()
	if err != nil {
		opened.Close()
		return nil, errno(err)
	}
	return &file{
		fs: f, name: name, file: opened,
		stat:   sys.NewStat_t(info),
		dir:    info.IsDir(),
		append: flag&experimentalsys.O_APPEND != 0,
		writes: flag&(experimentalsys.O_RDWR|experimentalsys.O_WRONLY) != 0,
	}, 0
}

func (f *file) Dev() (uint64, experimentalsys.Errno)    { return f.stat.Dev, 0 }
func (f *file) Ino() (sys.Inode, experimentalsys.Errno) { return f.stat.Ino, 0 }
func (f *file) IsDir() (bool, experimentalsys.Errno)    { return f.dir, 0 }
func (f *file) IsAppend() bool                          { return f.append }

// SetAppend opens the file anew: the flag cannot be changed through os.File.
func (f *file) SetAppend(enable bool) experimentalsys.Errno {
	if enable == f.append || f.dir || !f.writes {
		return 0
	}
	flags := os.O_RDWR
	if enable {
		flags |= os.O_APPEND
	}
	reopened, err := f.fs.root.OpenFile(f.name, flags, 0)
	if err != nil {
		return errno(err)
	}
	f.file.Close()
	f.file, f.append = reopened, enable
	return 0
}

func (f *file) Stat() (sys.Stat_t, experimentalsys.Errno) {
	info, err := f.file.Stat()
	return stat(info, err)
}

func (f *file) Read(buf []byte) (int, experimentalsys.Errno) {
	if f.dir {
		return 0, experimentalsys.EISDIR
	}
	if len(buf) == 0 {
		return 0, 0
	}
	return transferred(f.file.Read(buf))
}

func (f *file) Pread(buf []byte, off int64) (int, experimentalsys.Errno) {
	if f.dir {
		return 0, experimentalsys.EISDIR
	}
	if len(buf) == 0 {
		return 0, 0
	}
	return transferred(f.file.ReadAt(buf, off))
}

func (f *file) Write(buf []byte) (int, experimentalsys.Errno) {
	if f.dir || !f.writes {
		return 0, experimentalsys.EBADF
	}
	return transferred(f.file.Write(buf))
}

func (f *file) Pwrite(buf []byte, off int64) (int, experimentalsys.Errno) {
	if f.dir || !f.writes {
		return 0, experimentalsys.EBADF
	}
	return transferred(f.file.WriteAt(buf, off))
}

// transferred translates the result of a read or a write: the end of a file is no
// error to a guest, only zero bytes.
func transferred(n int, err error) (int, experimentalsys.Errno) {
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return n, errno(err)
}

func (f *file) Seek(offset int64, whence int) (int64, experimentalsys.Errno) {
	if whence < io.SeekStart || whence > io.SeekEnd {
		return 0, experimentalsys.EINVAL
	}
	if f.dir {
		if offset != 0 || whence != io.SeekStart {
			return 0, experimentalsys.EINVAL
		}
		f.listed = false
	}
	n, err := f.file.Seek(offset, whence)
	return n, errno(err)
}

func (f *file) Readdir(n int) ([]experimentalsys.Dirent, experimentalsys.Errno) {
	if !f.dir {
		return nil, experimentalsys.ENOTDIR
	}
	if f.listed {
		return nil, 0
	}
	entries, err := f.file.ReadDir(n)
	if errors.Is(err, io.EOF) || n <= 0 {
		f.listed = true
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, errno(err)
	}
	out := make([]experimentalsys.Dirent, 0, len(entries))
	for _, e := range entries {
		st, no := f.fs.Lstat(path.Join(f.name, e.Name()))
		if no == experimentalsys.ENOENT {
			continue // removed since
		}
		out = append(out, experimentalsys.Dirent{Name: e.Name(), Type: e.Type() & fs.ModeType, Ino: st.Ino})
	}
	return out, 0
}

func (f *file) Truncate(size int64) experimentalsys.Errno {
	switch {
	case f.dir:
		return experimentalsys.EISDIR
	case !f.writes:
		return experimentalsys.EBADF
	case size < 0:
		return experimentalsys.EINVAL
	}
	return errno(f.file.Truncate(size))
}

func (f *file) Sync() experimentalsys.Errno     { return errno(f.file.Sync()) }
func (f *file) Datasync() experimentalsys.Errno { return f.Sync() }

func (f *file) Utimens(atim, mtim int64) experimentalsys.Errno {
	return f.fs.Utimens(f.name, atim, mtim)
}

// Close is idempotent.
func (f *file) Close() experimentalsys.Errno {
	err := f.file.Close()
	if errors.Is(err, os.ErrClosed) {
		return 0
	}
	return errno(err)
}
