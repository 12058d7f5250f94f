package task

import (
	"context"
	"fmt"
	"time"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/structs"
)

// waiter waits for the end of one invocation under one handle.
type waiter struct {
	result chan waited // capacity 1: the waiter never waits for its owner
	cancel context.CancelFunc
}

type waited struct {
	exit *structs.ExitResult
	err  error
}

// newWaiter has the driver wait. The goroutine ends with the task or with cancel; one
// whose driver ignores its context is left behind.
func newWaiter(run *invocation) *waiter {
	ctx, cancel := context.WithCancel(context.Background())
	w := &waiter{result: make(chan waited, 1), cancel: cancel}
	go func() {
		defer cancel()
		exit, err := guard(ctx, "wait for task", func(ctx context.Context) (*structs.ExitResult, error) {
			return run.driver.WaitTask(ctx, run.config, run.handle)
		})
		if err == nil && exit == nil {
			err = fmt.Errorf("wait for task: the driver gave no result")
		}
		w.result <- waited{exit, err}
	}()
	return w
}

// wait waits for the end of the running task and does what others request meanwhile. A run
// that its driver does not know any more is gone. Both results are nil when the agent stops.
func (r *Runner) wait() (exit *structs.ExitResult, gone error) {
	w := newWatch(r)
	defer w.close()
	for {
		next, exit := w.step()
		switch next {
		case watchRenewed:
			w.renew()
		case watchEnded:
			return exit, w.gone
		}
	}
}

// watch is the wait for the end of a task through changes of its driver and handle.
type watch struct {
	r      *Runner
	driver Driver
	waiter *waiter
	// replaced is closed when there is a newer version of driver; nil: the handover to it
	// has begun.
	replaced <-chan struct{}
	handover *handover

	gone   error     // set when the run was lost with what ran it
	faults int       // of the driver at waiting, without faultReset between them
	since  time.Time // the last fault, or the beginning
}

func newWatch(r *Runner) *watch {
	run := r.running()
	return &watch{
		r: r, driver: run.driver, waiter: newWaiter(run),
		replaced: run.driver.Replaced(), handover: &handover{}, since: time.Now(),
	}
}

func (w *watch) close() {
	w.waiter.cancel()
	w.handover.abandon()
}

// watchState is what becomes of a watch after something has happened.
type watchState int

const (
	watchSame    watchState = iota // it goes on as it is
	watchRenewed                   // the run has another driver or handle
	watchEnded                     // the task has ended, or the agent stops
)

// step waits for the next thing to happen and handles it. The result is that of a watch
// that has ended; nil: the agent stops.
func (w *watch) step() (watchState, *structs.ExitResult) {
	r := w.r
	select {
	case out := <-w.waiter.result:
		return w.waited(out)
	case <-r.killed.Done():
		return watchEnded, r.endKilled(w.waiter)
	case <-r.shutdown.Done():
		return watchEnded, nil
	case <-r.restart.C():
		if !r.restartPending() {
			return watchSame, nil
		}
		r.preKill()
		return watchEnded, r.stop(w.waiter)
	case req := <-r.signals:
		if r.sendSignal(req) {
			return watchRenewed, nil
		}
		return watchSame, nil
	case n := <-r.notes:
		r.keepNote(n)
		return watchSame, nil
	case <-r.updated.C():
		r.applyUpdate()
		return watchSame, nil
	case <-w.replaced:
		w.replaced, w.handover = nil, r.newHandover()
		return watchSame, nil
	case taken := <-w.handover.recovered:
		return w.takeOver(taken), nil
	}
}

// waited handles what the wait brought: the task's end, or a fault of the driver.
func (w *watch) waited(out waited) (watchState, *structs.ExitResult) {
	if out.err == nil {
		return watchEnded, out.exit
	}
	if time.Since(w.since) > faultReset {
		w.faults = 0
	}
	w.since = time.Now()
	w.faults++
	switch lost := w.r.recoverAfterWaitError(out.err, w.faults); {
	case lost == nil:
		return watchRenewed, nil
	case abi.CodeOf(lost) == abi.NotFound:
		w.gone = lost
		return watchEnded, nil
	default:
		return watchEnded, lostExit(lost)
	}
}

// lostExit is how a task counts that its driver has lost.
func lostExit(cause error) *structs.ExitResult {
	return &structs.ExitResult{Err: fmt.Sprintf("the driver lost the task: %v", cause)}
}

// takeOver moves the task to the driver version that recovered it.
func (w *watch) takeOver(taken recovered) watchState {
	if taken.from != w.r.running() {
		// A signal brought another handle while the new version recovered the old one.
		taken.run.driver.Release()
		w.handover = w.r.newHandover()
		return watchSame
	}
	w.r.adopt(taken.run)
	return watchRenewed
}

// renew waits on under the driver and the handle that the run has now.
func (w *watch) renew() {
	w.waiter.cancel()
	run := w.r.running()
	w.waiter = newWaiter(run)
	if run.driver != w.driver {
		w.handover.abandon()
		w.driver, w.replaced, w.handover = run.driver, run.driver.Replaced(), &handover{}
	}
}

// applyUpdate passes a new version of the allocation to the hooks.
func (r *Runner) applyUpdate() {
	alloc, task := r.current()
	each(r, func(h UpdateHook) error {
		ctx, cancel := context.WithTimeout(r.active, r.limits.CallTimeout)
		defer cancel()
		return h.Update(ctx, alloc, task)
	})
}

// recoverAfterWaitError handles a driver that failed at waiting: the task is not known to
// have ended, so the driver, perhaps a new version or instance of it, recovers it. When
// it cannot, the error is why: NOT_FOUND, the task is not there any more.
func (r *Runner) recoverAfterWaitError(cause error, faults int) (lost error) {
	r.logger.Warn("the driver failed at waiting for the task", "error", cause, "faults", faults)
	pause := newBackoff()
	for range faults - 1 {
		pause.NextBackOff()
	}
	for try := faults; try <= retries && abi.CodeOf(cause) != abi.NotFound; try++ {
		if !sleep(r.active, pause.NextBackOff()) {
			return nil // a kill or a shutdown comes first
		}
		next, err := r.recoverOnCurrent(r.active, r.running())
		if err == nil {
			r.adopt(next)
			return nil
		}
		cause = err
	}
	return cause
}

// recoverOnCurrent has the driver that is now in charge of the name recover a run.
func (r *Runner) recoverOnCurrent(ctx context.Context, run *invocation) (*invocation, error) {
	driver, err := r.cfg.Dispense(run.driver.Name())
	if err != nil {
		return nil, err
	}
	next := *run
	next.driver = driver
	handle, err := r.recoverTask(ctx, &next)
	if err != nil {
		driver.Release()
		return nil, err
	}
	if handle != nil {
		next.handle = handle
	}
	return &next, nil
}

// adopt puts a run that another driver recovered in the place of the running one.
func (r *Runner) adopt(next *invocation) {
	old := r.running()
	r.replace(next)
	old.driver.Release()
}

// handover moves a task to the version that replaces its driver, while it runs. If the
// new version does not recover the task, it stays with the old one. The zero value is one
// that did not begin.
type handover struct {
	recovered chan recovered // unbuffered: a run that is not received is given back
	cancel    context.CancelFunc
}

// recovered is a run that another driver recovered from an earlier form of it.
type recovered struct{ from, run *invocation }

func (h *handover) abandon() {
	if h.cancel != nil {
		h.cancel()
	}
}

// newHandover begins a handover. Its goroutine ends with it or with abandon.
func (r *Runner) newHandover() *handover {
	ctx, cancel := context.WithCancel(r.active)
	h := &handover{recovered: make(chan recovered), cancel: cancel}
	go func() {
		defer cancel()
		pause := newBackoff()
		for try := 1; try <= retries; try++ {
			from := r.running()
			if from == nil {
				return
			}
			next, err := r.recoverOnCurrent(ctx, from)
			if err == nil {
				select {
				case h.recovered <- recovered{from, next}:
				case <-ctx.Done():
					next.driver.Release()
				}
				return
			}
			r.logger.Warn("the driver's new version did not take the task", "error", err, "try", try)
			if !abi.IsRecoverable(err) || !sleep(ctx, pause.NextBackOff()) {
				return
			}
		}
	}()
	return h
}
