package task

import "context"

// Finish ends what a runner left behind when the agent stopped, or what an earlier
// agent did when this runner never ran. It returns when nothing of the task is left, and
// is called when Run is not wanted any more.
func (r *Runner) Finish() {
	r.Kill(nil)
	r.Run() // if it never ran; else it has returned, or is about to
	<-r.waitCh
	if r.local.TaskID == "" {
		return
	}
	if run, err := r.recover(context.Background()); err == nil {
		r.dispose(run)
		run.driver.Release()
	}
	r.forget()
}
