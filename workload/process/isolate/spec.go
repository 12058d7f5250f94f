package isolate

import "github.com/wasmnode/wasmnode/workload"

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
	Paths  []workload.Path
	Bounds workload.Bounds
	// AddCapabilities and DropCapabilities change what a process that is not bare may have.
	AddCapabilities, DropCapabilities workload.Capabilities
	// Root is the directory that becomes the process's root, or that the root is mounted over.
	Root string
	// Image, where it is not nil, is the directory whose files are in the root in place of
	// Root's, and ReadOnlyRoot has them stay as they are. What is mounted is not meant.
	Image        *workload.Mount `json:",omitempty"`
	ReadOnlyRoot bool            `json:",omitempty"`
	// Mounts are made visible in the root, those nearest to it first. A missing mount
	// point is made.
	Mounts []workload.Mount
	// Devices are device nodes of the node's that the process has in its /dev, besides
	// those that every process has.
	Devices []workload.Device
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
