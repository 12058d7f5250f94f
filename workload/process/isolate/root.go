package isolate

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/internal/openat2"
)

// root is the new root while it is being built, or a file system that was mounted in it.
// All paths in it are resolved below it, links included, as what is in it may be the
// task's own work.
type root struct {
	fd   int    // of its top directory
	name string // of that in the new root; empty: it is the new root
	own  bool   // what is in it, other than mounts, is nobody else's, and can be replaced
	proc uint64 // the device of what is at its /proc until the processes are; 0: nothing is yet
}

// taskDir is the task's directory, open since before anything was mounted over it.
type taskDir struct {
	fd   int
	path string // the node's
}

// enterRoot builds the root in a mount namespace that is this thread's own, and leaves the node's.
// Proc is where /proc is to be mounted; the caller closes it.
func enterRoot(s *Spec, namespace int) (proc int, err error) {
	// Nothing of what follows is to reach the node.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return -1, failed("making mounts private", err)
	}
	fd, err := unix.Open(s.Root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, failed("root "+s.Root, err)
	}
	defer closeFD(fd)
	task := taskDir{fd, s.Root}
	// Before there is anything of the node's in it that a link could lead to.
	for _, name := range s.Owned {
		if err := (root{fd: fd}).give(name, s.User); err != nil {
			return -1, failed(name, err)
		}
	}
	r, err := task.newRoot(s.Image)
	if err != nil {
		return -1, err
	}
	defer closeFD(r.fd)
	if proc, err = r.populate(s, task); err != nil {
		return -1, err
	}
	if err := r.finish(s.ReadOnlyRoot, namespace); err != nil {
		closeFD(proc)
		return -1, err
	}
	return proc, nil
}

// finish enters the root, in which all is mounted.
func (r root) finish(readOnly bool, namespace int) error {
	if readOnly {
		if err := unix.MountSetattr(r.fd, "", unix.AT_EMPTY_PATH, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}); err != nil {
			return failed("making the root read-only", err)
		}
	}
	return r.enter(namespace)
}

// rootAttributes hold for all that is in a root.
const rootAttributes = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV

// newRoot mounts the root over the task's directory: that itself, or an image.
func (t taskDir) newRoot(image *Mount) (root, error) {
	what, newTree := "root "+t.path, func() (int, error) { return cloneTree(t.fd, "", rootAttributes) }
	if image != nil {
		what, newTree = "root "+image.HostPath, func() (int, error) { return t.newOverlay(*image) }
	}
	tree, err := newTree()
	if err == nil {
		if err = t.cover(tree); err != nil {
			closeFD(tree)
		}
	}
	if errors.Is(err, unix.EXDEV) && image != nil {
		return root{}, leadsOut(what, *image)
	}
	if err != nil {
		return root{}, failed(what, err)
	}
	return root{fd: tree, own: image != nil}, nil
}

// cover mounts a detached tree over the task's directory.
func (t taskDir) cover(tree int) error {
	return unix.MoveMount(tree, "", t.fd, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
}

// newOverlay returns a tree, visible nowhere yet, that has an image's files. What is written
// to it stays in memory.
func (t taskDir) newOverlay(image Mount) (int, error) {
	lower, err := t.openSource(image)
	if err != nil {
		return -1, err
	}
	defer closeFD(lower)
	var stat unix.Stat_t
	if err := unix.Fstat(lower, &stat); err != nil {
		return -1, err
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFDIR {
		return -1, unix.ENOTDIR
	}
	changes, err := newFileSystem("tmpfs", rootAttributes, nil)
	if err != nil {
		return -1, err
	}
	defer closeFD(changes)
	if err := t.cover(changes); err != nil { // an overlay has parts that are mounted only
		return -1, err
	}
	defer unix.Umask(unix.Umask(0))
	for _, name := range []string{"upper", "work"} {
		if err := unix.Mkdirat(changes, name, 0o755); err != nil {
			return -1, err
		}
	}
	return newFileSystem("overlay", rootAttributes, []string{
		fmt.Sprintf("lowerdir=/proc/self/fd/%d", lower),
		fmt.Sprintf("upperdir=/proc/self/fd/%d/upper", changes),
		fmt.Sprintf("workdir=/proc/self/fd/%d/work", changes),
	})
}

// unlinkFixed has an image not say where the node's own file systems are.
func (r root) unlinkFixed() error {
	for _, name := range []string{"dev", "proc", "sys"} {
		err := unix.Unlinkat(r.fd, name, 0)
		if err != nil && !errors.Is(err, unix.EISDIR) && !errors.Is(err, unix.ENOENT) {
			return failed("the image's /"+name, err)
		}
	}
	return nil
}

// populate makes the root's directories and mounts, and opens that of the processes, which are
// mounted once there are some: where it leads to is decided before anything else is mounted.
func (r root) populate(s *Spec, task taskDir) (proc int, err error) {
	if r.own {
		if err := r.unlinkFixed(); err != nil {
			return -1, err
		}
	}
	// What leads in there would not be seen any more: nothing can be mounted in this.
	if proc, err = nothing(true); err != nil {
		return -1, failed("mount /proc", err)
	}
	if err = r.attach(proc, "/proc", true); err != nil {
		err = failed("mount /proc", err)
	} else {
		r.proc = deviceOf(proc)
		err = r.mountAll(s, task)
	}
	if err != nil {
		closeFD(proc)
		return -1, err
	}
	return proc, nil
}

func (r root) mountAll(s *Spec, task taskDir) error {
	if err := r.mountSys(); err != nil {
		return err
	}
	if err := r.mountDev(); err != nil {
		return err
	}
	// What is nearer to the root comes first, or it would hide the others.
	mounts := slices.Clone(s.Mounts)
	slices.SortStableFunc(mounts, func(a, b Mount) int { return cmp.Compare(a.GuestPath, b.GuestPath) })
	for _, m := range mounts {
		if err := r.mount(m, task); err != nil {
			return err
		}
	}
	for _, d := range s.Devices {
		if err := r.addDevice(d); err != nil {
			return err
		}
	}
	return nil
}

// give makes a file or directory of the root a user's.
func (r root) give(name string, u User) error {
	fd, err := r.open(name)
	if err != nil {
		return err
	}
	defer closeFD(fd)
	return unix.Fchownat(fd, "", int(u.UID), int(u.GID), unix.AT_EMPTY_PATH)
}

// enter makes the root that of a mount namespace, which this thread is in, and leaves nothing of the one
// before. The thread's own root may be another (chroot), and whoever enters the namespace later, as commands do
// that join the process, begins at its top.
func (r root) enter(namespace int) error {
	if err := unix.Setns(namespace, unix.CLONE_NEWNS); err != nil {
		return failed("going to the top of its mounts", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return failed("making mounts private", err)
	}
	if err := unix.Fchdir(r.fd); err != nil {
		return failed("entering the root", err)
	}
	// The old root is put on top of the new one, where it can be taken away.
	if err := unix.PivotRoot(".", "."); err != nil {
		return failed("entering the root", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return failed("leaving the node's root", err)
	}
	return unix.Chdir("/")
}

// mount makes a directory or file of the node's visible, or an empty directory in memory.
func (r root) mount(m Mount, task taskDir) error {
	if m.Memory {
		return r.mountMemory(m)
	}
	source, err := task.openSource(m)
	if errors.Is(err, unix.EXDEV) {
		return leadsOut("mount "+m.HostPath, m)
	}
	if err != nil {
		return failed("mount "+m.HostPath, err)
	}
	defer closeFD(source)
	if err := mountable(source); err != nil {
		return abi.NewError(abi.InvalidArgument, fmt.Sprintf("mount %s: %v", m.HostPath, err))
	}
	if err := r.bind(source, m.GuestPath, mountAttributes(m)); err != nil {
		return failed(fmt.Sprintf("mount %s at %s", m.HostPath, m.GuestPath), err)
	}
	return nil
}

func (r root) mountMemory(m Mount) error {
	tmp, err := r.mountNew("tmpfs", m.GuestPath, int(mountAttributes(m)), "mode=1777")
	if err != nil {
		return err
	}
	closeFD(tmp.fd)
	return nil
}

func mountAttributes(m Mount) uint64 {
	if m.ReadOnly {
		return rootAttributes | unix.MOUNT_ATTR_RDONLY
	}
	return rootAttributes
}

func leadsOut(what string, m Mount) error {
	return abi.NewError(abi.PermissionDenied, fmt.Sprintf("%s: it leads out of %s", what, m.Within))
}

// mountable refuses what is neither a directory nor a regular file.
func mountable(fd int) error {
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return err
	}
	if kind := stat.Mode & unix.S_IFMT; kind != unix.S_IFDIR && kind != unix.S_IFREG {
		return errors.New("it is neither a directory nor a regular file")
	}
	return nil
}

// openSource opens what is mounted, and only that: it cannot be exchanged afterwards.
func (t taskDir) openSource(m Mount) (int, error) {
	if m.Within == t.path {
		return openBelow(t.fd, t.path, m.HostPath)
	}
	return openWithin(m.HostPath, m.Within)
}

// openWithin opens a path for itself. It lies in that directory, or is it, unless that is empty.
func openWithin(file, within string) (int, error) {
	if within == "" {
		return unix.Open(file, unix.O_PATH|unix.O_CLOEXEC, 0)
	}
	base, err := unix.Open(within, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil || file == within {
		return base, err
	}
	defer closeFD(base)
	return openBelow(base, within, file)
}

// openBelow opens a path below an open directory.
func openBelow(base int, within, file string) (int, error) {
	file, within = path.Clean(file), path.Clean(within)
	rest, below := strings.CutPrefix(file, strings.TrimSuffix(within, "/")+"/")
	switch {
	case file == within:
		rest = "."
	case !below:
		return -1, unix.EXDEV
	}
	return openat2.Path(base, rest, unix.RESOLVE_BENEATH|unix.RESOLVE_NO_MAGICLINKS)
}

// bind makes the file that a descriptor stands for, with what is mounted in it,
// visible at a path of the root.
func (r root) bind(source int, target string, attributes uint64) error {
	var stat unix.Stat_t
	if err := unix.Fstat(source, &stat); err != nil {
		return err
	}
	tree, err := cloneTree(source, "", attributes)
	if err != nil {
		return err
	}
	defer closeFD(tree)
	return r.attach(tree, target, stat.Mode&unix.S_IFMT == unix.S_IFDIR)
}

// attach mounts a detached tree at a path of the root.
func (r root) attach(tree int, target string, isDir bool) error {
	point, err := r.mountPoint(target, isDir)
	if err != nil {
		return err
	}
	defer closeFD(point)
	return unix.MoveMount(tree, "", point, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
}

// mountPoint opens a path of the root. What is missing of it is made, belongs to root
// and is empty.
func (r root) mountPoint(target string, isDir bool) (int, error) {
	fd, err := r.open(target)
	if !errors.Is(err, unix.ENOENT) {
		return fd, err
	}
	parent, err := r.mountPoint(path.Dir(target), true)
	if err != nil {
		return -1, err
	}
	defer closeFD(parent)
	err = newPoint(parent, path.Base(target), isDir)
	if errors.Is(err, unix.EROFS) && r.proc != 0 && r.proc == deviceOf(parent) {
		return -1, fmt.Errorf("%s leads into /proc, which is the kernel's: %w", target, err)
	}
	if errors.Is(err, unix.EEXIST) && r.owns(parent) {
		if err = unix.Unlinkat(parent, path.Base(target), 0); err == nil {
			err = newPoint(parent, path.Base(target), isDir)
		}
	}
	if errors.Is(err, unix.EEXIST) {
		return -1, fmt.Errorf("%s is a link that leads nowhere in the root", target)
	}
	if err != nil {
		return -1, err
	}
	return r.open(target)
}

// owns reports whether a directory is nobody else's, as those of what is mounted in the root are.
func (r root) owns(dir int) bool { return r.own && deviceOf(r.fd) == deviceOf(dir) }

// deviceOf is that of an open file; 0: it has none that can be told.
func deviceOf(fd int) uint64 {
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return 0
	}
	return stat.Dev
}

// newPoint makes an empty directory or file.
func newPoint(parent int, name string, isDir bool) error {
	if isDir {
		return unix.Mkdirat(parent, name, 0o755)
	}
	return unix.Mknodat(parent, name, unix.S_IFREG|0o644, 0)
}

// open opens a path of the root, wherever it is in a link's eyes.
func (r root) open(target string) (int, error) {
	fd, err := openat2.Path(r.fd, target, unix.RESOLVE_IN_ROOT|unix.RESOLVE_NO_MAGICLINKS)
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: target, Err: err}
	}
	return fd, nil
}

// cloneTree returns a copy of a directory or file with all that is mounted in it, all
// with these attributes too. It is visible nowhere yet.
func cloneTree(dir int, name string, attributes uint64) (int, error) {
	flags := uint(unix.AT_RECURSIVE)
	if name == "" {
		flags |= unix.AT_EMPTY_PATH
	}
	tree, err := unix.OpenTree(dir, name, flags|unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("open_tree: %w", err)
	}
	if attributes == 0 {
		return tree, nil
	}
	err = unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: attributes})
	if err != nil {
		closeFD(tree)
		return -1, fmt.Errorf("mount_setattr: %w", err)
	}
	return tree, nil
}

func closeFD(fd int) { _ = unix.Close(fd) } // nothing was written to it
