package task

import (
	"context"
	"fmt"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/workload"
)

// CanExec returns why a command cannot be run in the task now: [ErrNotRunning], or
// UNIMPLEMENTED for a driver that runs none. Nil: it can be tried.
func (r *Runner) CanExec() error {
	_, err := r.execable()
	return err
}

// execable returns the invocation in which a command can be run now.
func (r *Runner) execable() (*invocation, error) {
	run := r.running()
	switch {
	case run == nil:
		return nil, ErrNotRunning
	case !run.driver.Capabilities().GetExec():
		return nil, abi.NewError(abi.Unimplemented, fmt.Sprintf("driver %q does not run commands in its tasks", run.driver.Name()))
	}
	return run, nil
}

// Exec runs a command in the running task and returns how it ended. It ends with the
// task, with ctx and with this runner. Errors are those of CanExec and the driver's.
func (r *Runner) Exec(ctx context.Context, spec *workload.ExecSpec) (*structs.ExitResult, error) {
	run, err := r.execable()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(r.shutdown, cancel)() //nolint:contextcheck // it is the task's end, not the caller's
	return guard(ctx, "exec in task", func(ctx context.Context) (*structs.ExitResult, error) {
		return run.driver.ExecTask(ctx, run.config, run.handle, spec)
	})
}
