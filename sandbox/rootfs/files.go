package rootfs

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	experimentalsys "github.com/tetratelabs/wazero/experimental/sys"
	"github.com/tetratelabs/wazero/sys"
)

// ErrNotFile is the error for what is to be mounted as a file and is not one.
var ErrNotFile = errors.New("not a regular file")

// Files is a virtual directory: it has only the files that were added, each
// of which is anywhere on the host. A guest can read them, and write those that are
// not read-only, but not make, rename or remove any. A file is found by its name at
// every access, so one that was replaced on the host is seen. It is safe for
// concurrent use once a guest has it.
type Files struct {
	experimentalsys.UnimplementedFS
	entries map[string]entry
	names   []string // sorted
	dirs    virtualDirs
}

// entry is a file: a name in a directory that a guest cannot see otherwise.
type entry struct {
	dir  *FS
	name string
}

// NewFiles returns a directory without files.
func NewFiles() *Files { return &Files{entries: map[string]entry{}} }

// Add shows the host's file rest of the directory dir as name, which is a single
// element. The file must lie in dir, through symbolic links too, and be no link
// itself.
func (f *Files) Add(name, dir, rest string, readOnly bool) error {
	if !fs.ValidPath(name) || name == "." || strings.Contains(name, "/") || f.entries[name].dir != nil {
		return &os.PathError{Op: "mount", Path: name, Err: os.ErrInvalid}
	}
	parent, err := openWithin(dir, filepath.Dir(rest))
	if err != nil {
		return err
	}
	info, err := parent.Lstat(filepath.Base(rest))
	if err == nil && !info.Mode().IsRegular() {
		err = &os.PathError{Op: "mount", Path: filepath.Join(dir, rest), Err: ErrNotFile}
	}
	if err != nil {
		parent.Close()
		return err
	}
	f.entries[name] = entry{newFS(parent, readOnly), filepath.Base(rest)}
	f.names = append(f.names, name)
	slices.Sort(f.names)
	return nil
}

// StopOn is [FS.StopOn] for all files.
func (f *Files) StopOn(done func() <-chan struct{}) {
	for _, e := range f.entries {
		e.dir.StopOn(done)
	}
}

// Close closes what the guest left open. The guest must have ended. Closing twice is
// no error.
func (f *Files) Close() error {
	var errs []error
	for _, e := range f.entries {
		errs = append(errs, e.dir.Close())
	}
	return errors.Join(errs...)
}

// find returns the file of that name, where it is still one.
func (f *Files) find(name string) (entry, experimentalsys.Errno) {
	e, ok := f.entries[local(name)]
	if !ok {
		return e, experimentalsys.ENOENT
	}
	st, no := e.dir.Lstat(e.name)
	if no == 0 && !st.Mode.IsRegular() {
		no = experimentalsys.EPERM // replaced by a link to who knows what
	}
	return e, no
}

// OpenFile opens a file, or the directory itself: that [MaxOpenFiles] times at most.
func (f *Files) OpenFile(name string, flag experimentalsys.Oflag, perm fs.FileMode) (experimentalsys.File, experimentalsys.Errno) {
	if local(name) == "." {
		dir, no := f.dirs.add(flag)
		if no != 0 {
			return nil, no
		}
		return &filesDir{virtualDir: dir, files: f}, 0
	}
	e, no := f.find(name)
	if no == experimentalsys.ENOENT && flag&experimentalsys.O_CREAT != 0 {
		return nil, experimentalsys.EROFS
	}
	if no != 0 {
		return nil, no
	}
	return e.dir.OpenFile(e.name, flag, perm)
}

// Lstat describes a file, or the directory itself.
func (f *Files) Lstat(name string) (sys.Stat_t, experimentalsys.Errno) {
	if local(name) == "." {
		return sys.Stat_t{Mode: fs.ModeDir | 0o555, Nlink: 1}, 0
	}
	e, no := f.find(name)
	if no != 0 {
		return sys.Stat_t{}, no
	}
	return e.dir.Lstat(e.name)
}

// Stat is Lstat: no file here is a link.
func (f *Files) Stat(name string) (sys.Stat_t, experimentalsys.Errno) { return f.Lstat(name) }

// Chmod changes a file's permission bits.
func (f *Files) Chmod(name string, perm fs.FileMode) experimentalsys.Errno {
	e, no := f.find(name)
	if no != 0 {
		return no
	}
	return e.dir.Chmod(e.name, perm)
}

// Utimens changes a file's times.
func (f *Files) Utimens(name string, atim, mtim int64) experimentalsys.Errno {
	e, no := f.find(name)
	if no != 0 {
		return no
	}
	return e.dir.Utimens(e.name, atim, mtim)
}

// Readlink finds no links here.
func (f *Files) Readlink(name string) (string, experimentalsys.Errno) {
	if _, no := f.Lstat(name); no != 0 {
		return "", no
	}
	return "", experimentalsys.EINVAL
}

// Mkdir is refused, as is all that changes which files there are.
func (f *Files) Mkdir(string, fs.FileMode) experimentalsys.Errno { return experimentalsys.EROFS }

// Rename is refused.
func (f *Files) Rename(string, string) experimentalsys.Errno { return experimentalsys.EROFS }

// Rmdir is refused.
func (f *Files) Rmdir(string) experimentalsys.Errno { return experimentalsys.EROFS }

// Unlink is refused.
func (f *Files) Unlink(string) experimentalsys.Errno { return experimentalsys.EROFS }

// Link is refused.
func (f *Files) Link(string, string) experimentalsys.Errno { return experimentalsys.EROFS }

// Symlink is refused.
func (f *Files) Symlink(string, string) experimentalsys.Errno { return experimentalsys.EROFS }

// filesDir is the open directory.
type filesDir struct {
	virtualDir
	files *Files
	read  int // names that were listed
}

func (d *filesDir) Stat() (sys.Stat_t, experimentalsys.Errno) { return d.files.Lstat(".") }

func (d *filesDir) Seek(offset int64, whence int) (int64, experimentalsys.Errno) {
	if offset != 0 || whence != io.SeekStart {
		return 0, experimentalsys.EINVAL
	}
	d.read = 0
	return 0, 0
}

func (d *filesDir) Readdir(n int) ([]experimentalsys.Dirent, experimentalsys.Errno) {
	names := d.files.names[d.read:]
	if n > 0 && n < len(names) {
		names = names[:n]
	}
	d.read += len(names)
	out := make([]experimentalsys.Dirent, 0, len(names))
	for _, name := range names {
		if st, no := d.files.Lstat(name); no == 0 {
			out = append(out, experimentalsys.Dirent{Name: name, Ino: st.Ino})
		}
	}
	return out, 0
}
