package task

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/structs"
)

// forcedExit is how a task counts that was destroyed by force and of which its driver
// says nothing more: as one ended by SIGKILL.
const (
	forcedSignal = 9
	forcedCode   = 128 + forcedSignal
)

// exitWait is how long the driver gets to report how a task ended that it destroyed, and to
// return from a stop whose task has ended.
const exitWait = time.Second

// endKilled ends a running task because it is to be killed: pre-kill hooks, shutdown
// delay, stop. An exit meanwhile is the end too, and counts as the kill's (D4). The result
// is nil when the agent stops.
func (r *Runner) endKilled(w *waiter) *structs.ExitResult {
	r.preKill()
	if exit := r.shutdownDelay(w); exit != nil || r.shutdown.Err() != nil {
		return exit
	}
	return r.stop(w)
}

func (r *Runner) preKill() {
	each(r, func(h PreKillHook) error {
		ctx, cancel := context.WithTimeout(r.shutdown, r.limits.CallTimeout)
		defer cancel()
		return h.PreKill(ctx)
	})
}

// shutdownDelay lets the task run on for its shutdown_delay. The result is that of a task
// that ended meanwhile; nil: it did not, or the agent stops.
func (r *Runner) shutdownDelay(w *waiter) *structs.ExitResult {
	_, task := r.current()
	if task.ShutdownDelay <= 0 {
		return nil
	}
	event := structs.EventWaitingShutdownDelay
	text := "Waiting for shutdown_delay of %s before killing the task."
	if closed(r.noDelay) {
		event = structs.EventSkippingShutdownDelay
		text = "Skipping shutdown_delay of %s before killing the task."
	}
	r.emit(structs.NewTaskEvent(event).WithMessage(fmt.Sprintf(text, task.ShutdownDelay)))
	timer := time.NewTimer(task.ShutdownDelay)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.noDelay:
	case <-r.shutdown.Done():
	case out := <-w.result:
		if out.err == nil {
			return out.exit
		}
		// A driver that fails at waiting is asked again when it is to stop the task.
		w.result <- out
	}
	return nil
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// stop has the driver stop the task and waits for its end: at most the kill timeout and
// a grace. Then the task is destroyed by force, whatever the driver does. The result is
// nil when the agent stops.
func (r *Runner) stop(w *waiter) *structs.ExitResult {
	timeout := r.killTimeout()
	bound := timeout + r.limits.stopGrace()
	ctx, cancel := context.WithTimeout(r.shutdown, bound)
	defer cancel()
	s := &stopping{r: r, ctx: ctx, timeout: timeout, w: w, stopPause: newBackoff(), waitPause: newBackoff()}
	defer func() { s.w.cancel() }()
	s.call()
	for {
		select {
		case out := <-s.w.result:
			if exit := s.waited(out); exit != nil {
				s.awaitReturn()
				return exit
			}
		case out := <-s.stopped:
			s.returned(out)
		case <-s.retry:
			s.call()
		case <-s.rewait:
			s.w, s.rewait = newWaiter(r.running()), nil
		case <-ctx.Done():
			if r.shutdown.Err() != nil {
				return nil
			}
			return r.force(s.w, bound)
		}
	}
}

// stopping is the state of a stop: the call to the driver, its retries, and the wait.
type stopping struct {
	r       *Runner
	ctx     context.Context
	timeout time.Duration
	w       *waiter

	stopped  chan stopOutcome // the call that runs; nil: none
	retry    <-chan time.Time // when to call again; nil: not
	rewait   <-chan time.Time // when to wait again; nil: not
	notFound bool             // the driver reports that there is no such task

	stopPause, waitPause *backoff.ExponentialBackOff
}

type stopOutcome struct {
	handle *wasmnodev1.TaskHandle
	err    error
}

// call asks the driver to stop the task, in a goroutine that ends with the call.
func (s *stopping) call() {
	run, ctx, timeout := s.r.running(), s.ctx, s.timeout
	_, task := s.r.current()
	done := make(chan stopOutcome, 1)
	s.stopped, s.retry = done, nil
	go func() {
		h, err := guard(ctx, "stop task", func(ctx context.Context) (*wasmnodev1.TaskHandle, error) {
			return run.driver.StopTask(ctx, run.config, run.handle, task.KillSignal, timeout)
		})
		done <- stopOutcome{h, err}
	}()
}

// returned handles the driver's answer: a new handle is waited under, an error is tried
// again until the time is over.
func (s *stopping) returned(out stopOutcome) {
	s.stopped = nil
	switch {
	case out.err == nil:
		if s.r.replaceHandle(out.handle) {
			s.w.cancel()
			s.w, s.rewait = newWaiter(s.r.running()), nil
		}
	case abi.CodeOf(out.err) == abi.NotFound:
		s.notFound = true
	default:
		s.r.logger.Warn("the driver failed at stopping the task", "error", out.err)
		s.retry = time.After(s.stopPause.NextBackOff())
	}
}

// waited handles what the wait brought: the task's end, or an error after which the
// wait is tried again. A task that the driver does not know has ended.
func (s *stopping) waited(out waited) *structs.ExitResult {
	if out.err == nil {
		return out.exit
	}
	if s.notFound || abi.CodeOf(out.err) == abi.NotFound {
		return lostExit(out.err)
	}
	s.rewait = time.After(s.waitPause.NextBackOff())
	return nil
}

// awaitReturn lets a stop that is about to return do so: cancelling it costs an instance.
func (s *stopping) awaitReturn() {
	if s.stopped == nil {
		return
	}
	t := time.NewTimer(exitWait)
	defer t.Stop()
	select {
	case out := <-s.stopped:
		if out.err == nil {
			s.r.replaceHandle(out.handle)
		}
	case <-t.C:
	case <-s.ctx.Done():
	}
}

// force destroys a task that did not end in time, and reports it.
func (r *Runner) force(w *waiter, waited time.Duration) *structs.ExitResult {
	text := fmt.Sprintf("task did not end within %s of being stopped and was destroyed by force", waited)
	r.logger.Error(text)
	r.addKillError(text)
	d := r.beginDisposal(r.shutdown, r.running())
	forced := &structs.ExitResult{ExitCode: forcedCode, Signal: forcedSignal, Err: text}
	timer := time.NewTimer(time.Until(d.killedUntil(r.limits)))
	defer timer.Stop()
	for disposing, waiting := d.done, w.result; disposing != nil || waiting != nil; {
		select {
		case out := <-waiting:
			if out.err == nil {
				return out.exit
			}
			waiting = nil
		case <-disposing:
			if d.err != nil {
				r.addKillError("that failed too: " + d.err.Error() + ". Resources may have been leaked")
			}
			disposing = nil
			timer.Reset(min(exitWait, time.Until(d.until)))
		case <-timer.C:
			return forced
		}
	}
	return forced
}

// addKillError keeps what was wrong with a kill for the event that reports it.
func (r *Runner) addKillError(text string) {
	r.rec.locked(func(s *status) {
		if s.killErr != nil {
			text = s.killErr.Error() + "; " + text
		}
		s.killErr = errors.New(text)
	})
}
