package alloc

import (
	"context"
	"errors"
	"fmt"

	"github.com/wasmnode/wasmnode/runners/task"
	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/workload"
)

// active is ErrNotRunning unless the allocation runs and is to go on.
func (r *Runner) active() error {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if r.alloc.ServerTerminal() || r.stopped != "" || r.state.ClientStatus.Terminal() || r.shuttingDown || r.destroying {
		return ErrNotRunning
	}
	return nil
}

// named returns the task of that name. Errors: ErrUnknownTask.
func (r *Runner) named(name string) (*task.Runner, error) {
	t := r.byName[name]
	if t == nil {
		return nil, fmt.Errorf("%w: %q", ErrUnknownTask, name)
	}
	return t, nil
}

// RestartTask restarts one running task, or ends its restart delay. It returns
// when the restart is under way. Errors: ErrUnknownTask, ErrNotRunning,
// [task.ErrNotRunning].
func (r *Runner) RestartTask(name, reason string) error {
	t, err := r.named(name)
	if err != nil {
		return err
	}
	if err := r.active(); err != nil {
		return err
	}
	return t.Restart(task.RestartRequest{Reason: reason})
}

// RestartRunning restarts the tasks that run and ends the delay of those that
// wait for their restart.
func (r *Runner) RestartRunning(reason string) error {
	return r.restartEach(task.RestartRequest{Reason: reason})
}

// RestartAll restarts every task, those that have ended too, in the order of their life
// cycle.
func (r *Runner) RestartAll(reason string) error {
	if err := r.active(); err != nil {
		return err
	}
	r.order.restart()
	defer r.wake.Set()
	return r.restartEach(task.RestartRequest{Reason: reason, Force: true})
}

func (r *Runner) restartEach(req task.RestartRequest) error {
	if err := r.active(); err != nil {
		return err
	}
	var errs []error
	for _, t := range r.group {
		if stageOf(t) == poststop {
			continue
		}
		if err := r.byName[t.Name].Restart(req); err != nil && !errors.Is(err, task.ErrNotRunning) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Signal sends a signal, by name ("SIGHUP" or "HUP"), to one task, or to all that run
// when name is empty. An unknown signal is an error and sends nothing.
func (r *Runner) Signal(ctx context.Context, name, signal, reason string) error {
	if _, err := task.ParseSignal(signal); err != nil {
		return err
	}
	if err := r.active(); err != nil {
		return err
	}
	if name != "" {
		t, err := r.named(name)
		if err != nil {
			return err
		}
		return t.Signal(ctx, signal, reason)
	}
	var errs []error
	sent := false
	for _, t := range r.tasks {
		err := t.Signal(ctx, signal, reason)
		sent = sent || err == nil
		if err != nil && !errors.Is(err, task.ErrNotRunning) {
			errs = append(errs, fmt.Errorf("failed to signal task %q: %w", t.Name(), err))
		}
	}
	if !sent && errs == nil {
		return task.ErrNotRunning
	}
	return errors.Join(errs...)
}

// Exec runs a command in a task, as [task.Runner.Exec] does. Errors: ErrUnknownTask.
func (r *Runner) Exec(ctx context.Context, name string, spec *workload.ExecSpec) (*structs.ExitResult, error) {
	t, err := r.named(name)
	if err != nil {
		return nil, err
	}
	return t.Exec(ctx, spec)
}

// CanExec returns why a command cannot be run in a task now; nil: it can be tried.
func (r *Runner) CanExec(name string) error {
	t, err := r.named(name)
	if err != nil {
		return err
	}
	return t.CanExec()
}

// Usage is what the running tasks use now, with the measurements before; one task's, or
// all when name is empty. Tasks that do not run are left out, and those that could not be
// measured are in the error. Errors: ErrUnknownTask.
func (r *Runner) Usage(ctx context.Context, name string) (map[string]task.Usage, error) {
	tasks := r.tasks
	if name != "" {
		t, err := r.named(name)
		if err != nil {
			return nil, err
		}
		tasks = []*task.Runner{t}
	}
	out := map[string]task.Usage{}
	var errs []error
	for _, t := range tasks {
		u, err := t.Stats(ctx)
		switch {
		case err == nil:
			out[t.Name()] = u
		case !errors.Is(err, task.ErrNotRunning):
			errs = append(errs, fmt.Errorf("task %q: %w", t.Name(), err))
		}
	}
	return out, errors.Join(errs...)
}

// Reconnected records that the control plane is reachable again, on every task of an allocation that
// has not ended.
func (r *Runner) Reconnected() {
	if r.active() != nil {
		return
	}
	for _, t := range r.tasks {
		t.Emit(structs.NewTaskEvent(structs.EventReconnected))
	}
}
