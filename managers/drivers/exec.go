package drivers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/workload"
)

// execDeadline bounds a command that a driver runs without streams, whose output is one
// message; others have only their context.
const execDeadline = 5 * time.Minute

// ExecTask runs a command in a running task and returns how it ended. A driver that imports
// wasmnode:exec/v1 is asked first, and has the command's streams and terminal; then the host
// does where the task's workload can have commands. Elsewhere a driver does without standard
// input and terminal, and its output comes in the end. UNIMPLEMENTED: neither can, or the
// driver's capabilities have no exec.
func (d *Driver) ExecTask(ctx context.Context, cfg *wasmnodev1.TaskConfig, h *wasmnodev1.TaskHandle, spec *workload.ExecSpec) (*structs.ExitResult, error) {
	if err := d.checkArguments(cfg, h); err != nil {
		return nil, err
	}
	if !d.Capabilities().GetExec() {
		return nil, abi.NewError(abi.Unimplemented, fmt.Sprintf("driver %s does not run commands in its tasks", d.Name()))
	}
	t := d.tasks().of(cfg)
	h, _ = t.current(h)
	streams := d.streams()
	if streams {
		exit, err := d.execWithStreams(ctx, t, cfg, h, spec)
		if h.WorkloadId == "" || abi.CodeOf(err) != abi.Unimplemented {
			return exit, err
		}
	}
	var hostErr error
	if h.WorkloadId != "" {
		exit, err := d.workloads().Exec(ctx, h.WorkloadId, spec)
		if streams || abi.CodeOf(err) != abi.Unimplemented {
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

// streams reports whether the driver asks for the streams of commands.
func (d *Driver) streams() bool {
	return slices.Contains(d.plugin.Plugin().Spec().Capabilities, abi.ModuleExec)
}

// execInDriver has the driver run a command without streams.
func (d *Driver) execInDriver(ctx context.Context, t *task, cfg *wasmnodev1.TaskConfig, h *wasmnodev1.TaskHandle, spec *workload.ExecSpec) (*structs.ExitResult, error) {
	if spec.TTY {
		return nil, abi.NewError(abi.Unimplemented, fmt.Sprintf("driver %s runs commands without a terminal only", d.Name()))
	}
	answer := &wasmnodev1.DriverExecTaskResponse{}
	request := execRequest(cfg, h, spec)
	request.TimeoutMs = uint64(execDeadline.Milliseconds())
	err := d.call(ctx, t, nil, execDeadline, host.Call{Op: abi.OpDriverExecTask, Task: cfg, Answer: answer, Request: request})
	return d.execEnded(spec, answer, err)
}

func execRequest(cfg *wasmnodev1.TaskConfig, h *wasmnodev1.TaskHandle, spec *workload.ExecSpec) *wasmnodev1.DriverExecTaskRequest {
	return &wasmnodev1.DriverExecTaskRequest{TaskId: cfg.GetId(), Handle: h, Command: append([]string{spec.Command}, spec.Args...)}
}

// execEnded is how a command ended that the driver ran, with what the answer has of its output.
func (d *Driver) execEnded(spec *workload.ExecSpec, answer *wasmnodev1.DriverExecTaskResponse, err error) (*structs.ExitResult, error) {
	if err != nil {
		return nil, err
	}
	if answer.Result == nil {
		return nil, d.badAnswer(abi.OpDriverExecTask, "no result")
	}
	if err := errors.Join(writeAll(spec.Stdout, answer.Stdout), writeAll(spec.Stderr, answer.Stderr)); err != nil {
		return nil, outputError(err)
	}
	return exitOf(answer.Result), nil
}

func outputError(err error) error { return fmt.Errorf("the command's output: %w", err) }

func writeAll(w io.Writer, b []byte) error {
	if w == nil || len(b) == 0 {
		return nil
	}
	_, err := w.Write(b)
	return err
}
