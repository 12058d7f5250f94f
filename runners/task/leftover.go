package task

import (
	"context"

	"github.com/wasmnode/wasmnode/abi"
)

// Finish ends what a runner left behind when the agent stopped, or what an earlier
// agent did when this runner never ran. It returns when nothing of the task is left, and
// is called when Run is not wanted any more.
func (r *Runner) Finish() {
	r.Kill(nil)
	r.Run() // if it never ran; else it has returned, or is about to
	<-r.waitCh
	r.abandon(context.Background())
}

// Settle waits until what was told of the task before is durable and shown by State.
func (r *Runner) Settle() { r.rec.drain() }

// Close ends the writing of the task's state: what is told of it from now on is not
// recorded, so that what is stored can be deleted and stays so. It is called when Run has
// returned.
func (r *Runner) Close() { r.rec.close() }

// abandon destroys a run that was never taken up again, if there is one: its task is
// not to run any more. Without its driver it cannot, and says so.
func (r *Runner) abandon(ctx context.Context) {
	if r.local.TaskID == "" {
		return
	}
	cfg, handle, err := r.stored()
	if err == nil {
		var driver Driver
		if driver, err = r.dispense(ctx, abi.IsRecoverable); err == nil {
			r.destroy(ctx, driver, cfg, handle)
			driver.Release()
		}
	}
	if err != nil {
		r.logger.Error("a run of the task may be left", "id", r.local.TaskID, "error", err)
		return
	}
	r.forget()
}
