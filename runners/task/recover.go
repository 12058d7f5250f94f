package task

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/internal/wake"
	"github.com/wasmnode/wasmnode/runners/restart"
	"github.com/wasmnode/wasmnode/structs"
)

// recoverRun finds the run that an earlier agent left. One that goes on is nothing to
// report. One whose driver is missing stays to be found. One that is gone is no failure of
// the task: it starts again at once, and its restart policy is not asked.
func (r *Runner) recoverRun() (phase, restart.Event) {
	if exit := recordedExit(r.rec.visible()); exit != nil && !r.later {
		return r.ended(exit)
	}
	run, err := r.recover(r.shutdown)
	switch {
	case err == nil:
		r.setRunning(run)
		r.resumed()
		r.poststart()
		return phaseRun, restart.Event{}
	case r.shutdown.Err() != nil:
		return phaseDetached, restart.Event{}
	case abi.IsRecoverable(err) && r.killed.Err() != nil:
		return phaseDecide, restart.Event{StartError: err}
	case abi.IsRecoverable(err):
		r.emitWaiting(failureEvent(structs.EventDriverFailure, err))
		sleep(r.active, recoverPause)
		return phaseRecover, restart.Event{}
	case r.found():
		return r.hold(err)
	}
	ran, with := wasRunning(r.rec.visible()), cmp.Or(r.gone, "the restart of the agent")
	heard := r.awaitHeard(fmt.Sprintf("Task did not survive %s, and does not start again before servers were heard: %v", with, err))
	if !heard && r.killed.Err() == nil {
		return phaseDetached, restart.Event{}
	}
	r.forget()
	each(r, func(h ExitedHook) error { return r.bounded(h.Exited) })
	switch {
	case !heard:
		return phaseDecide, restart.Event{}
	case !ran:
		// It was being started when the agent died, and it was never seen to run.
		if err := r.save(); err != nil {
			r.logger.Error("forget a start that was interrupted", "error", err)
		}
		return phaseStart, restart.Event{}
	}
	return r.startLost(with, err), restart.Event{}
}

// awaitHeard holds a task that may run elsewhere by now until the control plane was heard, and reports
// whether it goes on then: it may be killed meanwhile, or left to the next agent. A run that did not
// survive stays stored until then: an agent that dies meanwhile leaves it to the next to wait.
func (r *Runner) awaitHeard(why string) bool {
	alloc, _ := r.current()
	if r.cfg.Heard == nil || structs.Deref(alloc.Job.Type) == nomad.JobTypeSystem || wake.IsClosed(r.cfg.Heard) {
		return true
	}
	r.logger.Info("the task waits until the control plane was heard", "reason", why)
	r.commit(func(s *status) bool {
		if !isHeld(s.state) {
			s.state.Append(structs.NewTaskEvent(structs.EventFailedRestoring).WithMessage(why))
		}
		s.state.Enter(structs.TaskPending, time.Now())
		return true
	})
	select {
	case <-r.cfg.Heard:
	case <-r.active.Done():
	}
	return r.active.Err() == nil
}

// isHeld reports whether awaitHeard holds a task, or did when it was stored.
func isHeld(s *structs.TaskState) bool {
	last := len(s.Events) - 1
	return last >= 0 && s.Events[last].Type == structs.EventFailedRestoring
}

// awaitHeardToStart is awaitHeard of a task that had no run when the machine went down: it was to start,
// for the first time or after a delay.
func (r *Runner) awaitHeardToStart() bool {
	left := r.cfg.Left
	rebooted := left != nil && left.Gone("", false) != ""
	if !r.restored || !rebooted && !isHeld(r.rec.visible()) {
		return true
	}
	return r.awaitHeard("Task was to start when the machine went down, and does not before servers were heard")
}

// ended is what follows on a run whose end is recorded: what is left of it is destroyed, and
// then it is decided on. An agent that stops before the first leaves both to the next.
func (r *Runner) ended(exit *structs.ExitResult) (phase, restart.Event) {
	r.destroyLeftover(r.shutdown)
	if r.local.TaskID != "" && r.killed.Err() == nil && r.shutdown.Err() != nil {
		return phaseDetached, restart.Event{}
	}
	each(r, func(h ExitedHook) error { return r.bounded(h.Exited) })
	return phaseDecide, restart.Event{Exit: exit}
}

// startLost has a task start again whose run was lost with what it ran in.
func (r *Runner) startLost(with string, err error) phase {
	r.commit(func(s *status) bool {
		s.state.Append(structs.NewTaskEvent(structs.EventFailedRestoring).
			WithMessage(fmt.Sprintf("Task did not survive %s, and starts again: %v", with, err)))
		s.state.Enter(structs.TaskPending, time.Now())
		return true
	})
	return phaseStart
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

// wasRunning reports whether the stored run was seen to run.
func wasRunning(s *structs.TaskState) bool {
	if s.State == structs.TaskRunning {
		return true
	}
	// What was thought to be gone is pending until it is found.
	for _, e := range slices.Backward(s.Events) {
		switch e.Type {
		case structs.EventStarted:
			return true
		case structs.EventReceived, structs.EventTerminated, structs.EventRestarting, structs.EventFailedRestoring:
			return false
		}
	}
	return false
}

// resumed makes the state running, without an event if it was. What is recorded to have ended
// was another run.
func (r *Runner) resumed() {
	r.rec.update(func(s *status) bool {
		another := recordedExit(s.state) != nil
		switch at := s.state.StartedAt; {
		case !another && s.state.State == structs.TaskRunning:
			return false
		case !another && wasRunning(s.state):
			s.state.Enter(structs.TaskRunning, time.Now())
			s.state.StartedAt = at
		default:
			s.state.Enter(structs.TaskRunning, time.Now())
			s.state.Append(structs.NewTaskEvent(structs.EventStarted))
		}
		return true
	})
}

// recover has the driver recover the run that is stored. When the driver does not know
// it, what is left of it is destroyed.
func (r *Runner) recover(ctx context.Context) (*invocation, error) {
	run, err := r.stored()
	if err != nil {
		return nil, err
	}
	if run.driver, err = r.dispense(ctx, anyError); err != nil {
		// The task may well run: a missing driver does not mean that it ended.
		return nil, recoverable(err)
	}
	r.tellSecrets(run)
	if r.local.Lost {
		r.regain(run)
	}
	switch {
	case r.found():
		return r.takeBack(ctx, run)
	case len(r.local.Handle) == 0:
		return r.recoverStart(ctx, run)
	}
	renewed, err := r.recoverPatiently(ctx, run)
	if err != nil {
		r.letGo(ctx, run, err)
		return nil, err
	}
	if renewed != nil {
		run.handle = renewed
		if err := r.storeHandle(run); err != nil {
			r.logger.Error("keep a recovered task's handle", "error", err)
		}
	}
	return run, nil
}

// regain has a run be given to its driver as the job has it now, where what it was started with was
// sealed with a key that is gone: the environment is without what was secret in it.
func (r *Runner) regain(run *invocation) {
	r.logger.Warn("the key is gone that the task's environment was sealed with: that is made anew, and a task that still runs has it from its next restart on", "id", r.local.TaskID)
	alloc, task := r.current()
	cfg, err := r.config(alloc, task, r.hooksEnv(r.envBuilder(alloc, task, run.driver)).Build(), run.driver)
	if err == nil {
		cfg.Id = r.local.TaskID
		run.config = cfg
		r.local.Config, err = cfg.MarshalVT()
	}
	if err != nil {
		r.logger.Warn("the task's configuration cannot be made anew: its driver knows the task by its ID", "error", err)
		return
	}
	r.local.Lost, r.unsaved = false, true
}

// recoverStart recovers a start whose answer the earlier agent could not store. A
// driver whose tasks are wholly the host's finds them by their ID; what another one may
// have started is destroyed, to be started again.
func (r *Runner) recoverStart(ctx context.Context, run *invocation) (*invocation, error) {
	renewed, err := r.recoverPatiently(ctx, run)
	if abi.IsRecoverable(err) {
		r.letGo(ctx, run, err)
		return nil, err
	}
	if err == nil {
		if renewed != nil {
			run.handle = renewed
		}
		err = r.keepHandle(run)
	}
	if err == nil {
		return run, nil
	}
	err = fmt.Errorf("the agent ended while the task was starting: %v", err) //nolint:errorlint // it is not tried again
	r.letGo(ctx, run, err)
	return nil, err
}

// recoverPatiently has the driver recover a run, and again when it faults at that.
func (r *Runner) recoverPatiently(ctx context.Context, run *invocation) (*wasmnodev1.TaskHandle, error) {
	renewed, err := r.recoverTask(ctx, run)
	pause := newBackoff()
	for try := 1; try <= retries && isFault(err) && sleep(ctx, pause.NextBackOff()); try++ {
		r.logger.Warn("the driver failed at recovering the task", "error", err, "try", try)
		renewed, err = r.recoverTask(ctx, run)
	}
	return renewed, err
}

// letGo gives back the driver of a run that could not be recovered. What is left of the run is destroyed,
// unless it may be there and be found later: how it ended would be lost, and it would run again.
func (r *Runner) letGo(ctx context.Context, run *invocation, err error) {
	if abi.IsRecoverable(err) || ctx.Err() != nil {
		run.driver.Release()
		return
	}
	r.dispose(ctx, run)
}

// isFault reports whether an error is not about the task: the driver broke, or could
// not do it now. An answer, that it does not know the task above all, is not tried again.
func isFault(err error) bool {
	switch abi.CodeOf(err) {
	case 0, abi.NotFound, abi.Unimplemented, abi.InvalidArgument, abi.FailedPrecondition, abi.PermissionDenied:
		return false
	}
	return true
}

// stored is the run that is stored, without its driver. One whose start was only begun
// has the handle of what may have been started.
func (r *Runner) stored() (*invocation, error) {
	run := &invocation{config: &wasmnodev1.TaskConfig{}, done: make(chan struct{})}
	if r.found() || r.local.Lost {
		run.config.Id, run.config.Name, run.config.AllocId = r.local.TaskID, r.cfg.Task, r.cfg.Alloc.ID
	}
	if err := run.config.UnmarshalVT(r.local.Config); err != nil {
		return nil, fmt.Errorf("decode the task's configuration: %w", err)
	}
	if len(r.local.Handle) == 0 {
		run.handle = handleOrID(run.config, nil)
		return run, nil
	}
	run.handle = &wasmnodev1.TaskHandle{}
	if err := run.handle.UnmarshalVT(r.local.Handle); err != nil {
		return nil, fmt.Errorf("decode the task's handle: %w", err)
	}
	network := &wasmnodev1.DriverNetwork{}
	if len(r.local.Network) > 0 && network.UnmarshalVT(r.local.Network) == nil {
		run.network = network
	}
	return run, nil
}

func (r *Runner) recoverTask(ctx context.Context, run *invocation) (*wasmnodev1.TaskHandle, error) {
	ctx, cancel := context.WithTimeout(ctx, r.limits.CallTimeout)
	defer cancel()
	return call(ctx, "recover task", func(ctx context.Context) (*wasmnodev1.TaskHandle, error) {
		return run.driver.RecoverTask(ctx, run.config, run.handle, r.driverEvent)
	}, nil)
}

// replace puts a run, with another handle or driver, in the place of the running one.
func (r *Runner) replace(next *invocation) {
	r.setRunning(next)
	if err := r.storeHandle(next); err != nil {
		r.logger.Error("keep the task's new handle", "error", err)
	}
}

// replaceHandle puts a handle in the place of the running one; nil: it stays. It reports
// whether it changed.
func (r *Runner) replaceHandle(handle *wasmnodev1.TaskHandle) bool {
	run := r.running()
	if handle == nil || handle.EqualVT(run.handle) {
		return false
	}
	next := *run
	next.handle = handle
	r.replace(&next)
	return true
}
