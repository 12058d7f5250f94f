package node

import (
	"context"
	"fmt"
	"time"

	"github.com/wasmnode/wasmnode/internal/hostinfo"
	"github.com/wasmnode/wasmnode/runners/alloc"
	"github.com/wasmnode/wasmnode/runners/allocdir"
	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/structs/errdefs"
	"github.com/wasmnode/wasmnode/workload"
)

// The texts of a task's event for a restart that a person asked for, with Nomad's words.
const (
	restartOne     = "User requested task to restart"
	restartRunning = "User requested running tasks to restart"
	restartAll     = "User requested all tasks to restart"
)

// runner finds an allocation's runner, or errdefs.NotFound; errdefs.Unavailable while it
// may yet be restored.
func (n *Node) runner(allocID string) (*alloc.Runner, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if e := n.runners[allocID]; e != nil {
		return e.runner, nil
	}
	if !n.restored {
		return nil, errdefs.NewRecoverable(errdefs.Unavailable, "allocation %q is not known yet: the node is restoring its allocations", allocID)
	}
	return nil, errdefs.New(errdefs.NotFound, "unknown allocation %q", allocID)
}

// RestartAllocation restarts one task, all that run (no task named), or every task.
func (n *Node) RestartAllocation(_ context.Context, allocID, task string, allTasks bool) error {
	r, err := n.runner(allocID)
	if err != nil {
		return err
	}
	switch {
	case allTasks:
		err = r.RestartAll(restartAll)
	case task != "":
		err = r.RestartTask(task, restartOne)
	default:
		err = r.RestartRunning(restartRunning)
	}
	return operationError(err)
}

// SignalAllocation sends a signal to one task, or to all that run.
func (n *Node) SignalAllocation(ctx context.Context, allocID, task, signal string) error {
	r, err := n.runner(allocID)
	if err != nil {
		return err
	}
	return operationError(r.Signal(ctx, task, signal, "User requested signal "+signal))
}

// CanExec returns why a command cannot be run in a task now; nil: it can be tried.
// errdefs.NotFound: no such allocation or task; errdefs.FailedPrecondition: the task does
// not run; errdefs.Unimplemented: its driver runs no commands; errdefs.PermissionDenied:
// commands are disabled.
func (n *Node) CanExec(allocID, task string) error {
	if n.cfg.NoExec {
		return errdefs.New(errdefs.PermissionDenied, "this node runs no commands in tasks: its configuration sets disable_remote_exec")
	}
	r, err := n.runner(allocID)
	if err != nil {
		return err
	}
	return operationError(r.CanExec(task))
}

// Exec runs a command in a task and returns how it ended. Errors are those of CanExec
// and the driver's.
func (n *Node) Exec(ctx context.Context, allocID, task string, spec *workload.ExecSpec) (*structs.ExitResult, error) {
	if err := n.CanExec(allocID, task); err != nil {
		return nil, err
	}
	r, err := n.runner(allocID)
	if err != nil {
		return nil, err
	}
	exit, err := r.Exec(ctx, task, spec)
	return exit, operationError(err)
}

// Allocation is an allocation that runs here or has ended here, as the control plane sent it;
// read-only.
func (n *Node) Allocation(allocID string) (*structs.Allocation, error) {
	r, err := n.runner(allocID)
	if err != nil {
		return nil, err
	}
	return r.Alloc(), nil
}

// AllocationState is what has become of an allocation here; read-only.
func (n *Node) AllocationState(allocID string) (*structs.AllocationState, error) {
	r, err := n.runner(allocID)
	if err != nil {
		return nil, err
	}
	return r.AllocState(), nil
}

// TaskEnd is a channel that is closed once a task has ended for good, or its allocation has; or
// once ctx is done.
func (n *Node) TaskEnd(ctx context.Context, allocID, task string) <-chan struct{} {
	ended := make(chan struct{})
	r, err := n.runner(allocID)
	if err != nil {
		close(ended)
		return ended
	}
	go func() {
		defer close(ended)
		states := r.Listener()
		defer states.Close()
		for s := r.AllocState(); s != nil && !s.TaskEnded(task); {
			select {
			case s = <-states.Ch(): // nil: the allocation has ended
			case <-ctx.Done():
				return
			}
		}
	}()
	return ended
}

// Directory is an allocation's directory.
func (n *Node) Directory(allocID string) (*allocdir.Dir, error) {
	r, err := n.runner(allocID)
	if err != nil {
		return nil, err
	}
	return r.AllocDir(), nil
}

// AllocationUsage is what the tasks of an allocation use now; one task's only when one is
// named. Those that could not be measured are left out, unless none could.
func (n *Node) AllocationUsage(ctx context.Context, allocID, task string) (*structs.AllocationUsage, error) {
	r, err := n.runner(allocID)
	if err != nil {
		return nil, err
	}
	usage, err := r.Usage(ctx, task)
	if err != nil && len(usage) == 0 {
		return nil, operationError(err)
	}
	out := &structs.AllocationUsage{Tasks: make(map[string]*structs.TaskUsage, len(usage)), Time: time.Now()}
	given, states := r.Alloc().Resources.Tasks, r.AllocState().TaskStates
	for name, m := range usage {
		u := n.taskUsage(m, states[name].StartedAt)
		if g := given[name]; g != nil {
			u.Devices = n.deviceStats(g.Devices)
		}
		out.Tasks[name] = u
	}
	return out, nil
}

// AllocationChecks are the newest results of the allocation's checks, by ID.
func (n *Node) AllocationChecks(allocID string) (map[string]structs.CheckResult, error) {
	r, err := n.runner(allocID)
	if err != nil {
		return nil, err
	}
	return r.CheckResults(), nil
}

// HostUsage is what the machine uses now.
func (n *Node) HostUsage() (*structs.HostUsage, error) {
	memory, err := hostinfo.ReadMemory()
	if err != nil {
		return nil, fmt.Errorf("memory: %w", err)
	}
	out := &structs.HostUsage{
		Memory:     structs.MemoryUsage(memory),
		Processors: n.hostCPU.measure(time.Now(), hostinfo.ReadTimes),
	}
	out.CPUMHz = cpuMHz(out.Processors, n.self.get().Resources.CPUMHz)
	if n.cfg.Devices != nil {
		out.Devices = n.cfg.Devices.AllStats()
	}
	if d, err := hostinfo.ReadDisk(n.cfg.AllocsDir); err == nil {
		out.AllocsDisk = &structs.DiskUsage{
			Path: n.cfg.AllocsDir, Size: d.Total, Used: d.Used, Available: d.Free, UsedPercent: d.UsedPercent, InodesUsedPercent: d.InodesUsedPercent,
		}
	}
	if uptime, err := hostinfo.Uptime(); err == nil {
		out.Uptime = uint64(uptime.Seconds())
	}
	return out, nil
}
