package workload

// Isolated is what a process with full isolation has of the node. It is process 1 of
// a namespace of its own. Besides what is listed here it has a /proc, a read-only /sys,
// a /dev with harmless devices, and the network that every process of its spec has.
type Isolated struct {
	// Root is the host directory that becomes the root. Mount points are made in it.
	Root string
	// Image, where it is not nil, is a host directory whose files are in the root in place of
	// Root's. It has no guest path, and is not changed: what is written to the root, other than
	// to mounts, counts as the process's memory and ends with it.
	Image *Mount `json:",omitempty"`
	// ReadOnlyRoot goes with an image: nothing can be written to the root, other than to mounts.
	ReadOnlyRoot bool `json:",omitempty"`
	Mounts       []Mount
	// Devices are nodes that it may have opened, besides the harmless ones. Their owners
	// and modes are the node's.
	Devices []Device
	// Search are absolute paths of directories in which a command without '/' is looked
	// for first.
	Search []string
	// Owned are paths in Root, which is "/", that become its user's, such as that of a
	// directory that nobody else may read.
	Owned []string
	// AddCapabilities are what it has besides those of every isolated process of its user, and
	// DropCapabilities what of those it does not have.
	AddCapabilities, DropCapabilities Capabilities `json:",omitempty"`
	// CPUShares is its weight against other processes that want to run, in MHz by
	// convention; 0: the kernel's default.
	CPUShares uint64
	// MemoryReservedBytes is what the kernel tries to leave to it; 0: nothing.
	MemoryReservedBytes uint64
}

// Device makes a device node of the host's visible at an absolute path in a root.
type Device struct {
	GuestPath string
	HostPath  string
}
