package main

import (
	"bytes"
	"context"
	"time"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/sdk/go/driver"
	"github.com/wasmnode/wasmnode/sdk/go/task"
)

// The mock has no workload, so it implements every optional operation.
var (
	_ driver.TaskRecoverer = (*mock)(nil)
	_ driver.TaskWaiter    = (*mock)(nil)
	_ driver.TaskStopper   = (*mock)(nil)
	_ driver.TaskSignaler  = (*mock)(nil)
	_ driver.TaskDestroyer = (*mock)(nil)
	_ driver.TaskInspector = (*mock)(nil)
	_ driver.TaskStatser   = (*mock)(nil)
	_ driver.TaskExecer    = (*mock)(nil)
)

func (m *mock) RecoverTask(ctx context.Context, t *driver.TaskConfig, handle *driver.TaskHandle) (*driver.TaskHandle, error) {
	state, err := decodeState(handle)
	if err != nil {
		return nil, err
	}
	if text := state.config.Get("recover_error").Text(); text != "" {
		return nil, abi.NewError(abi.Unknown, text)
	}
	if text := state.config.Get("recover_event").Text(); text != "" {
		return nil, task.Event(ctx, t.Id, text, nil)
	}
	return nil, nil
}

func (m *mock) WaitTask(ctx context.Context, _ string, handle *driver.TaskHandle) (*driver.ExitResult, time.Duration, error) {
	state, err := decodeState(handle)
	if err != nil {
		return nil, 0, err
	}
	now := m.now()
	if result := state.result(now); result != nil {
		return result, 0, nil
	}
	next, err := state.writeDue(now, task.Stdout(ctx), task.Stderr(ctx))
	if err != nil {
		return nil, 0, err
	}
	return nil, next, nil
}

func (m *mock) StopTask(_ context.Context, _ string, handle *driver.TaskHandle, _ string, timeout time.Duration) (*driver.TaskHandle, error) {
	state, err := decodeState(handle)
	if err != nil {
		return nil, err
	}
	breakInstance(state.config.Get("stop_fault").Text())
	if text := state.config.Get("stop_error").Text(); text != "" {
		return nil, abi.NewError(abi.Unknown, text)
	}
	if state.result(m.now()) != nil {
		return nil, nil
	}
	m.sleep(min(state.killAfter(), timeout))
	state.stopped = m.now()
	return state.handle(), nil
}

func (m *mock) SignalTask(_ context.Context, _ string, handle *driver.TaskHandle, _ string) (*driver.TaskHandle, error) {
	state, err := decodeState(handle)
	if err != nil {
		return nil, err
	}
	if text := state.config.Get("signal_error").Text(); text != "" {
		return nil, abi.NewError(abi.Unknown, text)
	}
	if state.result(m.now()) != nil {
		return nil, abi.NewError(abi.FailedPrecondition, "the task has ended")
	}
	return nil, nil
}

func (m *mock) DestroyTask(_ context.Context, _ string, handle *driver.TaskHandle, force bool) error {
	state, err := decodeState(handle)
	if err != nil {
		return err
	}
	if !force && state.result(m.now()) == nil {
		return abi.NewError(abi.FailedPrecondition, "the task still runs")
	}
	breakInstance(state.config.Get("destroy_fault").Text())
	return nil
}

func (m *mock) InspectTask(_ context.Context, _ string, handle *driver.TaskHandle) (*driver.TaskStatus, error) {
	state, err := decodeState(handle)
	if err != nil {
		return nil, err
	}
	status := &driver.TaskStatus{State: driver.TaskRunning, StartedAtNs: state.started.UnixNano()}
	if result := state.result(m.now()); result != nil {
		status.State = driver.TaskExited
		status.CompletedAtNs = state.end().UnixNano()
		status.ExitResult = result
	}
	return status, nil
}

// TaskStats claims one core for as long as the task runs.
func (m *mock) TaskStats(_ context.Context, _ string, handle *driver.TaskHandle) (*driver.TaskStats, error) {
	state, err := decodeState(handle)
	if err != nil {
		return nil, err
	}
	now := m.now()
	used := uint64(max(0, min(now.Sub(state.started), state.end().Sub(state.started))))
	return &driver.TaskStats{TimeNs: now.UnixNano(), CpuTotalNs: &used}, nil
}

func (m *mock) ExecTask(_ context.Context, _ string, handle *driver.TaskHandle, _ []string, timeout time.Duration) (*driver.ExecResult, error) {
	state, err := decodeState(handle)
	if err != nil {
		return nil, err
	}
	c := state.config.Get("exec_command")
	if !c.IsSet() {
		return nil, abi.NewError(abi.FailedPrecondition, "the task's config has no exec_command")
	}
	cmd, err := newCommand(c)
	if err != nil {
		return nil, err
	}
	if timeout > 0 && cmd.runFor > timeout {
		m.sleep(timeout)
		return nil, abi.NewError(abi.DeadlineExceeded, "the command did not end within "+timeout.String())
	}
	m.sleep(cmd.runFor)
	var stdout, stderr bytes.Buffer
	for range 1 + cmd.stdout.repeat {
		stdout.WriteString(cmd.stdout.text)
	}
	for range 1 + cmd.stderr.repeat {
		stderr.WriteString(cmd.stderr.text)
	}
	return &driver.ExecResult{Stdout: stdout.Bytes(), Stderr: stderr.Bytes(), Result: cmd.result()}, nil
}
