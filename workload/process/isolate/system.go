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

// What of /proc and /sys tells about the node's hardware, kernel and keys more than a
// task needs, and what changes the node: the lists that container runtimes have.
var (
	maskedInProc = []string{
		"acpi", "asound", "interrupts", "kcore", "keys", "latency_stats", "sched_debug", "scsi", "timer_list", "timer_stats",
	}
	maskedInSys    = []string{"devices/virtual/powercap", "firmware"}
	readOnlyInProc = []string{"bus", "fs", "irq", "sys", "sysrq-trigger"}
)

// mountProc mounts the processes of this namespace.
func (r root) mountProc() error {
	proc, err := r.mountNew("proc", "/proc", plainAttributes)
	if err != nil {
		return err
	}
	defer closeFD(proc.fd)
	for _, name := range readOnlyInProc {
		if err := proc.ifThere(name, func(fd int) error { return proc.bind(fd, name, plainAttributes|unix.MOUNT_ATTR_RDONLY) }); err != nil {
			return failed("making /proc/"+name+" read-only", err)
		}
	}
	return proc.mask(maskedInProc)
}

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
	null, err := unix.Open("/dev/null", unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return failed("/dev/null", err)
	}
	defer closeFD(null)
	for _, name := range names {
		if err := r.ifThere(name, func(fd int) error { return r.hide(name, fd, null) }); err != nil {
			return failed("hiding "+path.Join(r.name, name), err)
		}
	}
	return nil
}

// hide mounts nothing over a directory, and a device that is empty over a file.
func (r root) hide(name string, fd, null int) error {
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return err
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFDIR {
		return r.bind(null, name, unix.MOUNT_ATTR_RDONLY)
	}
	empty, err := r.mountNew("tmpfs", name, plainAttributes|unix.MOUNT_ATTR_RDONLY, "nr_inodes=1", "mode=555")
	if err != nil {
		return err
	}
	closeFD(empty.fd)
	return nil
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
