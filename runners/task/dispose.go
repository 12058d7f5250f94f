package task

import (
	"context"
	"fmt"
	"time"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
)

// disposal is the destruction of what is left of a run. It goes on in a goroutine of its
// own, because a driver may take longer for it than a kill may take; Settle waits for it.
type disposal struct {
	of     string        // the run's ID
	driver Driver        // that it is done with, and given back then
	done   chan struct{} // closed when the driver has returned
	err    error         // what it returned; to be read when done is closed
	cancel context.CancelFunc
	until  time.Time // how long a kill waits; zero: no kill does yet
}

// failed reports whether the driver has returned and could not destroy.
func (d *disposal) failed() bool { return closed(d.done) && d.err != nil }

// beginDisposal has the driver destroy what is left of a run, and gives the driver back
// when it has returned. That ctx ends does not stop it: what is left has to go. A run whose
// disposal goes on is not disposed of twice: another driver that it comes with is given back at once.
func (r *Runner) beginDisposal(ctx context.Context, run *invocation) *disposal {
	if d := r.disposal; d != nil && d.of == run.config.GetId() && !d.failed() {
		if run.driver != d.driver {
			run.driver.Release()
		}
		return d
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.limits.CallTimeout)
	d := &disposal{of: run.config.GetId(), driver: run.driver, done: make(chan struct{}), cancel: cancel}
	r.disposal = d
	r.disposals.Go(func() {
		defer close(d.done)
		defer cancel()
		defer run.driver.Release()
		d.err = r.destroy(ctx, run.driver, run.config, run.handle)
	})
	return d
}

// dispose destroys what is left of a run, and waits for that: once the task is to be
// killed, for no longer than the kill may take. What is not done by then goes on, and is
// reported with the kill.
func (r *Runner) dispose(ctx context.Context, run *invocation) {
	d := r.beginDisposal(ctx, run)
	select {
	case <-d.done:
		return
	case <-r.killed.Done():
	}
	timer := time.NewTimer(time.Until(d.killedUntil(r.limits)))
	defer timer.Stop()
	select {
	case <-d.done:
	case <-timer.C:
		r.logger.Error("the driver does not return from destroying the task", "id", d.of)
		r.addKillError("the driver does not return from destroying it. Resources may have been leaked")
		context.AfterFunc(r.shutdown, d.cancel) //nolint:contextcheck // it outlives the call
	}
}

// killedUntil is how long a kill waits for the disposal. It is asked when one does.
func (d *disposal) killedUntil(l Limits) time.Time {
	if d.until.IsZero() {
		d.until = time.Now().Add(l.disposeGrace())
	}
	return d.until
}

// Settle waits for what a kill did not: drivers that still destroy what is left of the
// task. That ends with Limits.CallTimeout, or a second after Shutdown. It is called when
// Run has returned.
func (r *Runner) Settle() { r.disposals.Wait() }

// destroy has the driver forget a task and end what is left of it. What fails is logged.
func (r *Runner) destroy(ctx context.Context, driver Driver, cfg *wasmnodev1.TaskConfig, handle *wasmnodev1.TaskHandle) error {
	_, err := call(ctx, "destroy task", func(ctx context.Context) (struct{}, error) {
		return struct{}{}, driver.DestroyTask(ctx, cfg, handle, true)
	}, nil)
	if err == nil || abi.CodeOf(err) == abi.NotFound {
		return nil
	}
	r.logger.Warn("destroy task", "id", cfg.GetId(), "error", err)
	return fmt.Errorf("destroy task: %w", err)
}
