package isolate

// Spec is what a process is and what it sees of the node. Paths are the node's where
// nothing else is sent.
type Spec struct {
	// Join has the process enter the root and the namespaces of another, whose pidfd it
	// has as joinFD, in place of building its own: Root, Mounts, Devices and Owned say
	// nothing then.
	Join bool
	// Bare has the process stay where it was forked: it only becomes the user's, and has
	// bounds and paths. Root, Mounts, Devices and Owned say nothing then; Dir and Command are the
	// node's.
	Bare bool
	// OwnNetwork says that it was forked into a new network namespace, whose loopback interface
	// it has to start.
	OwnNetwork bool
	// DataMaxBytes bounds the data of a process that is bare, and of each that it starts; 0:
	// it is not bounded.
	DataMaxBytes uint64
	// Paths are the only files that a bare process may use; nil: all that its user may.
	Paths []Path
	// CPUs is the mask of sched_setaffinity(2); none: the supervisor's.
	CPUs []uint64 `json:",omitempty"`
	// Limits are what it and all that it starts is held to besides, and OOMScoreAdj how much sooner
	// than others the kernel kills it for want of memory: from 0 to 1000.
	Limits      []Limit `json:",omitempty"`
	OOMScoreAdj int     `json:",omitempty"`
	// AddCapabilities and DropCapabilities change what a process that is not bare may have.
	AddCapabilities, DropCapabilities Capabilities
	// Root is the directory that becomes the process's root, or that the root is mounted over.
	Root string
	// Image, where it is not nil, is the directory whose files are in the root in place of
	// Root's, and ReadOnlyRoot has them stay as they are. What is mounted is not meant.
	Image        *Mount `json:",omitempty"`
	ReadOnlyRoot bool   `json:",omitempty"`
	// Mounts are made visible in the root, those nearest to it first. A missing mount
	// point is made.
	Mounts []Mount
	// Devices are device nodes of the node's that the process has in its /dev, besides
	// those that every process has.
	Devices []Device
	// Command is an absolute path in the root, a path with a '/' below it, or a bare
	// name: that of a program in Search or in a directory of the environment's PATH.
	// Empty: all that comes before is tried, and the process ends.
	Command string
	// Search are directories of the root in which a bare name is looked for first.
	Search []string
	Args   []string // with argument 0
	Env    []string
	// Dir is the working directory, an absolute path in the root.
	Dir  string
	User User
	// Owned are absolute paths in Root that become the user's.
	Owned []string
}

// User is whom the process runs as.
type User struct {
	UID, GID uint32
	Groups   []uint32
}

// These are those of package workload of the same names, which imports more than a new process
// should wait for.
type (
	// Path is a file that a process may use, or a directory with all below it.
	Path struct{ Path, Within, Rights string }

	// Limit is one of setrlimit(2).
	Limit struct {
		Name       string
		Soft, Hard uint64
	}

	// Capabilities are a set of Linux's: 1 << CAP_CHOWN and so on.
	Capabilities uint64

	// Device makes a device node of the host's visible in the root.
	Device struct{ GuestPath, HostPath string }

	// Mount makes a host directory or file visible, or an empty directory in memory.
	Mount struct {
		GuestPath string
		HostPath  string
		Within    string
		ReadOnly  bool
		Memory    bool `json:",omitempty"`
	}
)
