package isolate

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/workload"
)

// root is the new root while it is being built: the descriptor of its top directory.
// All paths in it are resolved below it, links included, as what is in it may be the
// task's own work.
type root int

// enterRoot builds the root in namespaces that are this process's own, and leaves the
// node's.
func enterRoot(s *Spec) error {
	// Nothing of what follows is to reach the node.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return failed("making mounts private", err)
	}
	r, err := newRoot(s.Root)
	if err != nil {
		return err
	}
	// Before there is anything of the node's in it that a link could lead to.
	for _, name := range s.Owned {
		if err := r.give(name, s.User); err != nil {
			return failed(name, err)
		}
	}
	if err := r.populate(s); err != nil {
		return err
	}
	return r.enter()
}

func newRoot(dir string) (root, error) {
	tree, err := cloneTree(unix.AT_FDCWD, dir, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV)
	if err != nil {
		return 0, failed("root "+dir, err)
	}
	if err := unix.MoveMount(tree, "", unix.AT_FDCWD, dir, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return 0, failed("root "+dir, err)
	}
	return root(tree), nil
}

func (r root) populate(s *Spec) error {
	for _, mount := range []func() error{r.mountProc, r.mountSys, r.mountDev} {
		if err := mount(); err != nil {
			return err
		}
	}
	// What is nearer to the root comes first, or it would hide the others.
	mounts := slices.Clone(s.Mounts)
	slices.SortStableFunc(mounts, func(a, b workload.Mount) int { return cmp.Compare(a.GuestPath, b.GuestPath) })
	for _, m := range mounts {
		if err := r.mount(m); err != nil {
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

// enter makes the root this process's, and leaves nothing of the one before.
func (r root) enter() error {
	if err := unix.Fchdir(int(r)); err != nil {
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

// mount makes a directory or file of the node's visible.
func (r root) mount(m workload.Mount) error {
	source, err := openSource(m)
	if errors.Is(err, unix.EXDEV) {
		return abi.NewError(abi.PermissionDenied, fmt.Sprintf("mount %s: it leads out of %s", m.HostPath, m.Within))
	}
	if err != nil {
		return failed("mount "+m.HostPath, err)
	}
	defer closeFD(source)
	if err := mountable(source); err != nil {
		return abi.NewError(abi.InvalidArgument, fmt.Sprintf("mount %s: %v", m.HostPath, err))
	}
	attributes := uint64(unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV)
	if m.ReadOnly {
		attributes |= unix.MOUNT_ATTR_RDONLY
	}
	if err := r.bind(source, m.GuestPath, attributes); err != nil {
		return failed(fmt.Sprintf("mount %s at %s", m.HostPath, m.GuestPath), err)
	}
	return nil
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
func openSource(m workload.Mount) (int, error) {
	if m.Within == "" {
		return unix.Open(m.HostPath, unix.O_PATH|unix.O_CLOEXEC, 0)
	}
	rest, err := filepath.Rel(m.Within, m.HostPath)
	if err != nil {
		return -1, err
	}
	within, err := unix.Open(m.Within, unix.O_PATH|unix.O_CLOEXEC|unix.O_DIRECTORY, 0)
	if err != nil {
		return -1, err
	}
	defer closeFD(within)
	return unix.Openat2(within, rest, &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS,
	})
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
	return r.attach(tree, target, stat.Mode&unix.S_IFMT == unix.S_IFDIR)
}

// attach mounts a detached tree at a path of the root, and closes it.
func (r root) attach(tree int, target string, isDir bool) error {
	defer closeFD(tree)
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
	if isDir {
		err = unix.Mkdirat(parent, path.Base(target), 0o755)
	} else {
		err = unix.Mknodat(parent, path.Base(target), unix.S_IFREG|0o644, 0)
	}
	if errors.Is(err, unix.EEXIST) {
		return -1, fmt.Errorf("%s is a link that leads nowhere in the root", target)
	}
	if err != nil {
		return -1, err
	}
	return r.open(target)
}

// open opens a path of the root, wherever it is in a link's eyes.
func (r root) open(target string) (int, error) {
	fd, err := unix.Openat2(int(r), target, &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS,
	})
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
