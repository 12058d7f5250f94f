package drivers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/workload"
)

// execDeadline bounds a command that a driver runs, which holds an instance of the
// plugin; one that the host runs has only its context.
const execDeadline = 5 * time.Minute

// ExecTask runs a command in a running task and returns how it ended. The host does
// where the task's workload can have commands. Elsewhere the driver does, without
// standard input and terminal, and its output comes in the end. UNIMPLEMENTED: neither
// can, or the driver's capabilities have no exec.
func (d *Driver) ExecTask(ctx context.Context, cfg *wasmnodev1.TaskConfig, h *wasmnodev1.TaskHandle, spec *workload.ExecSpec) (*structs.ExitResult, error) {
	if err := d.checkArguments(cfg, h); err != nil {
		return nil, err
	}
	if !d.Capabilities().GetExec() {
		return nil, abi.NewError(abi.Unimplemented, fmt.Sprintf("driver %s does not run commands in its tasks", d.Name()))
	}
	t := d.tasks().of(cfg)
	h, _ = t.current(h)
	var hostErr error
	if h.WorkloadId != "" {
		exit, err := d.workloads().Exec(ctx, h.WorkloadId, spec)
		if abi.CodeOf(err) != abi.Unimplemented {
			return exit, err
		}
		hostErr = err
	}
	exit, err := d.execInDriver(ctx, t, cfg, h, spec)
	if hostErr != nil && abi.CodeOf(err) == abi.Unimplemented {
		err = hostErr // it says why
	}
	return exit, err
}

// execInDriver has the driver run a command.
func (d *Driver) execInDriver(ctx context.Context, t *task, cfg *wasmnodev1.TaskConfig, h *wasmnodev1.TaskHandle, spec *workload.ExecSpec) (*structs.ExitResult, error) {
	if spec.TTY {
		return nil, abi.NewError(abi.Unimplemented, fmt.Sprintf("driver %s runs commands without a terminal only", d.Name()))
	}
	answer := &wasmnodev1.DriverExecTaskResponse{}
	err := d.call(ctx, t, execDeadline, host.Call{Op: abi.OpDriverExecTask, Task: cfg, Answer: answer, Request: &wasmnodev1.DriverExecTaskRequest{
		TaskId: cfg.GetId(), Handle: h, Command: append([]string{spec.Command}, spec.Args...), TimeoutMs: uint64(execDeadline.Milliseconds()),
	}})
	if err != nil {
		return nil, err
	}
	if answer.Result == nil {
		return nil, d.badAnswer(abi.OpDriverExecTask, "no result")
	}
	if err := errors.Join(writeAll(spec.Stdout, answer.Stdout), writeAll(spec.Stderr, answer.Stderr)); err != nil {
		return nil, fmt.Errorf("the command's output: %w", err)
	}
	return exitOf(answer.Result), nil
}

func writeAll(w io.Writer, b []byte) error {
	if w == nil || len(b) == 0 {
		return nil
	}
	_, err := w.Write(b)
	return err
}
