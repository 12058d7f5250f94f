package isolate

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// plainAttributes are for file systems that hold no programs and no devices.
const plainAttributes = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV | unix.MOUNT_ATTR_NOEXEC

// What of /proc and /sys tells about the node's hardware, kernel and keys more than a
// task needs, and what changes the node: the lists that container runtimes have.
var (
	masked = []string{
		"/proc/acpi", "/proc/asound", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/sched_debug",
		"/proc/scsi", "/proc/timer_list", "/proc/timer_stats", "/sys/devices/virtual/powercap", "/sys/firmware",
	}
	readOnly = []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"}
)

// mountProc mounts the processes of this namespace.
func (r root) mountProc() error {
	if err := r.mountNew("proc", "/proc", plainAttributes); err != nil {
		return err
	}
	for _, name := range readOnly {
		if err := r.ifThere(name, func(fd int) error { return r.bind(fd, name, plainAttributes|unix.MOUNT_ATTR_RDONLY) }); err != nil {
			return failed("making "+name+" read-only", err)
		}
	}
	return r.mask("/proc/")
}

// mountSys mounts what programs ask about the machine.
func (r root) mountSys() error {
	if err := r.mountNew("sysfs", "/sys", plainAttributes|unix.MOUNT_ATTR_RDONLY); err != nil {
		return err
	}
	return r.mask("/sys/")
}

// mask hides files and directories below a directory.
func (r root) mask(below string) error {
	null, err := unix.Open("/dev/null", unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return failed("/dev/null", err)
	}
	defer closeFD(null)
	for _, name := range masked {
		if !strings.HasPrefix(name, below) {
			continue
		}
		err := r.ifThere(name, func(fd int) error {
			var stat unix.Stat_t
			if err := unix.Fstat(fd, &stat); err != nil {
				return err
			}
			if stat.Mode&unix.S_IFMT == unix.S_IFDIR {
				return r.mountNew("tmpfs", name, plainAttributes|unix.MOUNT_ATTR_RDONLY, "nr_inodes=1", "mode=555")
			}
			return r.bind(null, name, unix.MOUNT_ATTR_RDONLY)
		})
		if err != nil {
			return failed("hiding "+name, err)
		}
	}
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

// mountNew mounts a new file system with KEY=VALUE options at a path of the root.
func (r root) mountNew(kind, target string, attributes int, options ...string) error {
	tree, err := newFileSystem(kind, attributes, options)
	if err == nil {
		err = r.attach(tree, target, true)
	}
	if err != nil {
		return failed("mount "+target, err)
	}
	return nil
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
