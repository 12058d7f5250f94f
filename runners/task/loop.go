package task

import (
	"context"
	"slices"
	"time"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/runners/restart"
	"github.com/wasmnode/wasmnode/structs"
)

// phase is the state of a task's runner.
type phase int

// The phases. Each is one case of [Runner.runPhases].
const (
	phaseRecover  phase = iota // find the run that an earlier agent left
	phaseStart                 // wait for the task's turn, prepare it, have its driver start it
	phaseRun                   // wait for the end of the run
	phaseDecide                // apply the restart policy to what has happened
	phaseDelay                 // wait until the task is to start again
	phaseDead                  // wait for a restart that is forced on the dead task
	phaseDone                  // the task has ended for good
	phaseDetached              // the agent stops, and the task stays as it is
)

// Run runs the task until it has ended for good, or the agent stops. Further calls
// return at once.
func (r *Runner) Run() {
	if r.launched.Swap(true) {
		return
	}
	defer close(r.waitCh)
	defer r.rec.drain()
	if r.runPhases() == phaseDetached {
		each(r, func(h ShutdownHook) error { h.Shutdown(); return nil })
		if err := r.save(); err != nil {
			r.logger.Error("leaving the task", "error", err)
		}
		return
	}
	each(r, func(h StopHook) error { return r.bounded(h.Stop) })
}

// runPhases leads the task from phase to phase until it has ended for good or is left to the
// next agent. A kill or a shutdown interrupts whatever a phase waits for; the phase then
// names the one in which that is dealt with.
func (r *Runner) runPhases() phase {
	var event restart.Event
	var decision restart.Decision
	at := r.begin()
	for {
		switch at {
		case phaseRecover:
			at, event = r.recoverRun()
		case phaseStart:
			at, event = r.startRun()
		case phaseRun:
			at, event = r.awaitRun()
		case phaseDecide:
			at, decision = r.applyRestartPolicy(event)
		case phaseDelay:
			at = r.awaitDelay(decision)
		case phaseDead:
			at = r.awaitForcedRestart()
		case phaseDone, phaseDetached:
			return at
		}
	}
}

// begin shows what was read back or what the task starts with.
func (r *Runner) begin() phase {
	dead := false
	r.rec.update(func(s *status) bool {
		dead = s.state.State == structs.TaskDead
		return !r.restored
	})
	r.cfg.Changed()
	if !dead {
		if r.local.TaskID != "" {
			return phaseRecover
		}
		if !r.awaitHeardToStart() {
			return r.interrupted()
		}
		return phaseStart
	}
	r.destroyLeftover(r.shutdown) // the earlier agent was gone before it could
	return phaseDead
}

// startRun starts the task when it is its turn. A start that fails is not tried again
// here: the restart policy decides.
func (r *Runner) startRun() (phase, restart.Event) {
	if !r.awaitGate() {
		return r.interrupted(), restart.Event{}
	}
	err := r.start()
	switch {
	case err == nil:
		return phaseRun, restart.Event{}
	case r.active.Err() != nil:
		return r.interrupted(), restart.Event{}
	}
	return phaseDecide, restart.Event{StartError: err}
}

// awaitGate waits for the task's turn and reports whether it has come.
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

// interrupted is what follows when the runner is no longer active. A kill wins: the
// policy makes the task dead.
func (r *Runner) interrupted() phase {
	if r.killed.Err() == nil && r.shutdown.Err() != nil {
		return phaseDetached
	}
	return phaseDecide
}

// awaitRun waits for the end of the run and records it.
func (r *Runner) awaitRun() (phase, restart.Event) {
	exit, gone := r.wait()
	switch {
	case exit == nil && gone == nil:
		run := r.running()
		r.release(run)
		run.driver.Release()
		return phaseDetached, restart.Event{}
	case gone != nil && !r.mayLose(time.Now()):
		exit, gone = lostExit(gone), nil
	}
	if gone == nil {
		r.emit(structs.NewTaskEvent(structs.EventTerminated).WithExit(exit))
	}
	run := r.running()
	// Who runs the task forgets how it ended when it is destroyed.
	if err := r.inRoom(r.rec.flush); r.leaves(err) {
		r.release(run)
		run.driver.Release()
		return phaseDetached, restart.Event{}
	}
	r.dispose(r.shutdown, run)
	r.release(run)
	r.forget()
	each(r, func(h ExitedHook) error { return r.bounded(h.Exited) })
	if gone != nil {
		return r.startLost("the end of what ran it", gone), restart.Event{}
	}
	return phaseDecide, restart.Event{Exit: exit}
}

// mayLose counts a run that was lost with what ran it, and reports whether that costs the
// task nothing.
func (r *Runner) mayLose(now time.Time) bool {
	r.losses = slices.DeleteFunc(r.losses, func(t time.Time) bool { return now.Sub(t) >= lossInterval })
	if len(r.losses) == freeLosses {
		return false
	}
	r.losses = append(r.losses, now)
	return true
}

// release ends an invocation: it is not signalled or measured any more.
func (r *Runner) release(run *invocation) {
	r.setRunning(nil)
	close(run.done)
}

// forget drops what is needed to find a run again. It becomes durable with the decision
// on what is next.
func (r *Runner) forget() {
	r.local.TaskID, r.local.Handle, r.local.Config, r.local.Network, r.local.Lost = "", nil, nil, nil, false
	r.unsaved = true
}

// applyRestartPolicy asks the restart policy what is next, and records that.
func (r *Runner) applyRestartPolicy(event restart.Event) (phase, restart.Decision) {
	alloc, task := r.current()
	pending := r.takeRestart()
	if pending != nil && pending.Failure {
		event = restart.Event{} // however well it ended when it was stopped
	}
	event.Killed = r.killed.Err() != nil
	event.Requested = pending != nil && !pending.Failure
	policy := restart.PolicyOf(alloc.Job, alloc.Group(), task)
	d := policy.Decide(r.local.Restarts, event, time.Now(), r.cfg.Jitter)
	if d.Window != r.local.Restarts {
		r.local.Restarts, r.unsaved = d.Window, true
	}
	switch d.Action {
	case restart.NotRestarting:
		return r.markDead(structs.NewTaskEvent(structs.EventNotRestarting).WithRestart(d.Reason, 0).Fails()), d
	case restart.Killed, restart.Terminated:
		return r.markDead(nil), d
	}
	r.forget() // what could not be destroyed is no run that may be recovered
	r.commit(func(s *status) bool {
		if s.killing {
			return false
		}
		s.delaying = true
		s.state.Append(structs.NewTaskEvent(structs.EventRestarting).WithRestart(d.Reason, d.Delay))
		s.state.Enter(structs.TaskPending, time.Now())
		return true
	})
	return phaseDelay, d
}

// markDead makes the task dead, and nothing of it is left running. A kill that was
// announced is reported as done in the same step, whatever else happened to the task:
// Killing is always followed by Killed.
func (r *Runner) markDead(e *structs.TaskEvent) phase {
	r.destroyLeftover(r.shutdown)
	r.commit(func(s *status) bool {
		switch {
		case s.killing:
			s.state.Append(structs.NewTaskEvent(structs.EventKilled).WithKillError(s.killErr))
		case e != nil:
			s.state.Append(e)
		}
		s.state.Enter(structs.TaskDead, time.Now())
		return true
	})
	return phaseDead
}

// commit makes a change of the status durable together with what the run left, its
// attempt above all: an agent that dies finds a run that is still to be decided on, or
// all that followed from it. What cannot be kept is only logged: the run is over, and
// nothing that follows from it is worse for being decided again.
func (r *Runner) commit(fn func(*status) bool) {
	r.rec.updateWith(r.unsavedLocal(), fn)
	r.rec.drain()
	// Unless nothing changed or the write failed it is durable already, and this
	// writes nothing.
	if err := r.save(); err != nil {
		r.logger.Error("after a run of the task", "error", err)
	}
}

// awaitDelay waits until the task is to start again: for the delay, or until a restart is
// requested.
func (r *Runner) awaitDelay(d restart.Decision) phase {
	timer := time.NewTimer(d.Delay)
	defer timer.Stop()
	for waiting := d.Delay > 0; waiting && r.active.Err() == nil; {
		select {
		case <-timer.C:
			waiting = false
		case <-r.restart.C():
			waiting = r.takeRestart() == nil
		case <-r.active.Done():
		}
	}
	r.rec.locked(func(s *status) { s.delaying = false })
	switch {
	case r.killed.Err() != nil:
		return r.markDead(nil)
	case r.shutdown.Err() != nil:
		return phaseDetached
	}
	return phaseStart
}

// awaitForcedRestart waits, dead, for a restart that is forced. Tasks that run
// after all others cannot be restarted.
func (r *Runner) awaitForcedRestart() phase {
	r.rec.drain() // what others do about a dead task they do about a durable one
	_, task := r.current()
	if task.Lifecycle != nil && task.Lifecycle.Hook == nomad.TaskLifecycleHookPoststop || r.local.RunComplete {
		r.rec.locked(func(s *status) { s.final = true })
		return r.complete()
	}
	for {
		select {
		case <-r.killed.Done():
			return r.complete()
		case <-r.shutdown.Done():
			return phaseDetached
		case <-r.restart.C():
		}
		if r.takeRestart() == nil {
			continue
		}
		restarts := false
		r.forget()
		r.commit(func(s *status) bool {
			if restarts = !s.final; restarts {
				s.state.Append(structs.NewTaskEvent(structs.EventRestarting).WithRestart("", 0))
				s.state.Enter(structs.TaskPending, time.Now())
			}
			return restarts
		})
		if restarts {
			return phaseStart
		}
	}
}

// complete records that the runner is done with the task for good.
func (r *Runner) complete() phase {
	r.unsaved = r.unsaved || !r.local.RunComplete
	r.local.RunComplete = true
	if err := r.save(); err != nil {
		r.logger.Error("the task is done", "error", err)
	}
	return phaseDone
}

// bounded runs a hook that tidies up, which must not hold up the end of a task.
func (r *Runner) bounded(run func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), r.limits.CallTimeout)
	defer cancel()
	return run(ctx)
}
