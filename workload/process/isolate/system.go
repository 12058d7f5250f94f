package isolate

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// plainAttributes are for file systems that hold no programs and no devices.
const plainAttributes = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV | unix.MOUNT_ATTR_NOEXEC

// maskedInSys is what of /sys tells about the node's hardware and firmware more than a task needs:
// the list that container runtimes have.
var maskedInSys = []string{"devices/virtual/powercap", "firmware"}

// mountSys mounts what programs ask about the machine.
func (r root) mountSys() error {
	sys, err := r.mountNew("sysfs", "/sys", plainAttributes|unix.MOUNT_ATTR_RDONLY)
	if err != nil {
		return err
	}
	defer closeFD(sys.fd)
	return sys.mask(maskedInSys)
}

// mask hides files and directories.
func (r root) mask(names []string) error {
	for _, name := range names {
		if err := r.ifThere(name, func(fd int) error { return r.hide(name, fd) }); err != nil {
			return failed("hiding "+path.Join(r.name, name), err)
		}
	}
	return nil
}

func (r root) hide(name string, fd int) error {
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return err
	}
	isDir := stat.Mode&unix.S_IFMT == unix.S_IFDIR
	tree, err := nothing(isDir)
	if err != nil {
		return err
	}
	defer closeFD(tree)
	return r.attach(tree, name, isDir)
}

// nothing returns a tree that hides what it is mounted over: an empty directory, or a device that
// is empty.
func nothing(isDir bool) (tree int, err error) {
	if isDir {
		return newFileSystem("tmpfs", plainAttributes|unix.MOUNT_ATTR_RDONLY, []string{"nr_inodes=1", "mode=555"})
	}
	return cloneTree(unix.AT_FDCWD, "/dev/null", unix.MOUNT_ATTR_RDONLY)
}

// ifThere calls f with a path of the root, if this kernel has it.
func (r root) ifThere(name string, f func(fd int) error) error {
	fd, err := r.open(name)
	switch {
	case errors.Is(err, unix.ENOENT):
		return nil
	case err != nil:
		return err
	}
	defer closeFD(fd)
	return f(fd)
}

// mountNew mounts a new file system with KEY=VALUE options at a path of the root. It is
// returned, since a path may have become another's; the caller closes it.
func (r root) mountNew(kind, target string, attributes int, options ...string) (root, error) {
	name := path.Join("/", r.name, target)
	tree, err := newFileSystem(kind, attributes, options)
	if err != nil {
		return root{}, failed("mount "+name, err)
	}
	if err := r.attach(tree, target, true); err != nil {
		closeFD(tree)
		return root{}, failed("mount "+name, err)
	}
	return root{fd: tree, name: name}, nil
}

// newFileSystem returns a file system that is visible nowhere yet.
func newFileSystem(kind string, attributes int, options []string) (int, error) {
	context, err := unix.Fsopen(kind, unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("fsopen: %w", err)
	}
	defer closeFD(context)
	for _, option := range options {
		name, value, _ := strings.Cut(option, "=")
		if err := unix.FsconfigSetString(context, name, value); err != nil {
			return -1, fmt.Errorf("fsconfig %s: %w", option, err)
		}
	}
	if err := unix.FsconfigCreate(context); err != nil {
		return -1, fmt.Errorf("fsconfig: %w", err)
	}
	tree, err := unix.Fsmount(context, unix.FSMOUNT_CLOEXEC, attributes)
	if err != nil {
		return -1, fmt.Errorf("fsmount: %w", err)
	}
	return tree, nil
}
