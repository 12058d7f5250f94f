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
	if run := r.leftover(context.Background()); run != nil {
		<-r.beginDisposal(context.Background(), run).done
		r.forget()
	}
}

// Flush waits until what was reported of the task before is durable and shown by State.
func (r *Runner) Flush() { r.rec.drain() }

// Close ends the writing of the task's state: what is reported of it from now on is not
// recorded, so that what is stored can be deleted and stays so. It is called when Run has
// returned.
func (r *Runner) Close() { r.rec.close() }

// destroyLeftover destroys the run that is stored, if there is one: its task is not to
// run any more.
func (r *Runner) destroyLeftover(ctx context.Context) {
	if run := r.leftover(ctx); run != nil {
		r.dispose(ctx, run)
		r.forget()
	}
}

// leftover is the run that is stored, with its driver; nil: there is none, or it cannot
// be destroyed because its driver is missing, which is reported.
func (r *Runner) leftover(ctx context.Context) *invocation {
	if r.local.TaskID == "" {
		return nil
	}
	run, err := r.stored()
	if err == nil {
		run.driver, err = r.dispense(ctx, abi.IsRecoverable)
	}
	if err != nil {
		r.logger.Error("a run of the task may be left", "id", r.local.TaskID, "error", err)
		return nil
	}
	r.tellSecrets(run)
	return run
}
