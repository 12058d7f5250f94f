package driver

import (
	"context"
	"time"
)

// Driver is what every driver implements. Arguments are never nil.
//
// Errors should be made with [abi.NewError], or with [abi.NewRecoverableError] where
// trying again can help: a start that fails so is tried again under the task's restart
// policy. Others cross the sandbox as UNKNOWN with their text. The context carries the capabilities of this one call.
// In a plugin it is never cancelled: a call that is too late ends with its instance.
type Driver interface {
	// Describe returns the driver's name, version, capabilities and the JSON Schemas
	// of its two configurations. It is called first and has no capabilities.
	Describe() *Description
	// Configure takes the plugin's own configuration: JSON, valid under
	// PluginConfigSchema, defaults applied. It is called on every instance before
	// any other operation but Describe, and again when the configuration changes.
	Configure(ctx context.Context, config []byte) error
	// Fingerprint reports whether the driver can run tasks now. It is polled.
	Fingerprint(ctx context.Context) (*Fingerprint, error)
	// StartTask starts a task and returns what is needed to find it again. The
	// network is nil unless the task has an address of its own.
	StartTask(ctx context.Context, task *TaskConfig) (*TaskHandle, *Network, error)
}

// TaskRecoverer is implemented by drivers that check or repair a handle when a task is
// handed to an instance that has not started it: after a restart of the agent, a
// fault, or an upgrade of the plugin. The host's default: the task is recovered when
// its workload still exists.
type TaskRecoverer interface {
	// RecoverTask returns the handle to use from now on, nil for the same. An error
	// means that the task is lost.
	RecoverTask(ctx context.Context, task *TaskConfig, handle *TaskHandle) (*TaskHandle, error)
}

// TaskWaiter is implemented by drivers whose tasks are not workloads of the host's.
// The host's default waits for the workload.
type TaskWaiter interface {
	// WaitTask returns how the task ended, or a nil result when it still runs and is
	// to be asked again after pollAfter (0: the host decides). It may also block in
	// host calls until the task has ended.
	WaitTask(ctx context.Context, taskID string, handle *TaskHandle) (result *ExitResult, pollAfter time.Duration, err error)
}

// TaskStopper is implemented by drivers that stop tasks themselves. The host's
// default signals the workload, waits, and kills it.
type TaskStopper interface {
	// StopTask sends the signal (a name such as "SIGTERM"; empty: the driver's
	// default), waits for at most timeout, and uses force. It returns when the task
	// has ended, with the handle to use from now on, nil for the same.
	StopTask(ctx context.Context, taskID string, handle *TaskHandle, signal string, timeout time.Duration) (*TaskHandle, error)
}

// TaskSignaler is implemented by drivers that deliver signals; it needs
// Capabilities.SendSignals. The host's default signals the workload.
type TaskSignaler interface {
	// SignalTask sends a signal, by name, and returns the handle to use from now on,
	// nil for the same.
	SignalTask(ctx context.Context, taskID string, handle *TaskHandle, signal string) (*TaskHandle, error)
}

// TaskDestroyer is implemented by drivers that hold more for a task than its
// workload. The host's default destroys the workload, and does so in any case.
type TaskDestroyer interface {
	// DestroyTask forgets the task and frees what it holds. A task that is not there
	// is no error; one that runs is FAILED_PRECONDITION unless force is set.
	DestroyTask(ctx context.Context, taskID string, handle *TaskHandle, force bool) error
}

// TaskInspector is implemented by drivers that know a task's state better than the
// host. The host's default inspects the workload.
type TaskInspector interface {
	InspectTask(ctx context.Context, taskID string, handle *TaskHandle) (*TaskStatus, error)
}

// TaskStatser is implemented by drivers that measure their tasks. The host's default
// measures the workload.
type TaskStatser interface {
	TaskStats(ctx context.Context, taskID string, handle *TaskHandle) (*TaskStats, error)
}

// TaskStreamExecer is implemented by drivers that run commands inside a task themselves, with
// standard streams and a terminal, which the package command opens. With Capabilities.Exec such
// a driver is asked before the host runs a command in the task's workload; UNIMPLEMENTED, before
// the streams were opened, leaves it to the host.
type TaskStreamExecer interface {
	// Exec runs a command until it ends and returns how. It has no deadline: its streams
	// break when nobody waits for it any more.
	Exec(ctx context.Context, taskID string, handle *TaskHandle, command *Command) (*ExitResult, error)
}

// TaskExecer is implemented by drivers that run commands inside a task themselves, without
// streams. With Capabilities.Exec the host runs them where the task's workload is a process,
// with streams and a terminal, and does not ask; elsewhere it calls ExecTask, whose command
// has no input and whose output comes in the end. A [TaskStreamExecer] is not asked for it.
type TaskExecer interface {
	ExecTask(ctx context.Context, taskID string, handle *TaskHandle, command []string, timeout time.Duration) (*ExecResult, error)
}

// NetworkCreator is implemented by drivers whose tasks can only be in network namespaces that
// the driver has made; it needs Capabilities.CreatesNetworks, and NetworkNamespaces.
type NetworkCreator interface {
	// CreateNetwork makes a namespace without interfaces for an allocation, whose network has
	// that host name (empty: any), and returns the path of its file; empty: the tasks can be in
	// one that the node makes. Called again, it returns the one that is there.
	CreateNetwork(ctx context.Context, allocID, hostname string) (namespace string, err error)
	// DestroyNetwork lets go of it once the allocation's tasks have ended. That there is none
	// is no error.
	DestroyNetwork(ctx context.Context, allocID string) error
}
