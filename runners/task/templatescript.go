package task

import (
	"context"
	"errors"
	"fmt"

	"github.com/wasmnode/wasmnode/runners/template"
	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/workload"
)

// firstScripts are those that are run when the task has started for the first time.
func firstScripts(all []*rendered) (scripts []*template.Script) {
	for _, t := range all {
		if t.Script != nil && t.Script.FirstRender {
			scripts = append(scripts, t.Script)
		}
	}
	return scripts
}

// wakeScripts has scripts run in the task, each once more when it runs already. Nobody waits for
// them: other templates go on.
func (w *templateWatch) wakeScripts(scripts []*template.Script) {
	for _, s := range scripts {
		select {
		case w.scripts[s] <- struct{}{}:
		default:
		}
	}
}

// runWhenWoken runs a script, one run after the other, until ctx ends.
func (w *templateWatch) runWhenWoken(ctx context.Context, s *template.Script, wake <-chan struct{}) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-wake:
			n, changed := w.told.get(s)
			if w.runScript(ctx, s) && changed {
				w.r.note(ctx, n)
			}
		}
	}
}

// runScript runs a script, and tells how it went, with Nomad's texts. What it writes is dropped, and
// a script that ends with its task has failed, as there. It reports whether the script has ended.
func (w *templateWatch) runScript(ctx context.Context, s *template.Script) (ended bool) {
	timed, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	exit, err := w.r.Exec(timed, &workload.ExecSpec{Command: s.Command, Args: s.Args})
	failed := ""
	switch {
	case ctx.Err() != nil || w.r.active.Err() != nil || errors.Is(err, ErrNotRunning):
		return false // the task is to end, or the agent is: that is no fault of the script
	case err != nil && timed.Err() != nil:
		failed = fmt.Sprintf("Template failed to run script %s with arguments %s on change: it has not ended within %v", s.Command, s.Args, s.Timeout)
	case err != nil:
		failed = fmt.Sprintf("Template failed to run script %s with arguments %s on change: %v", s.Command, s.Args, err)
	case !exit.Successful():
		failed = fmt.Sprintf("Template ran script %s with arguments %s on change but it exited with code: %d", s.Command, s.Args, exit.ExitCode)
	default:
		w.r.emit(structs.NewTaskEvent(structs.EventHookMessage).
			WithMessage(fmt.Sprintf("Template successfully ran script %s with arguments: %s. Exit code: 0", s.Command, s.Args)))
		return true
	}
	w.r.emit(structs.NewTaskEvent(structs.EventHookFailed).WithMessage(failed))
	if s.FailOnError {
		w.r.Kill(structs.NewTaskEvent(structs.EventKilling).Fails().WithKillReason("Template script failed, task is being killed"))
	}
	return true
}
