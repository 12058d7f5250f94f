package task

import (
	"context"
	"os"
	"time"

	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/workload"
)

// Driver is one version of one driver plugin, as a task runner needs it. Its errors
// carry an abi.Error where the driver answered one. No method outlives its context.
type Driver interface {
	Name() string
	// PluginDigest identifies the exact plugin.
	PluginDigest() string
	Capabilities() *wasmnodev1.DriverCapabilities
	// RunsProcesses reports whether its tasks may be processes of the machine, which
	// have the machine's environment.
	RunsProcesses() bool
	// DecodeConfig checks a job file's `config` block against the driver's schema
	// and returns it as JSON with defaults applied. The error lists every fault
	// with its path.
	DecodeConfig(config map[string]any) ([]byte, error)

	// KeepSecrets has the values of these variables of a task's environment be secrets in all that the
	// driver says of it, whatever they are called, in every version, until the task is destroyed.
	KeepSecrets(taskID string, variables []string)
	// StartTask starts a task. Events takes what the driver says of it, in this call and
	// in later ones; it does not block.
	StartTask(ctx context.Context, cfg *wasmnodev1.TaskConfig, events func(*wasmnodev1.TaskEvent)) (*wasmnodev1.TaskHandle, *wasmnodev1.DriverNetwork, error)
	// RecoverTask hands over a task that another instance or version started, and
	// returns the handle to use from now on. Events is that of StartTask.
	RecoverTask(ctx context.Context, cfg *wasmnodev1.TaskConfig, h *wasmnodev1.TaskHandle, events func(*wasmnodev1.TaskEvent)) (*wasmnodev1.TaskHandle, error)
	// WaitTask blocks until the task has ended or ctx is done.
	WaitTask(ctx context.Context, cfg *wasmnodev1.TaskConfig, h *wasmnodev1.TaskHandle) (*structs.ExitResult, error)
	// StopTask returns when the task has ended.
	StopTask(ctx context.Context, cfg *wasmnodev1.TaskConfig, h *wasmnodev1.TaskHandle, signal string, timeout time.Duration) (*wasmnodev1.TaskHandle, error)
	SignalTask(ctx context.Context, cfg *wasmnodev1.TaskConfig, h *wasmnodev1.TaskHandle, signal string) (*wasmnodev1.TaskHandle, error)
	// ExecTask runs a command in the running task, and returns how it ended.
	ExecTask(ctx context.Context, cfg *wasmnodev1.TaskConfig, h *wasmnodev1.TaskHandle, spec *workload.ExecSpec) (*structs.ExitResult, error)
	DestroyTask(ctx context.Context, cfg *wasmnodev1.TaskConfig, h *wasmnodev1.TaskHandle, force bool) error
	TaskStats(ctx context.Context, cfg *wasmnodev1.TaskConfig, h *wasmnodev1.TaskHandle) (*wasmnodev1.TaskStats, error)

	// CreateNetwork makes the namespace of an allocation's network, open for the caller to
	// close, where the driver's tasks can be in no other; nil: they can.
	CreateNetwork(ctx context.Context, allocID, hostname string) (*os.File, error)

	// Replaced is closed when another version has taken over the driver's name:
	// the runner dispenses again and recovers its task there, or stays.
	Replaced() <-chan struct{}
	// Release gives the driver back; its plugin is closed when it is not held any more.
	Release()
}

// Dispense returns the driver of that name in the version now in charge. The
// error is final for unknown and blocked drivers, recoverable (see
// abi.IsRecoverable) while a driver is loading or restarting. One that has Loading() bool,
// which reports true, says that the plugins of the node are being loaded and the driver may be
// among them: that takes as long as they need, and is no fault of any.
type Dispense func(name string) (Driver, error)

// DispenseFrom makes a Dispense of a function whose drivers are of one type: a nil D, which
// comes with an error, is not a nil Driver.
func DispenseFrom[D Driver](dispense func(name string) (D, error)) Dispense {
	return func(name string) (Driver, error) {
		d, err := dispense(name)
		if err != nil {
			return nil, err
		}
		return d, nil
	}
}
