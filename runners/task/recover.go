package task

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/runners/restart"
	"github.com/wasmnode/wasmnode/structs"
)

// reattach finds the run that an earlier agent left. One that goes on is nothing to
// tell of. One that is gone is said to be, and judged like any other end; so is one
// whose driver is missing, which stays to be found.
func (r *Runner) reattach() (*invocation, restart.Event, outcome) {
	if exit := recordedExit(r.rec.visible()); exit != nil {
		r.abandon(r.shutdown) // the earlier agent was gone before it could tidy up
		each(r, func(h ExitedHook) error { return r.bounded(h.Exited) })
		return nil, restart.Event{Exit: exit}, ended
	}
	run, err := r.recover(r.shutdown)
	switch {
	case err == nil:
		r.setRunning(run)
		r.resumed()
		r.poststart()
		return run, restart.Event{}, ended
	case r.shutdown.Err() != nil:
		return nil, restart.Event{}, departed
	case abi.IsRecoverable(err):
		r.emit(structs.NewTaskEvent(structs.EventDriverFailure).WithMessage(err.Error()))
		return nil, restart.Event{StartError: err}, ended
	}
	r.forget()
	if !r.wasRunning() {
		// It was being started when the agent died, and nobody has seen it run.
		return r.startAfresh()
	}
	r.emit(structs.NewTaskEvent(structs.EventFailedRestoring).
		WithMessage(fmt.Sprintf("Task did not survive the restart of the agent: %v", err)))
	return nil, restart.Event{Exit: &structs.ExitResult{Err: err.Error()}}, ended
}

// recordedExit returns how the last run ended, if that was recorded and nothing was
// decided on it yet.
func recordedExit(s *structs.TaskState) *structs.ExitResult {
	for _, e := range slices.Backward(s.Events) {
		switch e.Type {
		case structs.EventTerminated:
			return e.Exit()
		case structs.EventReceived, structs.EventStarted, structs.EventRestarting:
			return nil
		}
	}
	return nil
}

// startAfresh starts what an earlier agent had only begun to start.
func (r *Runner) startAfresh() (*invocation, restart.Event, outcome) {
	if err := r.save(); err != nil {
		r.logger.Error("forget a start that was interrupted", "error", err)
	}
	return r.launchOrRecover()
}

// wasRunning reports whether the task was seen to run.
func (r *Runner) wasRunning() bool { return r.rec.visible().State == structs.TaskRunning }

// resumed makes the state running, without an event.
func (r *Runner) resumed() {
	r.rec.update(func(s *structs.TaskState) bool {
		if s.State == structs.TaskRunning {
			return false
		}
		s.Enter(structs.TaskRunning, time.Now())
		s.Append(structs.NewTaskEvent(structs.EventStarted))
		return true
	})
}

// recover has the driver take up the run that local tells of. When the driver does not
// know it, what is left of it is destroyed.
func (r *Runner) recover(ctx context.Context) (*invocation, error) {
	cfg, handle, err := r.stored()
	if err != nil {
		return nil, err
	}
	driver, err := r.dispense(ctx, anyError)
	if err != nil {
		// The task may well run: that its driver is missing says nothing of it.
		return nil, again(err)
	}
	run := &invocation{driver: driver, config: cfg, handle: handle, done: make(chan struct{})}
	if len(r.local.Handle) == 0 {
		return r.recoverStart(ctx, run)
	}
	renewed, err := r.recoverTask(ctx, run)
	for n := 0; n < retries && faulty(err) && sleep(ctx, backoff(n)); n++ {
		r.logger.Warn("the driver failed at recovering the task", "error", err, "try", n+1)
		renewed, err = r.recoverTask(ctx, run)
	}
	if err != nil {
		if !abi.IsRecoverable(err) && ctx.Err() == nil {
			r.destroy(ctx, driver, cfg, handle)
		}
		driver.Release()
		return nil, err
	}
	if renewed != nil {
		run.handle = renewed
		if err := r.keepHandle(renewed, nil); err != nil {
			r.logger.Error("keep a recovered task's handle", "error", err)
		}
	}
	return run, nil
}

// recoverStart takes up a start whose answer the earlier agent did not live to keep. A
// driver whose tasks are wholly the host's finds them by their ID; what another one may
// have started is destroyed, to be started again.
func (r *Runner) recoverStart(ctx context.Context, run *invocation) (*invocation, error) {
	renewed, err := r.recoverTask(ctx, run)
	if err == nil {
		if renewed != nil {
			run.handle = renewed
		}
		err = r.keepHandle(run.handle, nil)
	}
	if err == nil {
		return run, nil
	}
	r.destroy(ctx, run.driver, run.config, run.handle)
	run.driver.Release()
	return nil, fmt.Errorf("the agent ended while the task was starting")
}

// faulty reports whether an error says nothing of the task: the driver broke, or could
// not do it now. An answer, that it does not know the task above all, is not tried again.
func faulty(err error) bool {
	switch abi.CodeOf(err) {
	case 0, abi.NotFound, abi.Unimplemented, abi.InvalidArgument, abi.FailedPrecondition, abi.PermissionDenied:
		return false
	}
	return true
}

// stored is the run that local tells of. One that was only begun to start has the
// handle of what may have been started.
func (r *Runner) stored() (*wasmnodev1.TaskConfig, *wasmnodev1.TaskHandle, error) {
	cfg, handle := &wasmnodev1.TaskConfig{}, &wasmnodev1.TaskHandle{}
	if err := cfg.UnmarshalVT(r.local.Config); err != nil {
		return nil, nil, fmt.Errorf("decode the task's configuration: %w", err)
	}
	if len(r.local.Handle) == 0 {
		return cfg, orUnstarted(cfg, nil), nil
	}
	if err := handle.UnmarshalVT(r.local.Handle); err != nil {
		return nil, nil, fmt.Errorf("decode the task's handle: %w", err)
	}
	return cfg, handle, nil
}

func (r *Runner) recoverTask(ctx context.Context, run *invocation) (*wasmnodev1.TaskHandle, error) {
	ctx, cancel := context.WithTimeout(ctx, r.limits.CallTimeout)
	defer cancel()
	return call(ctx, "recover task", func(ctx context.Context) (*wasmnodev1.TaskHandle, error) {
		return run.driver.RecoverTask(ctx, run.config, run.handle, r.driverEvent)
	}, nil)
}

// renew puts a handle in the place of the running one; nil: it stays. It reports
// whether it changed.
func (r *Runner) renew(handle *wasmnodev1.TaskHandle) bool {
	run := r.running()
	if handle == nil || handle.EqualVT(run.handle) {
		return false
	}
	next := *run
	next.handle = handle
	r.setRunning(&next)
	if err := r.keepHandle(handle, nil); err != nil {
		r.logger.Error("keep the task's new handle", "error", err)
	}
	return true
}

// destroy has the driver forget a task and end what is left of it. It is best effort:
// what fails is logged. That ctx ends does not stop it: what is left has to go.
func (r *Runner) destroy(ctx context.Context, driver Driver, cfg *wasmnodev1.TaskConfig, handle *wasmnodev1.TaskHandle) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.limits.CallTimeout)
	defer cancel()
	_, err := call(ctx, "destroy task", func(ctx context.Context) (struct{}, error) {
		return struct{}{}, driver.DestroyTask(ctx, cfg, handle, true)
	}, nil)
	if err != nil && abi.CodeOf(err) != abi.NotFound {
		r.logger.Warn("destroy task", "id", cfg.GetId(), "error", err)
	}
}

// dispose destroys what is left of a run.
func (r *Runner) dispose(run *invocation) { r.destroy(r.shutdown, run.driver, run.config, run.handle) }
