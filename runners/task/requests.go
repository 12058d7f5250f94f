package task

import (
	"context"
	"fmt"
	"maps"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/state"
	"github.com/wasmnode/wasmnode/structs"
)

// RestartRequest selects how a task is to be restarted.
type RestartRequest struct {
	Reason string // for people; empty: the common text
	// Failure: the restart counts as a failure of the task, and its policy decides.
	Failure bool
	// Force restarts a dead task too, unless its runner is done with it, and is
	// accepts a task that is about to start anyway.
	Force bool
}

// Restart requests a restart. A task that runs is stopped and started again; one that
// waits for its restart starts at once. The error is [ErrNotRunning].
func (r *Runner) Restart(req RestartRequest) error {
	var err error
	r.rec.update(func(s *status) bool {
		at := s.state.State
		switch {
		case s.final:
			err = ErrNotRunning
			return false
		case at == structs.TaskPending && !s.delaying, at == structs.TaskDead:
			if !req.Force {
				err = ErrNotRunning
				return false
			}
			if at == structs.TaskPending {
				return false // it starts anyway
			}
		}
		s.restart = &req
		e := structs.NewTaskEvent(structs.EventRestartSignaled)
		if req.Reason != "" {
			e = e.WithRestart(req.Reason, 0)
		}
		s.state.Append(e)
		return true
	})
	if err != nil {
		return err
	}
	r.restart.Set()
	return nil
}

// takeRestart consumes the pending restart; nil: there is none.
func (r *Runner) takeRestart() (pending *RestartRequest) {
	r.rec.locked(func(s *status) { pending, s.restart = s.restart, nil })
	return pending
}

// restartPending reports whether there is a pending restart.
func (r *Runner) restartPending() (is bool) {
	r.rec.locked(func(s *status) { is = s.restart != nil })
	return is
}

// ParseSignal gives a signal's full name: "HUP" and "SIGHUP" both are SIGHUP. An unknown
// one is INVALID_ARGUMENT, never another signal.
func ParseSignal(name string) (string, error) {
	full := strings.ToUpper(name)
	if !strings.HasPrefix(full, "SIG") {
		full = "SIG" + full
	}
	if unix.SignalNum(full) == 0 {
		return "", abi.NewError(abi.InvalidArgument, fmt.Sprintf("unknown signal %q", name))
	}
	return full, nil
}

// hookNote is something that a hook leaves while its task runs.
type hookNote struct{ hook, key, value string }

// note makes durable what a hook leaves while its task runs: without it, when the task or ctx ends
// before that.
func (r *Runner) note(ctx context.Context, n hookNote) {
	run := r.running()
	if run == nil {
		return
	}
	select {
	case r.notes <- n:
	case <-run.done:
	case <-r.active.Done():
	case <-ctx.Done():
	}
}

// keepNote is note, for the goroutine that runs Run. What cannot be kept is logged: the next agent
// does again what it is about.
func (r *Runner) keepNote(n hookNote) {
	after := &state.HookState{}
	if before := r.local.Hooks[n.hook]; before != nil {
		*after = *before
	}
	after.Data = maps.Clone(after.Data)
	if after.Data == nil {
		after.Data = map[string]string{}
	}
	after.Data[n.key] = n.value
	r.local.Hooks[n.hook], r.unsaved = after, true
	if err := r.save(); err != nil {
		r.logger.Error("what a hook leaves", "hook", n.hook, "error", err)
	}
}

type signalRequest struct {
	signal string
	reason string
	answer chan error // capacity 1: the runner never waits for who asked
}

// Signal sends a signal to the running task and returns the driver's answer. An unknown
// signal is INVALID_ARGUMENT, a driver that sends none UNIMPLEMENTED, a task that does
// not run [ErrNotRunning].
func (r *Runner) Signal(ctx context.Context, signal, reason string) error {
	full, err := ParseSignal(signal)
	if err != nil {
		return err
	}
	var done <-chan struct{}
	if run := r.running(); run != nil {
		done = run.done
	} else if !r.recovering() {
		return ErrNotRunning
	}
	ctx, cancel := context.WithTimeout(ctx, r.limits.CallTimeout)
	defer cancel()
	req := &signalRequest{signal: full, reason: reason, answer: make(chan error, 1)}
	select {
	case r.signals <- req:
	case <-done:
		return ErrNotRunning
	case <-r.active.Done():
		return ErrNotRunning
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-req.answer:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// recovering reports whether the task runs as far as is known, and the agent that was
// restarted is about to find it.
func (r *Runner) recovering() (is bool) {
	r.rec.locked(func(s *status) { is = s.state.State == structs.TaskRunning && !s.final })
	return is
}

// sendSignal has the driver send a signal. It reports whether the driver gave another
// handle.
func (r *Runner) sendSignal(req *signalRequest) (renewed bool) {
	run := r.running()
	if !run.driver.Capabilities().GetSendSignals() {
		req.answer <- abi.NewError(abi.Unimplemented, fmt.Sprintf("driver %q does not send signals", run.driver.Name()))
		return false
	}
	r.emit(structs.NewTaskEvent(structs.EventSignaling).WithSignal(req.signal, req.reason))
	ctx, cancel := context.WithTimeout(r.active, r.limits.CallTimeout)
	defer cancel()
	handle, err := call(ctx, "signal task", func(ctx context.Context) (*wasmnodev1.TaskHandle, error) {
		return run.driver.SignalTask(ctx, run.config, run.handle, req.signal)
	}, nil)
	if err == nil {
		renewed = r.replaceHandle(handle)
	}
	req.answer <- err
	return renewed
}

// driverEvent records the driver's event about the task.
func (r *Runner) driverEvent(e *wasmnodev1.TaskEvent) {
	event := structs.NewTaskEvent(structs.EventDriver).WithMessage(e.GetMessage())
	for key, value := range e.GetAnnotations() {
		event = event.WithDetail(key, value)
	}
	r.emit(event)
}
