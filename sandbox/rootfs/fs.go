package rootfs

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	experimentalsys "github.com/tetratelabs/wazero/experimental/sys"
	"github.com/tetratelabs/wazero/sys"
)

// MaxOpenFiles bounds the files and directories that a guest has open in one mount,
// so that it cannot use up the host's descriptors. One more is EAGAIN.
const MaxOpenFiles = 256

// maxPath bounds the path of what a guest opens, in bytes, as Linux does. What it opens
// below a directory has that one's path, too, and each element costs a system call.
const maxPath = 4096

// FS is a directory as a guest sees it. It is safe for concurrent use. It holds one
// file descriptor, and one for each file that the guest has open, until [FS.Close].
type FS struct {
	experimentalsys.UnimplementedFS
	root     *os.Root
	real     string // the directory's path on the host, without symbolic links
	readOnly bool
	joined   []*FS // see Join; nil: none
	done     func() <-chan struct{}

	mu     sync.Mutex
	open   map[*file]bool
	closed bool
}

// Open opens a host directory. The error is the operating system's.
func Open(dir string, readOnly bool) (*FS, error) {
	root, err := openRoot(dir)
	if err != nil {
		return nil, err
	}
	f := newFS(root, readOnly)
	if f.real, err = filepath.EvalSymlinks(dir); err != nil {
		root.Close()
		return nil, err
	}
	return f, nil
}

// openRoot opens a directory whose place is the operator's. Opening what is not one may
// wait for ever: a FIFO does until it is written to.
func openRoot(dir string) (*os.Root, error) {
	info, err := os.Stat(dir)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, &os.PathError{Op: "open", Path: dir, Err: syscall.ENOTDIR}
	}
	return os.OpenRoot(dir)
}

// OpenWithin opens the directory rest of a host directory, and refuses one that is
// outside of it, through symbolic links too. It is for directories in which somebody
// else can rename and link meanwhile.
func OpenWithin(dir, rest string, readOnly bool) (*FS, error) {
	root, err := openWithin(dir, rest)
	if err != nil {
		return nil, err
	}
	return newFS(root, readOnly), nil
}

func newFS(root *os.Root, readOnly bool) *FS {
	return &FS{root: root, readOnly: readOnly, done: never, open: map[*file]bool{}}
}

func openWithin(dir, rest string) (*os.Root, error) {
	base, err := openRoot(dir)
	if err != nil || filepath.Clean(rest) == "." {
		return base, err
	}
	defer base.Close()
	return base.OpenRoot(rest)
}

// StopOn makes every operation fail with EINTR once the channel is closed that done
// returns at the time, nil for one that never is; a long one in the middle: a guest that is
// to end is not interrupted in the host's functions. It must be called before the guest
// starts.
func (f *FS) StopOn(done func() <-chan struct{}) { f.done = done }

func (f *FS) stopped() bool {
	select {
	case <-f.done():
		return true
	default:
		return false
	}
}

func never() <-chan struct{} { return nil }

// Close releases the directory and closes what the guest left open. The guest must
// have ended. Closing twice is not an error.
func (f *FS) Close() error {
	f.mu.Lock()
	f.closed = true
	left := slices.Collect(maps.Keys(f.open))
	f.mu.Unlock()
	for _, file := range left {
		_ = file.Close()
	}
	return f.root.Close()
}

// OpenFiles returns how many files and directories the guest has open.
func (f *FS) OpenFiles() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.open)
}

// add counts an open file, unless there are too many.
func (f *FS) add(file *file) experimentalsys.Errno {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.closed:
		return experimentalsys.EBADF
	case len(f.open) >= MaxOpenFiles:
		return experimentalsys.EAGAIN
	}
	f.open[file] = true
	return 0
}

func (f *FS) remove(file *file) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.open, file)
}

// String returns the directory's path on the host.
func (f *FS) String() string { return f.root.Name() }

// OpenFile opens a file or directory; see [experimentalsys.FS].
func (f *FS) OpenFile(name string, flag experimentalsys.Oflag, perm fs.FileMode) (experimentalsys.File, experimentalsys.Errno) {
	if f.stopped() {
		return nil, experimentalsys.EINTR
	}
	const writes = experimentalsys.O_RDWR | experimentalsys.O_WRONLY | experimentalsys.O_CREAT | experimentalsys.O_TRUNC
	if f.readOnly && flag&writes != 0 {
		return nil, experimentalsys.EROFS
	}
	if name = local(name); len(name) > maxPath {
		return nil, experimentalsys.ENAMETOOLONG
	}
	if flag&experimentalsys.O_NOFOLLOW != 0 {
		// os.Root follows links that stay inside, whatever the flags are.
		if info, err := f.root.Lstat(name); err == nil && info.Mode()&fs.ModeSymlink != 0 {
			return nil, experimentalsys.ELOOP
		}
	}
	// Counted before it is opened, so that creating and truncating are refused, too.
	out := &file{fs: f}
	if no := f.add(out); no != 0 {
		return nil, no
	}
	opened, err := f.root.OpenFile(name, osFlags(flag), perm.Perm())
	if err != nil {
		f.remove(out)
		no := errno(err)
		if no == experimentalsys.EPERM && flag&(writes|experimentalsys.O_NOFOLLOW) == 0 {
			return f.openJoined(name, flag)
		}
		return nil, no
	}
	if no := out.init(opened, flag); no != 0 {
		f.remove(out)
		opened.Close()
		return nil, no
	}
	return out, 0
}

// osFlags translates wazero's flags. Files are opened without blocking, so that a
// FIFO that is in a mount cannot hold a guest. O_APPEND is set later, since it can
// be cleared again.
func osFlags(flag experimentalsys.Oflag) int {
	out := syscall.O_NONBLOCK
	switch {
	case flag&experimentalsys.O_RDWR != 0:
		out |= os.O_RDWR
	case flag&experimentalsys.O_WRONLY != 0:
		out |= os.O_WRONLY
	}
	for _, f := range [...]struct {
		from experimentalsys.Oflag
		to   int
	}{
		{experimentalsys.O_CREAT, os.O_CREATE},
		{experimentalsys.O_EXCL, os.O_EXCL},
		{experimentalsys.O_TRUNC, os.O_TRUNC},
		{experimentalsys.O_DIRECTORY, syscall.O_DIRECTORY},
		{experimentalsys.O_SYNC, os.O_SYNC},
		{experimentalsys.O_DSYNC, syscall.O_DSYNC},
	} {
		if flag&f.from != 0 {
			out |= f.to
		}
	}
	return out
}

// Lstat describes a path without following its last link.
func (f *FS) Lstat(name string) (sys.Stat_t, experimentalsys.Errno) {
	st, no := stat(f.root.Lstat(local(name)))
	if no == experimentalsys.EPERM {
		return f.statJoined(local(name), false)
	}
	return st, no
}

// Stat describes a path, following links that stay inside.
func (f *FS) Stat(name string) (sys.Stat_t, experimentalsys.Errno) {
	st, no := stat(f.root.Stat(local(name)))
	if no == experimentalsys.EPERM {
		return f.statJoined(local(name), true)
	}
	return st, no
}

// Readlink returns where a link points to.
func (f *FS) Readlink(name string) (string, experimentalsys.Errno) {
	target, err := f.root.Readlink(local(name))
	if no := errno(err); no != experimentalsys.EPERM {
		return target, no
	}
	if to, rest, ok := f.resolveJoined(local(name), false); ok {
		target, err = to.root.Readlink(rest)
	}
	return target, errno(err)
}

// Mkdir makes a directory.
func (f *FS) Mkdir(name string, perm fs.FileMode) experimentalsys.Errno {
	return f.change(func() error { return f.root.Mkdir(local(name), perm.Perm()) })
}

// Chmod changes permission bits; set-user-ID and the like are not a guest's to set.
func (f *FS) Chmod(name string, perm fs.FileMode) experimentalsys.Errno {
	return f.change(func() error { return f.root.Chmod(local(name), perm.Perm()) })
}

// Rename moves a file within the directory.
func (f *FS) Rename(from, to string) experimentalsys.Errno {
	return f.change(func() error { return f.root.Rename(local(from), local(to)) })
}

// Rmdir removes an empty directory.
func (f *FS) Rmdir(name string) experimentalsys.Errno {
	return f.change(func() error {
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
	return f.change(func() error {
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
	return f.change(func() error { return f.root.Link(local(from), local(to)) })
}

// Symlink makes a symbolic link. Targets that are absolute or plainly lead outside
// are EPERM: no guest could follow them, but a less careful program on the host
// might. That check is a courtesy; what keeps guests in is that links which lead
// outside are refused when they are followed.
func (f *FS) Symlink(target, name string) experimentalsys.Errno {
	return f.change(func() error {
		if path.IsAbs(target) || !filepath.IsLocal(path.Join(path.Dir(local(name)), target)) {
			return syscall.EPERM
		}
		return f.root.Symlink(target, local(name))
	})
}

// Utimens changes access and modification times.
func (f *FS) Utimens(name string, atim, mtim int64) experimentalsys.Errno {
	return f.change(func() error {
		info, err := f.root.Stat(local(name))
		if err != nil {
			return err
		}
		a, m := times(info, atim, mtim)
		return f.root.Chtimes(local(name), a, m)
	})
}

// change makes a change unless the directory is read-only.
func (f *FS) change(make func() error) experimentalsys.Errno {
	switch {
	case f.readOnly:
		return experimentalsys.EROFS
	case f.stopped():
		return experimentalsys.EINTR
	}
	return errno(make())
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
// directory itself. A slash at the end stays, since it asks for a directory. It does
// not judge the path: os.Root does.
func local(name string) string {
	trimmed := strings.TrimLeft(name, "/")
	if trimmed == "" {
		return "."
	}
	clean := path.Clean(trimmed)
	if strings.HasSuffix(trimmed, "/") && clean != "." {
		clean += "/"
	}
	return clean
}

// errno translates an error. What os.Root refuses because it leads outside is a
// matter of permission.
func errno(err error) experimentalsys.Errno {
	if err == nil {
		return 0
	}
	var translated experimentalsys.Errno
	if errors.As(err, &translated) {
		return translated
	}
	var no syscall.Errno
	if errors.As(err, &no) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrExist) || errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrClosed) {
		return experimentalsys.UnwrapOSError(err)
	}
	return experimentalsys.EPERM
}
