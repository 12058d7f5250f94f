package drivers

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/internal/wake"
	"github.com/wasmnode/wasmnode/managers/catalog"
	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/workload"
)

const (
	// defaultPoll is when a driver is polled again that does not set an interval; its own
	// is kept within the other two.
	defaultPoll = time.Second
	minPoll     = 10 * time.Millisecond
	maxPoll     = 10 * time.Minute
	// retryPoll is when a wait with a recoverable error is tried again.
	retryPoll = time.Second
	// recheckGrace is what a wait that blocks in the driver gets to see for itself
	// that its task was stopped or signalled, before it is cancelled and sent again
	// with the handle of now.
	recheckGrace = time.Second
	// leftoverGrace is what a workload gets to end by itself whose driver has seen that its
	// task ended, as by a connection that was closed, before it is killed.
	leftoverGrace = time.Second
)

// WaitTask blocks until the task has ended or ctx is done. While the driver is
// restarting or quarantined it waits for it to be back, or to be replaced: that is
// UNAVAILABLE and recoverable.
func (d *Driver) WaitTask(ctx context.Context, cfg *wasmnodev1.TaskConfig, h *wasmnodev1.TaskHandle) (*structs.ExitResult, error) {
	if err := d.checkArguments(cfg, h); err != nil {
		return nil, err
	}
	if h.WorkloadId != "" && d.leaves(abi.OpDriverWaitTask, h) {
		return d.workloads().Wait(ctx, h.WorkloadId)
	}
	t := d.tasks().of(cfg)
	for {
		if err := d.awaitUp(ctx); err != nil {
			return nil, err
		}
		newest, notified := t.current(h)
		answer, err := d.callWait(ctx, t, cfg, newest, notified)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		pause := defaultPoll
		switch {
		case err == nil && answer.Result != nil:
			return exitOf(answer.Result), nil
		case err == nil && answer.PollAfterMs > 0:
			pause = min(max(time.Duration(answer.PollAfterMs)*time.Millisecond, minPoll), maxPoll)
		case err == nil:
		case d.fallsToHost(err, h):
			return d.workloads().Wait(ctx, h.WorkloadId)
		case wake.IsClosed(notified) && errors.Is(err, context.Canceled):
			continue
		case abi.IsRecoverable(err):
			pause = retryPoll
		default:
			return nil, err
		}
		if err := sleep(ctx, pause, notified); err != nil {
			return nil, err
		}
	}
}

// callWait asks once. A driver that blocks is cancelled some time after a notify.
func (d *Driver) callWait(ctx context.Context, t *task, cfg *wasmnodev1.TaskConfig, h *wasmnodev1.TaskHandle, notified <-chan struct{}) (*wasmnodev1.DriverWaitTaskResponse, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan struct{})
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-notified:
		case <-done:
			return
		}
		timer := time.NewTimer(recheckGrace)
		defer timer.Stop()
		select {
		case <-timer.C:
			cancel()
		case <-done:
		}
	}()
	answer := &wasmnodev1.DriverWaitTaskResponse{}
	err := d.call(ctx, t, h, 0, host.Call{Op: abi.OpDriverWaitTask, Task: cfg, Request: &wasmnodev1.DriverWaitTaskRequest{TaskId: cfg.GetId(), Handle: h}, Answer: answer})
	close(done)
	<-watched
	return answer, err
}

// awaitUp returns when the driver takes calls.
func (d *Driver) awaitUp(ctx context.Context) error {
	for {
		down, changed := d.plugin.Down()
		if !down {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		case <-d.plugin.Replaced():
			return abi.NewRecoverableError(abi.Unavailable, fmt.Sprintf("driver %q was replaced", d.Name()))
		}
	}
}

// sleep pauses, not longer than to the next notify.
func sleep(ctx context.Context, pause time.Duration, notified <-chan struct{}) error {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-notified:
	case <-ctx.Done():
	}
	return ctx.Err()
}

func exitOf(r *wasmnodev1.ExitResult) *structs.ExitResult {
	return &structs.ExitResult{ExitCode: int(r.ExitCode), Signal: int(r.Signal), OOMKilled: r.OomKilled, Err: catalog.Printable(r.Error)}
}

// StopTask has the task end, by force after timeout, and returns when it has, with
// the handle to use from now on. A workload is stopped by the host when the driver
// cannot: killing must not depend on a plugin's health.
func (d *Driver) StopTask(ctx context.Context, cfg *wasmnodev1.TaskConfig, h *wasmnodev1.TaskHandle, signal string, timeout time.Duration) (*wasmnodev1.TaskHandle, error) {
	if err := d.checkArguments(cfg, h); err != nil {
		return nil, err
	}
	t := d.tasks().of(cfg)
	h, _ = t.current(h)
	defer t.notify()
	timeout = max(0, timeout)
	deadline := time.Now().Add(timeout)
	newest, err := d.callStop(ctx, t, cfg, h, signal, timeout)
	var fault *host.FaultError
	if errors.As(err, &fault) && abi.IsRecoverable(err) && ctx.Err() == nil {
		newest, err = d.callStop(ctx, t, cfg, h, signal, max(0, time.Until(deadline)))
	}
	if h.WorkloadId != "" {
		if err != nil {
			if abi.CodeOf(err) != abi.Unimplemented {
				d.plugin.Logger().Warn("the driver failed to stop a task, stopping its workload", "task_id", cfg.GetId(), "error", err)
			}
			err = d.workloads().Stop(ctx, h.WorkloadId, signal, max(0, time.Until(deadline)))
		} else {
			err = d.killLeftover(ctx, h.WorkloadId)
		}
	}
	return d.checkRenewed(abi.OpDriverStopTask, cfg, t, h, newest, err)
}

// callStop has the driver stop a task, once it is up.
func (d *Driver) callStop(ctx context.Context, t *task, cfg *wasmnodev1.TaskConfig, h *wasmnodev1.TaskHandle, signal string, timeout time.Duration) (*wasmnodev1.TaskHandle, error) {
	if !d.plugin.Plugin().Has(abi.OpDriverStopTask) {
		return nil, abi.NewError(abi.Unimplemented, fmt.Sprintf("driver %s does not have %s", d.Name(), abi.OpDriverStopTask))
	}
	if down, _ := d.plugin.Down(); down {
		if h.WorkloadId != "" {
			return nil, d.plugin.Usable()
		}
		waiting, cancel := context.WithTimeout(ctx, timeout+stopGrace)
		err := d.awaitUp(waiting)
		cancel()
		if err != nil && ctx.Err() == nil {
			if reason := d.plugin.Usable(); reason != nil {
				return nil, reason
			}
		}
		if err != nil {
			return nil, err
		}
	}
	answer := &wasmnodev1.DriverStopTaskResponse{}
	err := d.call(ctx, t, h, timeout+stopGrace, host.Call{Op: abi.OpDriverStopTask, Task: cfg, Request: &wasmnodev1.DriverStopTaskRequest{
		TaskId: cfg.GetId(), Handle: h, TimeoutMs: uint64(timeout.Milliseconds()), Signal: signal,
	}, Answer: answer})
	return answer.Handle, err
}

// killLeftover kills a workload that its driver reported as stopped and that does not end.
func (d *Driver) killLeftover(ctx context.Context, id string) error {
	s, err := d.workloads().Inspect(ctx, id)
	if errors.Is(err, abi.ErrTaskNotFound) || err == nil && s.State != workload.Running {
		return nil
	}
	if err != nil {
		return err
	}
	ending, cancel := context.WithTimeout(ctx, leftoverGrace)
	defer cancel()
	if _, err := d.workloads().Wait(ending, id); err == nil || ctx.Err() != nil {
		return ctx.Err()
	}
	d.plugin.Logger().Warn("the driver reported a task as stopped while its workload runs; killing the workload", "task_id", id)
	return d.workloads().Stop(ctx, id, "SIGKILL", 0)
}
