package task

import (
	"context"
	"time"

	"github.com/wasmnode/wasmnode/runners/restart"
	"github.com/wasmnode/wasmnode/structs"
)

// outcome is what the runner's goroutine does next.
type outcome int

const (
	ended    outcome = iota // judge what happened
	departed                // leave: the agent stops, and the task stays as it is
	awake                   // run a dead task again
)

// Run runs the task until it has ended for good, or the agent stops. Further calls
// return at once.
func (r *Runner) Run() {
	r.launch.Do(func() {
		defer close(r.waitCh)
		defer r.rec.drain()
		if r.life() == departed {
			each(r, func(h ShutdownHook) error { h.Shutdown(); return nil })
			if err := r.save(); err != nil {
				r.logger.Error("leaving the task", "error", err)
			}
			return
		}
		each(r, func(h StopHook) error { return r.bounded(h.Stop) })
	})
}

// life is the whole of a task's life: runs of the task until it is dead, and more after
// each restart that is forced on a dead task.
func (r *Runner) life() outcome {
	dead := r.begin()
	for {
		if !dead {
			if r.runs() == departed {
				return departed
			}
		}
		r.rec.drain() // what others do about a dead task they do about a durable one
		switch r.rest() {
		case departed:
			return departed
		case ended:
			r.unsaved = r.unsaved || !r.local.RunComplete
			r.local.RunComplete = true
			if err := r.save(); err != nil {
				r.logger.Error("the task is done", "error", err)
			}
			return ended
		}
		dead = false
	}
}

// begin shows what was read back or what the task starts with, and reports whether it is
// dead already.
func (r *Runner) begin() (dead bool) {
	r.rec.update(func(s *structs.TaskState) bool {
		dead = s.State == structs.TaskDead
		return !r.restored
	})
	r.cfg.Changed()
	if dead {
		r.abandon(r.shutdown) // the earlier agent was gone before it could tidy up
	}
	return dead
}

// rest waits, dead, for a restart that somebody forces. Tasks that run after all others
// cannot be restarted.
func (r *Runner) rest() outcome {
	_, task := r.current()
	if task.Lifecycle != nil && task.Lifecycle.Hook == hookPoststop || r.local.RunComplete {
		r.rec.update(func(*structs.TaskState) bool {
			r.closed = true
			return false
		})
		return ended
	}
	for {
		select {
		case <-r.killed.Done():
			return ended
		case <-r.shutdown.Done():
			return departed
		case <-r.poke:
		}
		wish := r.takeWish()
		if wish == nil {
			continue
		}
		woken := false
		r.rec.update(func(s *structs.TaskState) bool {
			if woken = !r.closed; woken {
				s.Append(structs.NewTaskEvent(structs.EventRestarting).WithRestart("", 0))
				s.Enter(structs.TaskPending, time.Now())
			}
			return woken
		})
		if woken {
			return awake
		}
	}
}

const hookPoststop = "poststop"

// runs runs the task again and again, as the restart policy has it, until it is dead.
func (r *Runner) runs() outcome {
	for {
		event, out := r.once()
		if out == departed {
			return departed
		}
		again, out := r.judge(event)
		if !again {
			return out
		}
	}
}

// once is one run of the task, or the attempt of one: recovered or started, waited for,
// tidied up.
func (r *Runner) once() (restart.Event, outcome) {
	run, event, out := r.launchOrRecover()
	if run == nil {
		return event, out
	}
	exit, out := r.wait(run)
	if out == departed {
		r.retire(r.running())
		return restart.Event{}, departed
	}
	r.finished(exit)
	return restart.Event{Exit: exit}, ended
}

// launchOrRecover gives the invocation to wait for; nil: there is none, judge the event.
func (r *Runner) launchOrRecover() (*invocation, restart.Event, outcome) {
	if r.local.TaskID != "" {
		return r.reattach()
	}
	if !r.awaitGate() {
		return nil, restart.Event{}, r.interrupted()
	}
	run, err := r.start()
	switch {
	case err == nil:
		return run, restart.Event{}, ended
	case r.active.Err() != nil:
		return nil, restart.Event{}, r.interrupted()
	}
	return nil, restart.Event{StartError: err}, ended
}

// interrupted tells which of the two wishes interrupted the runner: to be killed is
// something to be judged, and wins.
func (r *Runner) interrupted() outcome {
	if r.killed.Err() == nil && r.shutdown.Err() != nil {
		return departed
	}
	return ended
}

// awaitGate waits for the task's turn.
func (r *Runner) awaitGate() bool {
	if r.cfg.Gate == nil {
		return r.active.Err() == nil
	}
	select {
	case <-r.cfg.Gate():
		return r.active.Err() == nil
	case <-r.active.Done():
		return false
	}
}

// finished records the end of a run and tidies up after it.
func (r *Runner) finished(exit *structs.ExitResult) {
	r.emit(structs.NewTaskEvent(structs.EventTerminated).WithExit(exit))
	// Who runs the task forgets how it ended when it is destroyed.
	r.rec.drain()
	run := r.running()
	r.dispose(run)
	r.retire(run)
	r.forget()
	each(r, func(h ExitedHook) error { return r.bounded(h.Exited) })
}

// forget drops what is needed to find a run again. It becomes durable with the decision
// on what is next.
func (r *Runner) forget() {
	r.local.TaskID, r.local.Handle, r.local.Config, r.local.Network = "", nil, nil, nil
	r.unsaved = true
}

// retire ends an invocation: nobody signals or measures it any more.
func (r *Runner) retire(run *invocation) {
	r.setRunning(nil)
	close(run.done)
	run.driver.Release()
}

// judge asks the restart policy what is next, records it, and waits out the delay of a
// restart. again is false when the task is dead or the runner departs.
func (r *Runner) judge(event restart.Event) (again bool, out outcome) {
	alloc, task := r.current()
	wish := r.takeWish()
	if wish != nil && wish.Failure {
		event = restart.Event{} // however well it ended when it was told to
	}
	event.Killed = r.killed.Err() != nil
	event.Requested = wish != nil && !wish.Failure
	policy := restart.PolicyOf(alloc.Job, alloc.Group(), task)
	d := policy.Decide(r.local.Restarts, event, time.Now(), r.cfg.Jitter)
	if d.Window != r.local.Restarts {
		r.local.Restarts, r.unsaved = d.Window, true
	}
	switch d.Action {
	case restart.NotRestarting:
		r.die(structs.NewTaskEvent(structs.EventNotRestarting).WithRestart(d.Reason, 0).Fails())
		return false, ended
	case restart.Killed, restart.Terminated:
		r.die(nil)
		return false, ended
	}
	return r.delay(d)
}

// decided makes a change of the state durable together with what the run left, its
// attempt above all: an agent that dies finds a run that is still to be judged, or all
// that followed from it. What cannot be kept is only logged: the run is over, and nothing
// that follows from it is worse for being decided again.
func (r *Runner) decided(fn func(*structs.TaskState) bool) {
	r.rec.updateWith(r.unsavedLocal(), fn)
	r.rec.drain()
	// Unless nothing changed or the write failed it is durable already, and this
	// writes nothing.
	if err := r.save(); err != nil {
		r.logger.Error("after a run of the task", "error", err)
	}
}

// die makes the task dead, and nothing of it is left running. A kill that was announced
// is reported as done in the same step, whatever else happened to the task: Killing is
// always followed by Killed.
func (r *Runner) die(e *structs.TaskEvent) {
	r.abandon(r.shutdown)
	r.decided(func(s *structs.TaskState) bool {
		switch {
		case r.killing:
			s.Append(structs.NewTaskEvent(structs.EventKilled).WithKillError(r.killErr))
		case e != nil:
			s.Append(e)
		}
		s.Enter(structs.TaskDead, time.Now())
		return true
	})
}

// delay waits until the task is to start again: for the delay, or until somebody wishes
// it restarted at once.
func (r *Runner) delay(d restart.Decision) (again bool, out outcome) {
	r.decided(func(s *structs.TaskState) bool {
		if r.killing {
			return false
		}
		r.delaying = true
		s.Append(structs.NewTaskEvent(structs.EventRestarting).WithRestart(d.Reason, d.Delay))
		s.Enter(structs.TaskPending, time.Now())
		return true
	})
	timer := time.NewTimer(d.Delay)
	defer timer.Stop()
	for waiting := true; waiting && r.active.Err() == nil; {
		select {
		case <-timer.C:
			waiting = false
		case <-r.poke:
			waiting = r.takeWish() == nil
		case <-r.active.Done():
		}
	}
	r.rec.update(func(*structs.TaskState) bool {
		r.delaying = false
		return false
	})
	switch {
	case r.killed.Err() != nil:
		r.die(nil)
		return false, ended
	case r.shutdown.Err() != nil:
		return false, departed
	}
	return true, ended
}

// bounded runs a hook that tidies up, which must not hold up the end of a task.
func (r *Runner) bounded(run func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), r.limits.CallTimeout)
	defer cancel()
	return run(ctx)
}
