package alloc

import (
	"context"
	"errors"

	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/runners/allocdir"
	"github.com/wasmnode/wasmnode/runners/broadcast"
	"github.com/wasmnode/wasmnode/structs"
)

// ErrUnknownTask is returned for a task that the group does not have.
var ErrUnknownTask = errors.New("alloc: unknown task")

// ErrNotRunning is returned when an allocation that has ended, or is ending, is to be
// restarted or signalled.
var ErrNotRunning = errors.New("alloc: not running")

// Runner runs one allocation. All methods may be called concurrently, in any order,
// and any number of times.
type Runner struct{}

// New makes a runner of an allocation. Nothing is started or written. It fails when
// the group or a task's resources are missing from the allocation.
func New(cfg Config) (*Runner, error) { return nil, errors.New("alloc: not built yet") }

// Restore reads back what an earlier agent stored of the allocation. It is called
// before Run or not at all. After an error the owner calls Fail and Destroy.
func (r *Runner) Restore() error { return nil }

// Run runs the allocation and returns when its tasks have ended for good or the
// runner was shut down. Further calls return at once.
func (r *Runner) Run() {}

// Update hands over the control plane's new version of the allocation. It never
// blocks: of updates that come faster than they are applied, only the one with the
// highest AllocModifyIndex is. After the run has ended it does nothing.
func (r *Runner) Update(a *structs.Allocation) {}

// Fail forces the allocation's client status to failed: it could not be restored or
// set up.
func (r *Runner) Fail(description string) {}

// Shutdown makes the runner leave its tasks running and return. It does not wait.
func (r *Runner) Shutdown() {}

// ShutdownCh is closed when a shutdown, or the destruction, has finished.
func (r *Runner) ShutdownCh() <-chan struct{} { return nil }

// Destroy kills what still runs, removes the allocation's directory, and forgets it
// in the store. It does not wait. It works before, during and without Run.
func (r *Runner) Destroy() {}

// DestroyCh is closed when everything of the allocation is gone.
func (r *Runner) DestroyCh() <-chan struct{} { return nil }

// WaitCh is closed when Run has returned, or never will.
func (r *Runner) WaitCh() <-chan struct{} { return nil }

// Alloc is the allocation as the control plane sent it last. It is read-only and
// never holds what happened on the node; that is AllocState.
func (r *Runner) Alloc() *structs.Allocation { return nil }

// AllocState is what has become of the allocation, as a copy.
func (r *Runner) AllocState() *structs.AllocationState { return nil }

// AllocDir is the allocation's directory.
func (r *Runner) AllocDir() *allocdir.Dir { return nil }

// Listener receives the allocation's states, the newest last. The caller closes it.
func (r *Runner) Listener() *broadcast.Listener { return nil }

// Waiting says what the allocation waits for before it starts; empty: nothing.
func (r *Runner) Waiting() string { return "" }

// IsDestroyed reports whether DestroyCh is closed.
func (r *Runner) IsDestroyed() bool { return false }

// RestartTask restarts one running task, or ends its restart delay. It returns
// when the restart is under way. Errors: ErrUnknownTask, ErrNotRunning.
func (r *Runner) RestartTask(task, reason string) error { return nil }

// RestartRunning restarts the tasks that run and ends the delay of those that
// wait for their restart.
func (r *Runner) RestartRunning(reason string) error { return nil }

// RestartAll restarts every task, those that have ended too.
func (r *Runner) RestartAll(reason string) error { return nil }

// Signal sends a signal, by name ("SIGHUP" or "HUP"), to one task, or to all that run
// when task is empty. An unknown signal is an error and sends nothing.
func (r *Runner) Signal(ctx context.Context, task, signal, reason string) error { return nil }

// Stats is what the running tasks use now; one task's, or all when task is empty.
func (r *Runner) Stats(ctx context.Context, task string) (map[string]*wasmnodev1.TaskStats, error) {
	return nil, nil
}

// DriverEvent records what a driver says of a task, as an event of the task.
func (r *Runner) DriverEvent(task string, e *wasmnodev1.TaskEvent) error { return nil }
