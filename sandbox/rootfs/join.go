package rootfs

import (
	"io/fs"
	"path"
	"path/filepath"
	"strings"

	experimentalsys "github.com/tetratelabs/wazero/experimental/sys"
	"github.com/tetratelabs/wazero/sys"
)

// maxLinks bounds the symbolic links that are followed for one path, as Linux does.
const maxLinks = 40

// Join lets relative symbolic links lead from one of several directories into another,
// for reading: what the kernel's trees below /sys are full of. The guest must see each
// at the path that it has on the host. Every file is still opened below the directory
// that it lies in, so nothing comes into reach that did not lie in one of them. It must
// be called before the guest starts.
func Join(dirs ...*FS) {
	for _, f := range dirs {
		f.joined = dirs
	}
}

// resolveJoined follows the links of a path, and returns the one of the joined directories
// in which it ends, and where there. The last link is followed only if last is true. ok
// is false when it has no links, or leads to what is not joined.
func (f *FS) resolveJoined(name string, last bool) (to *FS, rest string, ok bool) {
	if len(f.joined) < 2 {
		return nil, "", false
	}
	at, rest := f, strings.TrimSuffix(name, "/")
	for followed := range maxLinks {
		link, below, found := at.firstLink(rest, last)
		if !found {
			return at, rest, followed > 0
		}
		target, err := at.root.Readlink(link)
		if err != nil || path.IsAbs(target) {
			return nil, "", false
		}
		// What is before the link has none in it, so that its ".." are as written.
		if at, rest, ok = f.find(path.Join(at.real, path.Dir(link), target, below)); !ok {
			return nil, "", false
		}
	}
	return nil, "", false
}

// firstLink returns the first symbolic link on a path, and what comes after it.
func (f *FS) firstLink(name string, last bool) (link, below string, found bool) {
	parts := strings.Split(name, "/")
	for i := range parts {
		if i == len(parts)-1 && !last || f.stopped() {
			break
		}
		p := path.Join(parts[:i+1]...)
		info, err := f.root.Lstat(p)
		if err != nil {
			break
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			return p, path.Join(parts[i+1:]...), true
		}
	}
	return "", "", false
}

// find returns the innermost of the joined directories that a host path is in.
func (f *FS) find(hostPath string) (in *FS, rest string, ok bool) {
	for _, d := range f.joined {
		r, err := filepath.Rel(d.real, hostPath)
		if err == nil && filepath.IsLocal(r) && (in == nil || len(d.real) > len(in.real)) {
			in, rest = d, r
		}
	}
	return in, rest, in != nil
}

// openJoined opens for reading what a link leads to in another directory. EPERM:
// there is no such thing.
func (f *FS) openJoined(name string, flag experimentalsys.Oflag) (experimentalsys.File, experimentalsys.Errno) {
	if to, rest, ok := f.resolveJoined(name, true); ok {
		return to.OpenFile(rest, flag, 0)
	}
	return nil, experimentalsys.EPERM
}

// statJoined describes what a link leads to in another directory. EPERM: there is no
// such thing.
func (f *FS) statJoined(name string, last bool) (sys.Stat_t, experimentalsys.Errno) {
	if to, rest, ok := f.resolveJoined(name, last); ok {
		return stat(to.root.Lstat(local(rest)))
	}
	return sys.Stat_t{}, experimentalsys.EPERM
}
