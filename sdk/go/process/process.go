// Package process starts processes of the operating system as tasks, and runs helpers: the
// capability wasmnode:process/v1, which an operator has to grant. The node owns the process of
// a task; it waits for it, stops it and measures it by itself. A helper runs to its end while
// the driver waits.
package process

import (
	"context"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/sdk/go/internal/hostcall"
)

// Command is what to start, as whom, and with how much isolation.
type Command = wasmnodev1.ProcessStartRequest

// Path is a file, or a directory with all below it, that a process with [IsolationPaths] may use.
type Path = wasmnodev1.ProcessPath

// Mount is a directory or file of the node's, or an empty directory, that a process with
// [IsolationFull] sees in its root. [Command.Root] is the directory of an image that is its
// root.
type Mount = wasmnodev1.ProcessMount

// Limit is one of setrlimit(2) that a process and all that it starts has.
type Limit = wasmnodev1.ProcessLimit

// The isolations. A command without one is refused.
const (
	IsolationNone = wasmnodev1.ProcessIsolation_PROCESS_ISOLATION_NONE // it sees all that its user may see
	IsolationFull = wasmnodev1.ProcessIsolation_PROCESS_ISOLATION_FULL // it has a root, namespaces and limits of its own
	// IsolationPaths: of the node's files it may use its task's and those of Paths.
	IsolationPaths = wasmnodev1.ProcessIsolation_PROCESS_ISOLATION_PATHS
)

// The networks that a process may begin in. Without one it is the task's: that of its group, or
// the node's.
const (
	NetworkHost = wasmnodev1.ProcessNetwork_PROCESS_NETWORK_HOST // the node's, granted if the task's is another
	NetworkNone = wasmnodev1.ProcessNetwork_PROCESS_NETWORK_NONE // one of its own, where it reaches itself only
	// NetworkNamespace: that of [Command].NetworkNamespace, which is granted.
	NetworkNamespace = wasmnodev1.ProcessNetwork_PROCESS_NETWORK_NAMESPACE
)

// Start starts a process as the workload of the task that the current call is about,
// and returns the workload's ID, which belongs into TaskHandle.WorkloadId. Output
// goes to the task's log files by itself. One with a Name stands beside that workload and
// ends with it; its ID belongs nowhere, and its output goes to log files of its own.
//
// # Errors
//
// NOT_FOUND: no such command, directory, root or source of a mount; INVALID_ARGUMENT: no program, no such
// user, or a processor that the task may not use; PERMISSION_DENIED: what the operator did not grant, or what the node itself
// may not do; UNIMPLEMENTED: isolation, or a network, that this node cannot give;
// FAILED_PRECONDITION: the current call neither starts nor recovers a task, or there is no such network namespace;
// ALREADY_EXISTS: the task has a workload, or one of that name; RESOURCE_EXHAUSTED: too many of something.
func Start(ctx context.Context, c *Command) (workloadID string, err error) {
	request, err := c.MarshalVT()
	if err != nil {
		return "", err
	}
	answer, err := hostcall.ProcessStart(ctx, request)
	if err != nil {
		return "", err
	}
	var response wasmnodev1.ProcessStartResponse
	if err := response.UnmarshalVT(answer); err != nil {
		return "", err
	}
	return response.WorkloadId, nil
}

// Helper is a program to run to its end, with its bounds.
type Helper = wasmnodev1.ProcessRunRequest

// Ended is how a helper ended, and what it wrote.
type Ended = wasmnodev1.ProcessRunResponse

// Run runs a program of the node to its end, in any operation. Its environment and its user
// come from the grant, which names it with its arguments. An exit code that is not 0 is no
// error.
//
// # Errors
//
// PERMISSION_DENIED: the command, or these arguments, are not granted; NOT_FOUND: the node has
// no such program; DEADLINE_EXCEEDED, recoverable: it ran for too long, and was killed;
// RESOURCE_EXHAUSTED, recoverable: too many of them at a time; INVALID_ARGUMENT: a bound.
func Run(ctx context.Context, h *Helper) (*Ended, error) {
	ended := new(Ended)
	if err := hostcall.Ask(ctx, hostcall.ProcessRun, h, ended); err != nil {
		return nil, err
	}
	return ended, nil
}

// FullIsolation returns why this node cannot give [IsolationFull], an UNIMPLEMENTED
// error; nil: it can.
func FullIsolation(ctx context.Context) error {
	return lacks(ctx, (*wasmnodev1.ProcessSupport).GetFullIsolationMissing)
}

// PathIsolation is [FullIsolation] for [IsolationPaths].
func PathIsolation(ctx context.Context) error {
	return lacks(ctx, (*wasmnodev1.ProcessSupport).GetPathIsolationMissing)
}

func lacks(ctx context.Context, what func(*wasmnodev1.ProcessSupport) string) error {
	support := new(wasmnodev1.ProcessSupport)
	if err := hostcall.Ask(ctx, hostcall.ProcessSupport, &wasmnodev1.ProcessSupportRequest{}, support); err != nil {
		return err
	}
	if reason := what(support); reason != "" {
		return abi.NewError(abi.Unimplemented, reason)
	}
	return nil
}
