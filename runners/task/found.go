package task

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/runners/restart"
	"github.com/wasmnode/wasmnode/state"
	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/workload"
)

// found reports whether all that is known of the task's run is its ID: what was stored of it,
// if anything was, is lost.
func (r *Runner) found() bool {
	return r.local.TaskID != "" && len(r.local.Config) == 0 && !r.local.Lost
}

// onlyID makes a run the task's of which no more than its ID is known.
func (r *Runner) onlyID(run string) {
	r.local.TaskID, r.unsaved = run, true
	r.local.Config, r.local.Handle, r.local.Network = nil, nil, nil
}

// unstoredRun is a run of the task that goes on and is not the one that is stored; empty:
// there is none. Either nothing is stored of the task, or what is was a copy made before that
// run was started, which has no run or one that is gone.
func (r *Runner) unstoredRun(local *state.TaskLocal, s *structs.TaskState) string {
	left := r.cfg.Left
	switch {
	case left == nil:
	case local == nil && r.rec.visible().State != structs.TaskDead:
		return left.Run(r.cfg.Alloc.ID, r.cfg.Task, time.Time{})
	case local != nil && s != nil && s.State != structs.TaskDead && left.Gone(local.TaskID, true) != "":
		return left.Run(r.cfg.Alloc.ID, r.cfg.Task, storedAt(s))
	}
	return ""
}

// storedAt is a time that what is stored of a task is not older than: what was started later
// is not in it. A task that waits for its start, or its next one, may have had runs before.
func storedAt(s *structs.TaskState) time.Time {
	at := s.StartedAt
	if s.State != structs.TaskRunning {
		for _, e := range s.Events {
			if happened := time.Unix(0, e.Time); happened.After(at) {
				at = happened
			}
		}
	}
	return at
}

// takeBack has the driver recover a run that was found, by the ID that it has in common with
// its workload. What was asked of the driver when it started is asked again, as the job has
// it now.
func (r *Runner) takeBack(ctx context.Context, run *invocation) (*invocation, error) {
	alloc, task := r.current()
	cfg, err := r.config(alloc, task, r.envBuilder(alloc, task, run.driver).Build(), run.driver)
	if err == nil {
		cfg.Id = r.local.TaskID
		run.config, run.handle = cfg, handleOrID(cfg, nil)
		err = r.recoverFound(ctx, run)
	}
	if err != nil {
		run.driver.Release()
		return nil, err
	}
	return run, nil
}

func (r *Runner) recoverFound(ctx context.Context, run *invocation) error {
	renewed, err := r.recoverTask(ctx, run)
	if err != nil {
		return err
	}
	if renewed != nil {
		run.handle = renewed
	}
	if err := r.storeStart(run.driver, run.config); err != nil {
		return err
	}
	return recoverable(r.storeHandle(run))
}

// hold keeps a run that was found and that its driver does not take back: while its workload
// runs, nothing is started beside it, and the driver is asked again now and then.
func (r *Runner) hold(cause error) (phase, restart.Event) {
	s, err := r.cfg.Left.Inspect(r.active, r.local.TaskID)
	switch {
	case r.active.Err() != nil:
		return r.interrupted(), restart.Event{}
	case errors.Is(err, abi.ErrTaskNotFound):
		r.forget()
		return r.startLost("the loss of what was stored of it", err), restart.Event{}
	case err == nil && s.State == workload.Exited:
		r.emit(structs.NewTaskEvent(structs.EventTerminated).WithExit(s.Exit))
		r.rec.drain()
		return r.ended(s.Exit)
	}
	_, task := r.current()
	text := fmt.Sprintf("What was stored of the task is lost, and its workload %s runs on: driver %q does not take it back: %v. "+
		"The task starts again when that has ended, which `wasmnode operator discard %s` makes it do", r.local.TaskID, task.Driver, cause, r.cfg.Alloc.ID)
	r.rec.locked(func(s *status) { s.held = text })
	r.emitWaiting(structs.NewTaskEvent(structs.EventFailedRestoring).WithMessage(text))
	sleep(r.active, maxRetry)
	r.rec.locked(func(s *status) { s.held = "" })
	return phaseRecover, restart.Event{}
}

// Held is why the task is not started: a run of it that was found goes on, and its driver
// does not take it back. Empty: that is not so.
func (r *Runner) Held() (why string) {
	r.rec.locked(func(s *status) { why = s.held })
	return why
}
