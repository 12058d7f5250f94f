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

// watch has the driver wait. The goroutine ends with the task or with cancel; one whose
// driver does not heed its context is left behind.
func watch(run *invocation) *waiter {
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

// patience is after how long of undisturbed waiting the earlier faults of a driver
// count no more.
const patience = time.Minute

// wait waits for the end of the task and obeys what others wish meanwhile.
func (r *Runner) wait(run *invocation) (*structs.ExitResult, outcome) {
	w := watch(run)
	defer func() { w.cancel() }()
	h := &handover{}
	defer func() { h.abandon() }()
	replaced := run.driver.Replaced()
	faults, since := 0, time.Now()
	for {
		select {
		case out := <-w.result:
			if out.err == nil {
				return out.exit, ended
			}
			if time.Since(since) > patience {
				faults = 0
			}
			since = time.Now()
			faults++
			if lost := r.refind(out.err, faults); lost != nil {
				return lost, ended
			}
		case <-r.killed.Done():
			return r.end(w)
		case <-r.shutdown.Done():
			return nil, departed
		case <-r.poke:
			if r.wished() {
				r.preKill()
				return r.stop(w)
			}
			continue
		case req := <-r.signals:
			before := r.running()
			r.sendSignal(before, req)
			if r.running() == before {
				continue
			}
		case <-r.updated:
			r.applyUpdate()
			continue
		case <-replaced:
			h, replaced = r.handover(), nil
			continue
		case taken := <-h.taken:
			if taken.from != r.running() {
				// A signal changed the handle under the new version's feet.
				taken.run.driver.Release()
				h = r.handover()
				continue
			}
			r.adopt(taken.run)
		}
		// The driver or the handle is another one.
		w.cancel()
		w = watch(r.running())
		if r.running().driver != run.driver {
			run = r.running()
			h.abandon()
			h, replaced = &handover{}, run.driver.Replaced()
		}
	}
}

// applyUpdate tells the hooks of a new version of the allocation.
func (r *Runner) applyUpdate() {
	alloc, task := r.current()
	each(r, func(h UpdateHook) error {
		ctx, cancel := context.WithTimeout(r.active, r.limits.CallTimeout)
		defer cancel()
		return h.Update(ctx, alloc, task)
	})
}

// refind handles a driver that failed at waiting: the task is not known to have ended,
// so the driver, perhaps a new version or instance of it, recovers it and waits again.
// When it cannot, the result says how the task was lost.
func (r *Runner) refind(cause error, faults int) (lost *structs.ExitResult) {
	r.logger.Warn("the driver failed at waiting for the task", "error", cause, "faults", faults)
	gone := abi.CodeOf(cause) == abi.NotFound
	for n := faults - 1; !gone && n < retries; n++ {
		if !sleep(r.active, backoff(n)) {
			return nil // a wish is waiting, and is obeyed first
		}
		next, err := r.takeUp(r.active, r.running())
		if err == nil {
			r.adopt(next)
			return nil
		}
		cause, gone = err, abi.CodeOf(err) == abi.NotFound
	}
	return &structs.ExitResult{Err: fmt.Sprintf("the driver lost the task: %v", cause)}
}

// takeUp has the driver that is now in charge of the name recover a run.
func (r *Runner) takeUp(ctx context.Context, run *invocation) (*invocation, error) {
	driver, err := r.cfg.Dispense(run.driver.Name())
	if err != nil {
		return nil, err
	}
	next := &invocation{driver: driver, config: run.config, handle: run.handle, done: run.done}
	handle, err := r.recoverTask(ctx, next)
	if err != nil {
		driver.Release()
		return nil, err
	}
	if handle != nil {
		next.handle = handle
	}
	return next, nil
}

// adopt puts a run that another driver took up in the place of the running one.
func (r *Runner) adopt(next *invocation) {
	old := r.running()
	r.setRunning(next)
	old.driver.Release()
	r.local.PluginDigest, r.unsaved = next.driver.PluginDigest(), true
	if err := r.keepHandle(next.handle, nil); err != nil {
		r.logger.Error("keep a recovered task's handle", "error", err)
	}
}

// handover moves a task to the version that replaces its driver, while it runs. If the
// new version does not take the task, it stays with the old one. The zero value is one
// that did not begin.
type handover struct {
	taken  chan takenUp // unbuffered: a run that nobody takes is given back
	cancel context.CancelFunc
}

// takenUp is a run that another driver recovered from an earlier form of it.
type takenUp struct{ from, run *invocation }

func (h *handover) abandon() {
	if h.cancel != nil {
		h.cancel()
	}
}

// handover begins one. Its goroutine ends with it or with abandon.
func (r *Runner) handover() *handover {
	ctx, cancel := context.WithCancel(r.active)
	h := &handover{taken: make(chan takenUp), cancel: cancel}
	go func() {
		defer cancel()
		for n := 0; n < retries; n++ {
			from := r.running()
			if from == nil {
				return
			}
			next, err := r.takeUp(ctx, from)
			if err == nil {
				select {
				case h.taken <- takenUp{from, next}:
				case <-ctx.Done():
					next.driver.Release()
				}
				return
			}
			r.logger.Warn("the driver's new version did not take the task", "error", err, "try", n+1)
			if !abi.IsRecoverable(err) || !sleep(ctx, backoff(n)) {
				return
			}
		}
	}()
	return h
}
