package isolate

import (
	"golang.org/x/sys/unix"
)

// nodes are the devices that every process has: they lead to nothing of the node's.
var nodes = []struct {
	name         string
	major, minor uint32
}{
	{"null", 1, 3}, {"zero", 1, 5}, {"full", 1, 7}, {"random", 1, 8}, {"urandom", 1, 9}, {"tty", 5, 0},
}

// links are what programs expect besides.
var links = map[string]string{
	"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2", "ptmx": "pts/ptmx",
}

// mountDev mounts a /dev with that in it, terminals and shared memory of the process's
// own. What is written to /dev/shm counts as its memory.
func (r root) mountDev() error {
	const attributes = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NOEXEC
	dev, err := r.mountNew("tmpfs", "/dev", attributes, "mode=755", "size=64k")
	if err != nil {
		return err
	}
	defer closeFD(dev.fd)
	// The modes below are meant as they are.
	defer unix.Umask(unix.Umask(0))
	for _, n := range nodes {
		if err := unix.Mknodat(dev.fd, n.name, unix.S_IFCHR|0o666, int(unix.Mkdev(n.major, n.minor))); err != nil {
			return failed("/dev/"+n.name, err)
		}
	}
	for name, target := range links {
		if err := unix.Symlinkat(target, dev.fd, name); err != nil {
			return failed("/dev/"+name, err)
		}
	}
	terminals, err := dev.mountNew("devpts", "pts", attributes, "mode=620", "ptmxmode=666")
	if err != nil {
		return err
	}
	defer closeFD(terminals.fd)
	shared, err := dev.mountNew("tmpfs", "shm", plainAttributes, "mode=1777")
	if err != nil {
		return err
	}
	closeFD(shared.fd)
	return nil
}

// addDevice makes a device node of the node's visible. Who may open it is decided by
// its owner and mode, as on the node.
func (r root) addDevice(d Device) error {
	source, err := unix.Open(d.HostPath, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return failed("device "+d.HostPath, err)
	}
	defer closeFD(source)
	if err := r.bind(source, d.GuestPath, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC); err != nil {
		return failed("device "+d.HostPath+" at "+d.GuestPath, err)
	}
	return nil
}
