package rootfs

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	experimentalsys "github.com/tetratelabs/wazero/experimental/sys"
	"github.com/tetratelabs/wazero/sys"
)

// How much is done between two looks at whether the guest is to end: some tenths of a
// millisecond's work.
const (
	pieceBytes   = 256 << 10
	pieceEntries = 256 // of a directory
)

// file is an open file or directory. wazero uses one from one goroutine at a time.
type file struct {
	experimentalsys.UnimplementedFile
	fs     *FS
	file   *os.File
	stat   sys.Stat_t
	dir    bool
	append bool
	writes bool
	listed bool // a directory has been read to its end
	close  sync.Once
}

// init makes it the file that was opened, which it does not close on an error.
func (f *file) init(opened *os.File, flag experimentalsys.Oflag) experimentalsys.Errno {
	info, err := opened.Stat()
	if err != nil {
		return errno(err)
	}
	if !info.IsDir() && !info.Mode().IsRegular() {
		return experimentalsys.EPERM
	}
	f.file, f.stat, f.dir = opened, sys.NewStat_t(info), info.IsDir()
	f.writes = flag&(experimentalsys.O_RDWR|experimentalsys.O_WRONLY) != 0
	return f.SetAppend(flag&experimentalsys.O_APPEND != 0)
}

func (f *file) Dev() (uint64, experimentalsys.Errno)    { return f.stat.Dev, 0 }
func (f *file) Ino() (sys.Inode, experimentalsys.Errno) { return f.stat.Ino, 0 }
func (f *file) IsDir() (bool, experimentalsys.Errno)    { return f.dir, 0 }
func (f *file) IsAppend() bool                          { return f.append }

func (f *file) SetAppend(enable bool) experimentalsys.Errno {
	if enable == f.append || f.dir || !f.writes {
		return 0
	}
	no := f.control(func(fd int) error {
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
		if err != nil {
			return err
		}
		flags &^= unix.O_APPEND
		if enable {
			flags |= unix.O_APPEND
		}
		_, err = unix.FcntlInt(uintptr(fd), unix.F_SETFL, flags)
		return err
	})
	if no == 0 {
		f.append = enable
	}
	return no
}

// control runs do on the descriptor. What is done to a descriptor cannot be led
// elsewhere by renaming or linking paths.
func (f *file) control(do func(fd int) error) experimentalsys.Errno {
	conn, err := f.file.SyscallConn()
	if err != nil {
		return errno(err)
	}
	if e := conn.Control(func(fd uintptr) { err = do(int(fd)) }); e != nil {
		return errno(e)
	}
	return errno(err)
}

func (f *file) Stat() (sys.Stat_t, experimentalsys.Errno) {
	info, err := f.file.Stat()
	return stat(info, err)
}

func (f *file) Read(buf []byte) (int, experimentalsys.Errno) {
	if f.dir {
		return 0, experimentalsys.EISDIR
	}
	return f.transfer(buf, func(piece []byte, _ int) (int, error) { return f.file.Read(piece) })
}

func (f *file) Pread(buf []byte, off int64) (int, experimentalsys.Errno) {
	if f.dir {
		return 0, experimentalsys.EISDIR
	}
	return f.transfer(buf, func(piece []byte, done int) (int, error) { return f.file.ReadAt(piece, off+int64(done)) })
}

func (f *file) Write(buf []byte) (int, experimentalsys.Errno) {
	if f.dir || !f.writes {
		return 0, experimentalsys.EBADF
	}
	return f.transfer(buf, func(piece []byte, _ int) (int, error) { return f.file.Write(piece) })
}

func (f *file) Pwrite(buf []byte, off int64) (int, experimentalsys.Errno) {
	if f.dir || !f.writes {
		return 0, experimentalsys.EBADF
	}
	return f.transfer(buf, func(piece []byte, done int) (int, error) { return f.file.WriteAt(piece, off+int64(done)) })
}

// transfer reads or writes buf piece by piece. The end of a file is no error to a
// guest, only fewer bytes.
func (f *file) transfer(buf []byte, move func(piece []byte, done int) (int, error)) (done int, no experimentalsys.Errno) {
	for {
		// For nothing, too: a guest can ask for that a million times in one call.
		if f.fs.stopped() {
			return done, experimentalsys.EINTR
		}
		if done == len(buf) {
			return done, 0
		}
		piece := buf[done:min(len(buf), done+pieceBytes)]
		n, err := move(piece, done)
		done += n
		if errors.Is(err, io.EOF) {
			return done, 0
		}
		if err != nil || n < len(piece) {
			return done, errno(err)
		}
	}
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

// Readdir lists a directory. The list of a read that is given up is lost.
func (f *file) Readdir(n int) ([]experimentalsys.Dirent, experimentalsys.Errno) {
	if !f.dir {
		return nil, experimentalsys.ENOTDIR
	}
	if f.fs.stopped() {
		return nil, experimentalsys.EINTR
	}
	var out []experimentalsys.Dirent
	for !f.listed && (n <= 0 || len(out) < n) {
		if f.fs.stopped() {
			return nil, experimentalsys.EINTR
		}
		piece := pieceEntries
		if n > 0 {
			piece = min(piece, n-len(out))
		}
		entries, err := f.file.ReadDir(piece)
		f.listed = errors.Is(err, io.EOF)
		if err != nil && !f.listed {
			return nil, errno(err)
		}
		described, no := f.describe(entries)
		if no != 0 {
			return nil, no
		}
		out = append(out, described...)
	}
	return out, 0
}

// describe looks up what a directory does not tell of its entries. One that was removed
// since is left out.
func (f *file) describe(entries []fs.DirEntry) (out []experimentalsys.Dirent, no experimentalsys.Errno) {
	no = f.control(func(fd int) error {
		for _, e := range entries {
			var st unix.Stat_t
			err := unix.Fstatat(fd, e.Name(), &st, unix.AT_SYMLINK_NOFOLLOW)
			if errors.Is(err, unix.ENOENT) {
				continue
			}
			if err != nil {
				return err
			}
			out = append(out, experimentalsys.Dirent{Name: e.Name(), Type: e.Type() & fs.ModeType, Ino: st.Ino})
		}
		return nil
	})
	return out, no
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

// Sync waits for the disk, which takes as long as that likes, so that it is left to itself
// when the guest is to end: there is one such wait for a guest at most.
func (f *file) Sync() experimentalsys.Errno {
	synced := make(chan error, 1)
	go func() { synced <- f.file.Sync() }()
	select {
	case err := <-synced:
		return errno(err)
	case <-f.fs.done():
		return experimentalsys.EINTR
	}
}

// Datasync is Sync.
func (f *file) Datasync() experimentalsys.Errno { return f.Sync() }

func (f *file) Utimens(atim, mtim int64) experimentalsys.Errno {
	return f.fs.change(func() error {
		info, err := f.file.Stat()
		if err != nil {
			return err
		}
		a, m := times(info, atim, mtim)
		times := [2]unix.Timespec{unix.NsecToTimespec(a.UnixNano()), unix.NsecToTimespec(m.UnixNano())}
		if no := f.control(func(fd int) error { return setTimes(fd, &times) }); no != 0 {
			return no
		}
		return nil
	})
}

// Close is idempotent.
func (f *file) Close() (no experimentalsys.Errno) {
	f.close.Do(func() {
		no = errno(f.file.Close())
		f.fs.remove(f)
	})
	return no
}
