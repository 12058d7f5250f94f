package alloc

import (
	"context"
	"time"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/runners/registration"
	"github.com/wasmnode/wasmnode/runners/task"
	"github.com/wasmnode/wasmnode/runners/taskenv"
	"github.com/wasmnode/wasmnode/structs"
)

// deregisterWait bounds how long a kill waits until nobody finds the services any more: what is
// to end must not run on because the control plane cannot be reached.
const deregisterWait = 5 * time.Second

// servicesHook registers the group's services when the allocation is prepared, before its tasks
// start; the loop deregisters them before it kills them.
type servicesHook struct{ r *Runner }

func (servicesHook) name() string { return "group_services" }

func (h servicesHook) prerun(context.Context) error {
	states := h.r.states()
	if killCause(h.r.group, states) != nil || !anyAlive(states) {
		return nil // the earlier agent was about to end it
	}
	return h.r.registerGroup()
}

func (h servicesHook) postrun() error {
	if h.r.cfg.Services == nil {
		return nil
	}
	h.r.cfg.Services.Register(h.r.groupServices(), nil)
	return nil
}

func (r *Runner) groupServices() structs.ServiceOwner {
	a := r.Alloc()
	return structs.GroupServices(a.ID, a.TaskGroup)
}

// registerGroup registers the group's services as the job has them now.
func (r *Runner) registerGroup() error {
	if r.cfg.Services == nil {
		return nil
	}
	a, node, network := r.Alloc(), r.cfg.Node(), r.networkGiven()
	w := &registration.Workload{
		Node: node, Alloc: a, Network: network,
		Env: taskenv.NewBuilder(node, a, &nomad.Task{}).SetAllocNetwork(network).Build(),
	}
	list, err := w.Services()
	if err != nil {
		return err
	}
	r.cfg.Services.Register(w.Owner(), list)
	return nil
}

// clearServices has nothing registered of tasks that do not run: an earlier agent may have died
// before it could. It is called before the tasks' runners run.
func (r *Runner) clearServices() {
	if r.cfg.Services == nil {
		return
	}
	for _, t := range r.tasks {
		if t.State().State != structs.TaskRunning && t.RestoredRun() == "" {
			r.cfg.Services.Register(structs.TaskServices(r.cfg.Alloc.ID, t.Name()), nil)
		}
	}
}

// updateServices registers what an update has made of the group's services. What cannot be stays
// as it is.
func (l *loop) updateServices() {
	if err := l.r.registerGroup(); err != nil {
		l.r.logger.Error("the group's services stay registered as they were", "error", err)
	}
}

// beginDeregister has the group's services deregistered, and the loop woken when they are.
func (l *loop) beginDeregister() {
	r := l.r
	if r.cfg.Services == nil {
		return
	}
	l.deregistered = make(chan struct{})
	go func() {
		defer r.wake.Set()
		defer close(l.deregistered)
		ctx, cancel := context.WithTimeout(context.Background(), deregisterWait)
		defer cancel()
		if err := r.cfg.Services.Deregister(ctx, r.groupServices()); err != nil {
			r.logger.Warn("the group's services are still registered while its tasks end", "error", err)
		}
	}()
}

// isDeregistered reports whether the kill need not wait for the group's services any more.
func (l *loop) isDeregistered() bool {
	if l.deregistered == nil {
		return true
	}
	select {
	case <-l.deregistered:
		return true
	default:
		return false
	}
}

// awaitDeregistered waits for what beginDeregister has begun.
func (l *loop) awaitDeregistered() {
	if l.deregistered != nil {
		<-l.deregistered
	}
}

// taskHooks are the hooks that a task has because of its allocation.
func (r *Runner) taskHooks(name string) []task.Hook {
	if r.cfg.Services == nil {
		return nil
	}
	return []task.Hook{&taskServices{r: r, owner: structs.TaskServices(r.cfg.Alloc.ID, name)}}
}

// taskServices registers a task's services while it runs.
type taskServices struct {
	r       *Runner
	owner   structs.ServiceOwner
	started *task.PoststartRequest // nil: it does not run
}

func (*taskServices) Name() string { return "services" }

// Prestart implements [task.PrestartHook]. It fails a task whose services cannot be registered
// wherever it is reached, as Nomad does: once it runs, that would be an event only.
func (h *taskServices) Prestart(_ context.Context, req *task.PrestartRequest) (*task.PrestartResult, error) {
	w := &registration.Workload{Node: req.Node, Alloc: req.Alloc, Task: req.Task, Env: req.Env}
	if err := w.Check(); err != nil {
		return nil, &task.HookError{Event: structs.NewTaskEvent(structs.EventFailedValidation).WithMessage(err.Error()), Err: err}
	}
	return nil, nil
}

// Poststart implements [task.PoststartHook].
func (h *taskServices) Poststart(ctx context.Context, req *task.PoststartRequest) error {
	if ctx.Err() != nil {
		return nil // it is to end
	}
	h.started = req
	return h.register(h.r.Alloc(), req.Runner.Task())
}

// Update implements [task.UpdateHook].
func (h *taskServices) Update(_ context.Context, a *structs.Allocation, t *nomad.Task) error {
	if h.started == nil {
		return nil
	}
	return h.register(a, t)
}

func (h *taskServices) register(a *structs.Allocation, t *nomad.Task) error {
	w := &registration.Workload{Node: h.r.cfg.Node(), Alloc: a, Task: t, Network: h.r.networkGiven()}
	if len(t.Services) > 0 {
		w.Env = h.started.Env()
	}
	if n := h.started.Network; n != nil {
		w.Driver = &registration.DriverNetwork{IP: n.GetIp(), Ports: map[string]int{}, Advertise: n.GetAutoAdvertise()}
		for label, port := range n.GetPortMap() {
			w.Driver.Ports[label] = int(port)
		}
	}
	list, err := w.Services()
	if err != nil {
		return err
	}
	h.r.cfg.Services.Register(h.owner, list)
	return nil
}

// PreKill implements [task.PreKillHook].
func (h *taskServices) PreKill(ctx context.Context) error { return h.deregister(ctx) }

// Exited implements [task.ExitedHook].
func (h *taskServices) Exited(ctx context.Context) error { return h.deregister(ctx) }

// deregister waits no longer than a kill may: an error would be an event of the task, of which
// it is no fault.
func (h *taskServices) deregister(ctx context.Context) error {
	h.started = nil
	ctx, cancel := context.WithTimeout(ctx, deregisterWait)
	defer cancel()
	if err := h.r.cfg.Services.Deregister(ctx, h.owner); err != nil {
		h.r.logger.Warn("the task's services are still registered while it ends", "task", h.owner.Workload, "error", err)
	}
	return nil
}

// Stop implements [task.StopHook].
func (h *taskServices) Stop(context.Context) error {
	h.r.cfg.Services.Register(h.owner, nil)
	return nil
}
