package task

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/internal/tracing"
	"github.com/wasmnode/wasmnode/runners/allocdir"
	"github.com/wasmnode/wasmnode/runners/taskenv"
	"github.com/wasmnode/wasmnode/state"
	"github.com/wasmnode/wasmnode/structs"
)

// DevicesHook is the name of the hook whose variables the driver gets as the
// devices' too.
const DevicesHook = "devices"

// Hook is a step of a task's life cycle. It implements those of the interfaces below that it
// needs. Its methods are called by the task's own goroutine, one at a time, and have
// to return soon after their context is done.
type Hook interface {
	// Name is unique among a task's hooks and does not change between versions:
	// what the hook left is stored under it.
	Name() string
}

// PrestartHook prepares the task, before each start. The context ends when the task is
// killed or the agent stops. An error is left to the restart policy: declare that it is
// recoverable (abi.Error) if trying again can help. A [HookError] brings its own event.
// A result next to an error is kept, for the hook to go on from.
type PrestartHook interface {
	Hook
	Prestart(ctx context.Context, req *PrestartRequest) (*PrestartResult, error)
}

// RepeatedHook is a prestart hook that may have to run again although it is done, since what it left in
// memory may have gone.
type RepeatedHook interface {
	PrestartHook
	Repeats(req *PrestartRequest) bool
}

// PoststartHook runs after each start, and after a task was found running that an
// earlier agent started. Errors are events only.
type PoststartHook interface {
	Hook
	Poststart(ctx context.Context, req *PoststartRequest) error
}

// PreKillHook runs before a running task is stopped.
type PreKillHook interface {
	Hook
	PreKill(ctx context.Context) error
}

// ExitedHook runs after each end of the task. It may run when Prestart has not.
type ExitedHook interface {
	Hook
	Exited(ctx context.Context) error
}

// UpdateHook gets the control plane's changes while the task runs.
type UpdateHook interface {
	Hook
	Update(ctx context.Context, alloc *structs.Allocation, task *nomad.Task) error
}

// StopHook runs when the task has ended for good: the only one that is sure to, agent
// shutdowns apart. It is idempotent, and may run when nothing else has.
type StopHook interface {
	Hook
	Stop(ctx context.Context) error
}

// ShutdownHook runs when the agent stops and the task goes on.
type ShutdownHook interface {
	Hook
	Shutdown()
}

// PrestartRequest is what a prestart hook is given. Everything in it is read-only.
type PrestartRequest struct {
	Node      *structs.Node
	Alloc     *structs.Allocation
	Task      *nomad.Task
	Resources *structs.TaskResources
	Isolated  bool // the task has a file system of its own, in which its driver mounts
	Dir       *allocdir.TaskDir
	Env       *taskenv.Env
	// Previous is the Data that the hook left last time.
	Previous map[string]string
	// Emit adds an event to the task's.
	Emit func(*structs.TaskEvent)
	// Amend gives an event that was emitted another text. Each is a durable write.
	Amend func(e *structs.TaskEvent, text string)
}

// PrestartResult is what a prestart hook leaves. It is durable before the task starts.
type PrestartResult struct {
	// Done: the hook is not to run again, after an agent restart neither. Its Env,
	// Mounts and Devices stay in force.
	Done    bool
	Data    map[string]string
	Env     map[string]string
	Mounts  []structs.Mount
	Devices []structs.DeviceNode
}

// PoststartRequest is what a poststart hook is given.
type PoststartRequest struct {
	// Env makes the task's as it is now, with the address that its driver gave it, also for the
	// hook's other methods while the task runs. Few hooks need it, of few tasks.
	Env func() *taskenv.Env
	// Network is the address that the driver gave the task; nil: none.
	Network *wasmnodev1.DriverNetwork
	// Runner gives access to the running task.
	Runner *Runner
}

// HookError is a hook's error with the event that reports it.
type HookError struct {
	Event *structs.TaskEvent
	Err   error
}

// Error is the wrapped error's.
func (e *HookError) Error() string { return e.Err.Error() }

// Unwrap gives the cause, so that its recoverability is kept.
func (e *HookError) Unwrap() error { return e.Err }

// prestart runs the prestart hooks in order, up to the first that fails.
func (r *Runner) prestart(ctx context.Context, driver Driver, b *taskenv.Builder) error {
	alloc, task := r.current()
	for _, h := range r.hooks {
		hook, ok := h.(PrestartHook)
		if !ok {
			continue
		}
		left := r.local.Hooks[h.Name()]
		if left == nil {
			left = &state.HookState{}
		}
		repeated, repeats := h.(RepeatedHook)
		if left.Done && !repeats {
			r.applyEnv(b, h.Name(), left)
			continue
		}
		req := &PrestartRequest{
			Node: r.cfg.Node(), Alloc: alloc, Task: task, Resources: r.resources(alloc), Isolated: isolates(driver),
			Dir: r.cfg.Dir, Env: b.Build(), Previous: maps.Clone(left.Data), Emit: r.emit, Amend: r.amend,
		}
		if left.Done && !repeated.Repeats(req) {
			r.applyEnv(b, h.Name(), left)
			continue
		}
		under, end := tracing.Child(ctx, "hook "+h.Name())
		result, err := hook.Prestart(under, req)
		end(err)
		if err == nil || result != nil {
			r.keepResult(h.Name(), left, result)
		}
		if err != nil {
			if ctx.Err() == nil {
				r.emit(hookFailed(h.Name(), err))
			}
			return fmt.Errorf("prestart hook %q: %w", h.Name(), err)
		}
		r.applyEnv(b, h.Name(), r.local.Hooks[h.Name()])
	}
	return nil
}

// poststart runs the poststart hooks, whatever fails.
func (r *Runner) poststart() {
	req := &PoststartRequest{Env: r.startedEnv, Network: r.running().network, Runner: r}
	each(r, func(h PoststartHook) error {
		ctx, cancel := context.WithTimeout(r.active, r.limits.CallTimeout)
		defer cancel()
		return h.Poststart(ctx, req)
	})
}

// startedEnv is the running task's, with the address that its driver gave it.
func (r *Runner) startedEnv() *taskenv.Env {
	alloc, task := r.current()
	run := r.running()
	return r.hooksEnv(r.envBuilder(alloc, task, run.driver).SetNetwork(networkOf(run))).Build()
}

// renderEnv is what the running task's templates were rendered with: the driver's address
// was not known then, nor what they add themselves.
func (r *Runner) renderEnv() *taskenv.Env {
	alloc, task := r.current()
	return r.hooksEnv(r.envBuilder(alloc, task, r.running().driver)).SetTemplateEnv(nil).Build()
}

// hooksEnv adds what all hooks left.
func (r *Runner) hooksEnv(b *taskenv.Builder) *taskenv.Builder {
	for _, h := range r.hooks {
		if left := r.local.Hooks[h.Name()]; left != nil {
			r.applyEnv(b, h.Name(), left)
		}
	}
	return b
}

// keepResult records what a hook left. It is written together with the rest of the task's
// state, before the task starts: until then running the hook again does no harm.
func (r *Runner) keepResult(name string, before *state.HookState, result *PrestartResult) {
	after := &state.HookState{}
	if result != nil {
		after = &state.HookState{
			Done: result.Done, Data: result.Data, Env: result.Env,
			Mounts: result.Mounts, Devices: result.Devices,
		}
	}
	if reflect.DeepEqual(before, after) && r.local.Hooks[name] != nil {
		return
	}
	r.local.Hooks[name] = after
	r.unsaved = true
}

func (r *Runner) applyEnv(b *taskenv.Builder, name string, left *state.HookState) {
	if len(left.Env) == 0 {
		return
	}
	switch name {
	case DevicesHook:
		b.SetDeviceEnv(name, left.Env)
	case TemplatesHook:
		b.SetTemplateEnv(left.Env)
	default:
		b.SetHookEnv(name, left.Env)
	}
}

// hookFailed is the event of a hook's error: its own, or the common one.
func hookFailed(name string, err error) *structs.TaskEvent {
	var own *HookError
	if errors.As(err, &own) && own.Event != nil {
		return own.Event
	}
	return structs.NewTaskEvent(structs.EventHookFailed).WithMessage(name + ": " + err.Error())
}

// each runs one kind of hook, all of them, whatever fails.
func each[H Hook](r *Runner, run func(H) error) {
	for _, h := range r.hooks {
		hook, ok := h.(H)
		if !ok {
			continue
		}
		if err := run(hook); err != nil {
			r.logger.Warn("task hook failed", "hook", h.Name(), "error", err)
			r.emit(hookFailed(h.Name(), err))
		}
	}
}
