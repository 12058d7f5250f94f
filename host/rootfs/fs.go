package rootfs

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"
	"time"

	experimentalsys "github.com/tetratelabs/wazero/experimental/sys"
	"github.com/tetratelabs/wazero/sys"
)

// FS is a directory as a guest sees it. It is safe for concurrent use. It holds one
// file descriptor until [FS.Close].
type FS struct {
	experimentalsys.UnimplementedFS
	root     *os.Root
	readOnly bool
}

// Open opens a host directory. The error is the operating system's.
func Open(dir string, readOnly bool) (*FS, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return &FS{root: root, readOnly: readOnly}, nil
}

// Close releases the directory. Files that are open stay open.
func (f *FS) Close() error { return f.root.Close() }

// String returns the directory's path on the host.
func (f *FS) String() string { return f.root.Name() }

// OpenFile opens a file or directory; see [experimentalsys.FS].
func (f *FS) OpenFile(name string, flag experimentalsys.Oflag, perm fs.FileMode) (experimentalsys.File, experimentalsys.Errno) {
	const writes = experimentalsys.O_RDWR | experimentalsys.O_WRONLY | experimentalsys.O_CREAT | experimentalsys.O_TRUNC
	if f.readOnly && flag&writes != 0 {
		return nil, experimentalsys.EROFS
	}
	file, err := f.root.OpenFile(local(name), osFlags(flag), perm.Perm())
	if err != nil {
		return nil, errno(err)
	}
	return newFile(f, local(name), file, flag)
}

// osFlags translates wazero's flags. Files are opened without blocking, so that a
// FIFO that lies in a mount cannot hold a guest, and the host with it.
func osFlags(flag experimentalsys.Oflag) int {
	out := syscall.O_NONBLOCK
	switch {
	case flag&experimentalsys.O_RDWR != 0:
		out |= os.O_RDWR
	case flag&experimentalsys.O_WRONLY != 0:
		out |= os.O_WRONLY
	}
	for from, to := range map[experimentalsys.Oflag]int{
		experimentalsys.O_APPEND:    os.O_APPEND,
		experimentalsys.O_CREAT:     os.O_CREATE,
		experimentalsys.O_EXCL:      os.O_EXCL,
		experimentalsys.O_TRUNC:     os.O_TRUNC,
		experimentalsys.O_DIRECTORY: syscall.O_DIRECTORY,
		experimentalsys.O_NOFOLLOW:  syscall.O_NOFOLLOW,
		experimentalsys.O_SYNC:      os.O_SYNC,
		experimentalsys.O_DSYNC:     syscall.O_DSYNC,
	} {
		if flag&from != 0 {
			out |= to
		}
	}
	return out
}

// Lstat describes a path without following its last link.
func (f *FS) Lstat(name string) (sys.Stat_t, experimentalsys.Errno) {
	return stat(f.root.Lstat(local(name)))
}

// Stat describes a path, following links that stay inside.
func (f *FS) Stat(name string) (sys.Stat_t, experimentalsys.Errno) {
	return stat(f.root.Stat(local(name)))
}

// Readlink returns where a link points to.
func (f *FS) Readlink(name string) (string, experimentalsys.Errno) {
	target, err := f.root.Readlink(local(name))
	return target, errno(err)
}

// Mkdir makes a directory.
func (f *FS) Mkdir(name string, perm fs.FileMode) experimentalsys.Errno {
	return f.write(func() error { return f.root.Mkdir(local(name), perm.Perm()) })
}

// Chmod changes permission bits; set-user-ID and the like are not a guest's to set.
func (f *FS) Chmod(name string, perm fs.FileMode) experimentalsys.Errno {
	return f.write(func() error { return f.root.Chmod(local(name), perm.Perm()) })
}

// Rename moves a file within the directory.
func (f *FS) Rename(from, to string) experimentalsys.Errno {
	return f.write(func() error { return f.root.Rename(local(from), local(to)) })
}

// Rmdir removes an empty directory.
func (f *FS) Rmdir(name string) experimentalsys.Errno {
	return f.write(func() error {
		info, err := f.root.Lstat(local(name))
		if err != nil {
			return err
		}
		if !info.IsDir() {
			return syscall.ENOTDIR
		}
		return f.root.Remove(local(name))
	})
}

// Unlink removes a file or a link.
func (f *FS) Unlink(name string) experimentalsys.Errno {
	return f.write(func() error {
		info, err := f.root.Lstat(local(name))
		if err != nil {
			return err
		}
		if info.IsDir() {
			return syscall.EISDIR
		}
		return f.root.Remove(local(name))
	})
}

// Link makes a hard link within the directory.
func (f *FS) Link(from, to string) experimentalsys.Errno {
	return f.write(func() error { return f.root.Link(local(from), local(to)) })
}

// Symlink makes a symbolic link. It may say anything: what leads out of the
// directory is refused when it is followed.
func (f *FS) Symlink(target, name string) experimentalsys.Errno {
	return f.write(func() error { return f.root.Symlink(target, local(name)) })
}

// Utimens changes access and modification times.
func (f *FS) Utimens(name string, atim, mtim int64) experimentalsys.Errno {
	return f.write(func() error {
		info, err := f.root.Stat(local(name))
		if err != nil {
			return err
		}
		a, m := times(info, atim, mtim)
		return f.root.Chtimes(local(name), a, m)
	})
}

// write runs a change unless the directory is read-only.
func (f *FS) write(change func() error) experimentalsys.Errno {
	if f.readOnly {
		return experimentalsys.EROFS
	}
	return errno(change())
}

// times resolves wazero's "leave as it is" against what a file has now.
func times(info fs.FileInfo, atim, mtim int64) (a, m time.Time) {
	st := sys.NewStat_t(info)
	if atim == experimentalsys.UTIME_OMIT {
		atim = st.Atim
	}
	if mtim == experimentalsys.UTIME_OMIT {
		mtim = st.Mtim
	}
	return time.Unix(0, atim), time.Unix(0, mtim)
}

func stat(info fs.FileInfo, err error) (sys.Stat_t, experimentalsys.Errno) {
	if err != nil {
		return sys.Stat_t{}, errno(err)
	}
	return sys.NewStat_t(info), 0
}

// local makes a guest's path one that os.Root takes: relative, and "." for the
// directory itself. It does not judge the path: os.Root does.
func local(name string) string {
	if name == "" {
		return "."
	}
	trimmed := strings.TrimLeft(name, "/")
	if trimmed == "" {
		return "."
	}
	return path.Clean(trimmed)
}

// errno translates an error. What os.Root refuses because it leads outside is a
// matter of permission.
func errno(err error) experimentalsys.Errno {
	if err == nil {
		return 0
	}
	var no syscall.Errno
	if errors.As(err, &no) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrExist) || errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrClosed) {
		return experimentalsys.UnwrapOSError(err)
	}
	return experimentalsys.EPERM
}
