// Package workload is what tasks really are: WASI programs and OS processes that a
// [Runtime] owns. It knows nothing of plugins, allocations or jobs. Start reading
// at [Runtime]; WASI programs run in workload/wasi, processes in
// workload/process, and workload/workloadtest is the conformance suite that every
// implementation runs.
package workload

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"github.com/wasmnode/wasmnode/structs"
)

// ErrLost is that what owns all workloads did not answer a start: it has ended, and they with it. Who starts one again
// destroys it before, which waits for a start that goes on after all.
var ErrLost = errors.New("workloads: what owns them does not answer")

// Runtime owns workloads from start to exit and beyond, until they are
// destroyed. All methods may be called concurrently; errors are [abi.Error] values
// whose codes the methods name. An unknown ID is NOT_FOUND everywhere.
type Runtime interface {
	// CheckIsolation returns why no process can be started with that isolation here; nil:
	// one can. It starts no workload and no supervisor.
	CheckIsolation(isolation Isolation) error
	// Start starts a workload under spec.ID, which exists from the moment of the call
	// and is gone again when the start fails. It returns once the program has been
	// entered or has failed to start, and does not keep spec. ALREADY_EXISTS: the ID
	// is in use, running or ended. INVALID_ARGUMENT: this spec never starts.
	// CANCELLED: it was stopped meanwhile. [ErrLost]: all workloads have ended. The
	// context bounds the start, not the workload's life.
	Start(ctx context.Context, spec *Spec) error
	// Wait blocks until the workload has ended or ctx is done (its error is
	// returned). It may be called any number of times, also after the end. The
	// workload's output is in its logs by then.
	Wait(ctx context.Context, id string) (*structs.ExitResult, error)
	// Stop sends signal, waits up to timeout for the end, and kills. It returns
	// when the workload has ended or ctx is done. An ended one is not an error. No name
	// means SIGINT; a signal that the workload cannot receive is replaced by a kill.
	// INVALID_ARGUMENT: no such signal; nothing was stopped.
	Stop(ctx context.Context, id string, signal string, timeout time.Duration) error
	// Signal sends a signal, by name ("SIGHUP"). UNIMPLEMENTED: this kind of
	// workload cannot receive it; INVALID_ARGUMENT: no such signal;
	// FAILED_PRECONDITION: the workload has ended.
	Signal(ctx context.Context, id string, signal string) error
	// Exec runs a command in a running workload, beside its own process, and returns
	// how it ended. The command ends, with all that it started, when its own process
	// does, when the workload does, and when ctx is done (its error is returned).
	// FAILED_PRECONDITION: the workload does not run (any more). NOT_FOUND,
	// PERMISSION_DENIED, INVALID_ARGUMENT: there is no such command, it may not be
	// executed, or never can be. UNIMPLEMENTED: this kind of workload runs no commands.
	// RESOURCE_EXHAUSTED: not now. UNAVAILABLE: the supervisor has ended meanwhile, and
	// the command with it.
	Exec(ctx context.Context, id string, spec *ExecSpec) (*structs.ExitResult, error)
	// Run runs a helper to its end, and returns how it ended. It ends, with all that it
	// started, when its own process does, when ctx is done (its error is returned), and when
	// this process has gone. The errors are those of Exec; UNIMPLEMENTED: no processes run
	// here.
	Run(ctx context.Context, helper *Helper) (*structs.ExitResult, error)
	// Stats returns what the workload uses now.
	Stats(ctx context.Context, id string) (*Stats, error)
	// Inspect returns the workload's state.
	Inspect(ctx context.Context, id string) (*Status, error)
	// List returns the state of every workload that was not destroyed, the longest
	// started first.
	List(ctx context.Context) ([]*Status, error)
	// Destroy forgets a workload and frees what it holds, killing it first. An
	// unknown ID is not an error: destroying is idempotent.
	Destroy(ctx context.Context, id string) error
}

// Spec is what to run: a WASI program or a process, one of them.
type Spec struct {
	// ID is the task's invocation ID: unique, and known before the start, so that
	// it can be made durable first.
	ID string
	// Owner is set by the caller that starts the workload, for finding it again: its status
	// has it too. Empty: none.
	Owner string `json:",omitempty"`
	// Beside is the ID of another workload, which may start later: whoever owns both destroys
	// this one with that, and a supervisor kills it when that ends. At most [MaxBeside] have the
	// same; RESOURCE_EXHAUSTED: there are so many; FAILED_PRECONDITION: that has ended. Empty: it
	// stands alone.
	Beside  string `json:",omitempty"`
	WASI    *WASIProgram
	Process *Process
	Env     map[string]string
	// MemoryMaxBytes bounds a WASI program's memory; at least one WebAssembly page
	// (64 KiB), at most 4 GiB. It bounds an isolated process with all that it starts, at
	// least 4 MiB, and all those together that stand beside one workload, with that, be it a
	// WASI program. A process without isolation is not bounded.
	MemoryMaxBytes uint64
	// CPUMHz is a WASI program's share of the processor beside those of others; 0: 100. It is
	// no bound: what others leave can be used.
	CPUMHz uint64 `json:",omitempty"`
	Logs   Logs
}

// MaxBeside bounds the workloads that stand beside one.
const MaxBeside = 8

// WASIProgram is a WASI preview 1 command.
type WASIProgram struct {
	// Name is the program's name, its argument 0.
	Name string
	// Module is the module's content.
	Module []byte
	// Digest is that of the module, SHA-256 in lower-case hexadecimal, from whoever computed
	// it: it is not computed again. Empty: it is not known.
	Digest string `json:"-"`
	Args   []string
	Mounts []Mount
	// Listen are TCP listeners that are open when the program starts: its descriptors from 3
	// on, in this order. An address in use fails the start, and can be tried again.
	Listen []Listener `json:",omitempty"`
	// Network is the path of the network namespace that it listens in. Only root can have
	// one entered. Empty: the node's network.
	Network string `json:",omitempty"`
	// Signals gives the program a descriptor to read its signals from, instead of ending
	// with them.
	Signals bool `json:",omitempty"`
	// Stdin is a file that is its standard input; nil: that is empty. It has no guest path.
	Stdin *Mount `json:",omitempty"`
}

// Listener is an address to take TCP connections on.
type Listener struct {
	// Name is what the program knows it by; it has no colon.
	Name string
	// Address is an IP address and a port.
	Address netip.AddrPort
}

// Process is a process of the operating system, with all that it starts: they end
// together. Its environment is the spec's and, where that does not tell, who its user is; it can
// gain no privileges by running a set-user-ID program.
type Process struct {
	// Command is the program's absolute path, and its argument 0. Of an isolated process
	// it may also be a path below its root, or a bare name: that of a program in
	// Isolated.Search or on its PATH.
	Command string
	Args    []string
	// Dir is the working directory, an absolute path.
	Dir string
	// User is whom it runs as: a name or a number, or USER:GROUP. Empty: the
	// supervisor's own user.
	User      string
	Isolation Isolation
	// Cores are the only processors that it, all that it starts, and commands that are
	// executed in it begin on: 0 is the first of those that the supervisor may use. It is
	// not kept from choosing others itself. None: all.
	Cores []uint32 `json:",omitempty"`
	// Network is the path of the network namespace that it, and what is executed in it,
	// begins in, or [NoNetwork]. Only root can have one entered. Empty: the node's network.
	Network string `json:",omitempty"`
	// NetworkID, where it is not empty, is what the namespace at Network has to be: see
	// workload/namespace. It is for paths that others can change after they were judged.
	NetworkID string `json:",omitempty"`
	// Bounds hold commands that are executed in it, too.
	Bounds Bounds
	// Stdin is a file that is its standard input; nil: that is empty. It has no guest path.
	Stdin *Mount `json:",omitempty"`
	// Paths go with IsolationPaths, [MaxPaths] at most.
	Paths []Path `json:",omitempty"`
	// Isolated goes with IsolationFull, and only with that. Command and Dir are paths in
	// the process's root then.
	Isolated *Isolated
}

// NoNetwork is the network of a process that has a namespace of its own with nothing but a
// loopback interface.
const NoNetwork = "none"

// Isolation is how much of the node a process sees.
type Isolation string

// The isolations.
const (
	IsolationNone Isolation = "none" // all that its user may see
	IsolationFull Isolation = "full" // a root, namespaces and limits of its own
	// IsolationPaths: of the node's files only what is in Paths, and of its processes only its
	// own.
	IsolationPaths Isolation = "paths"
)

// MaxPaths bounds the paths of a process.
const MaxPaths = 160

// Path is a file that a process may use, or a directory with all below it. One that is not
// there when the process starts stays out of reach.
type Path struct {
	// Path is an absolute path of the node's.
	Path string
	// Within, when it is not empty, is a directory that Path must lie in, or be, also when
	// symbolic links are followed.
	Within string `json:",omitempty"`
	// Rights are one or more of [PathRights].
	Rights string
}

// PathRights are what may be done with a path: 'r' reads and lists, 'w' writes, 'c' creates,
// renames and removes, 'x' executes.
const PathRights = "rwcx"

// Mount makes a host directory or a regular file visible at an absolute guest path. What
// is outside of it cannot be reached, through symbolic links neither. Single files
// are alone in the guest's directory that they are mounted in: a directory cannot be
// mounted there too, and what a mount above it has there is hidden.
type Mount struct {
	GuestPath string
	HostPath  string
	// Within, when it is not empty, is a host directory that HostPath must lie in, or
	// be, also when symbolic links are followed. It is for paths that others can
	// change between being judged and being mounted.
	Within   string
	ReadOnly bool
	// Memory is an empty directory in place of HostPath, that everybody may write to: what is
	// in it counts as the process's memory and ends with it. It is for isolated processes.
	Memory bool `json:",omitempty"`
}

// Logs is where standard output and error go. A path is the file's name without
// its number: StdoutPath "…/web.stdout" gives web.stdout.0, web.stdout.1, …
type Logs struct {
	StdoutPath   string
	StderrPath   string
	MaxFiles     int   // kept per stream; at least 1
	MaxFileBytes int64 // rotated at this size; at least 1
	Disabled     bool
}

// State is a workload's state.
type State string

// The states.
const (
	Running State = "running"
	Exited  State = "exited"
)

// Status is a workload's state and times.
type Status struct {
	ID        string
	Owner     string `json:",omitempty"` // see [Spec]
	Beside    string `json:",omitempty"` // see [Spec]
	State     State
	StartedAt time.Time
	ExitedAt  time.Time // zero while it runs
	Exit      *structs.ExitResult
}

// Stats is what a workload uses. Nil: not measured.
type Stats struct {
	Time           time.Time
	CPUTotal       *time.Duration // since the start
	CPUUser        *time.Duration // the part of it in programs
	CPUSystem      *time.Duration // the part of it in the kernel
	MemoryBytes    *uint64
	MemoryMaxBytes *uint64 // the most that it ever used
}
