package drivers

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/managers/catalog"
	"github.com/wasmnode/wasmnode/workload"
)

// Deadlines of the calls that are about a task; waiting has none but its context.
const (
	startDeadline   = 15 * time.Minute // some drivers fetch what they start
	recoverDeadline = 30 * time.Second
	signalDeadline  = 10 * time.Second
	destroyDeadline = 30 * time.Second
	statsDeadline   = 5 * time.Second
	// stopGrace is what a driver gets beyond the time that the task has to end by
	// itself.
	stopGrace = 10 * time.Second
)

// maxDriverStateBytes bounds the driver's state in a task handle, which is written
// to disk with each change.
const maxDriverStateBytes = 64 << 10

// Driver is one version of a driver, as tasks use it. It keeps that version loaded
// until it is released. Its methods may be called concurrently, and none after
// Release.
//
// # Errors
//
// What the driver answered is in the chain as an abi.Error. A fault of the guest
// while it handled a task is an abi.Error too: UNAVAILABLE and recoverable the first
// time, INTERNAL and final from the task's second fault on.
//
// A driver in quarantine is not called: UNAVAILABLE and recoverable.
//
// An operation that the driver does not have, or answers with UNIMPLEMENTED, is done
// by the host where the task has a workload, and UNIMPLEMENTED elsewhere; only
// destroying is then done already.
type Driver struct {
	plugin   *plugin
	released atomic.Bool
}

// Name returns the driver's name.
func (d *Driver) Name() string { return d.plugin.Name() }

// PluginDigest returns the SHA-256 of the plugin's file, in hexadecimal.
func (d *Driver) PluginDigest() string { return d.plugin.Digest() }

// Capabilities returns what the driver can do; read-only.
func (d *Driver) Capabilities() *wasmnodev1.DriverCapabilities {
	if c := d.plugin.Plugin().Description().GetCapabilities(); c != nil {
		return c
	}
	return &wasmnodev1.DriverCapabilities{}
}

// RunsProcesses reports whether the driver may start processes of the machine.
func (d *Driver) RunsProcesses() bool {
	return d.plugin.Plugin().Spec().Links(abi.ModuleProcess, abi.FuncProcessStart)
}

// DecodeConfig checks a job file's `config` block against the driver's schema and
// returns it as JSON with defaults applied. A *configschema.FaultsError lists every fault
// with its path.
func (d *Driver) DecodeConfig(config map[string]any) ([]byte, error) {
	return d.plugin.taskSchema.CheckJSON("config", config)
}

// Replaced is closed when another version has taken over the driver's name.
func (d *Driver) Replaced() <-chan struct{} { return d.plugin.Replaced() }

// Release gives the driver back. Only the first call counts.
func (d *Driver) Release() {
	if d.released.CompareAndSwap(false, true) {
		d.plugin.Release()
	}
}

// StartTask starts a task, each time within a quarter of an hour. After an error nothing of the task
// is left. Events takes what the driver reports of the task, in this call and in later ones;
// it must not block. Nil: they are refused with an error to the driver.
//
// A start that the supervisor of workloads does not answer, as when it has died and with it what was started, is made
// once more, as Nomad does when a plugin ends.
func (d *Driver) StartTask(ctx context.Context, cfg *wasmnodev1.TaskConfig, events func(*wasmnodev1.TaskEvent)) (*wasmnodev1.TaskHandle, *wasmnodev1.DriverNetwork, error) {
	h, n, lost, err := d.startTask(ctx, cfg, events)
	if err != nil && lost && ctx.Err() == nil {
		d.plugin.Logger().Warn("a task is started once more: the supervisor of workloads did not answer its start", "task_id", cfg.GetId())
		h, n, _, err = d.startTask(ctx, cfg, events)
	}
	return h, n, err
}

// startTask is StartTask, once. Lost: the supervisor did not answer, and nothing of the task is left.
func (d *Driver) startTask(ctx context.Context, cfg *wasmnodev1.TaskConfig, events func(*wasmnodev1.TaskEvent)) (_ *wasmnodev1.TaskHandle, _ *wasmnodev1.DriverNetwork, lost bool, err error) {
	if err := d.plugin.Usable(); err != nil {
		return nil, nil, false, err
	}
	t := d.tasks().of(cfg)
	t.listen(d.Name(), events)
	answer := &wasmnodev1.DriverStartTaskResponse{}
	var did host.Started
	err = d.call(ctx, t, nil, startDeadline, host.Call{
		Op: abi.OpDriverStartTask, Task: cfg, Request: &wasmnodev1.DriverStartTaskRequest{Task: cfg}, Answer: answer, Started: &did,
	})
	if err == nil {
		err = d.checkStarted(ctx, cfg, answer.Handle, did)
	}
	if err != nil {
		// A workload without a handle must not stay.
		destroyErr := d.workloads().Destroy(context.WithoutCancel(ctx), cfg.GetId())
		if destroyErr != nil {
			d.plugin.Logger().Error("a workload of a task that did not start is left over", "task_id", cfg.GetId(), "error", destroyErr)
		}
		d.tasks().forget(cfg.GetId())
		return nil, nil, did.Lost && destroyErr == nil, err
	}
	return t.update(nil, answer.Handle), answer.Network, false, nil
}

// checkStarted checks a handle, and that it names the workload if the call started one.
// A workload that the call did not start is asked for.
func (d *Driver) checkStarted(ctx context.Context, cfg *wasmnodev1.TaskConfig, h *wasmnodev1.TaskHandle, did host.Started) error {
	if h == nil {
		return d.badAnswer(abi.OpDriverStartTask, "no handle")
	}
	if err := d.checkHandle(abi.OpDriverStartTask, cfg, h); err != nil {
		return err
	}
	switch {
	case did.Own && h.WorkloadId == "":
		return d.badAnswer(abi.OpDriverStartTask, "a handle without the workload that it started")
	case did.Named && h.WorkloadId == "":
		return d.badAnswer(abi.OpDriverStartTask, "a handle without a workload of the task's own, beside which it started others: they end with that")
	case did.Own || h.WorkloadId == "":
		return nil
	}
	_, err := d.workloads().Inspect(ctx, h.WorkloadId)
	if errors.Is(err, abi.ErrTaskNotFound) {
		// The supervisor may have died since, and the workload with it.
		return abi.NewRecoverableError(abi.Unavailable, fmt.Sprintf("driver %s: the workload that %s answered is not there: the driver did not start it, or it was lost", d.Name(), abi.OpDriverStartTask))
	}
	return err
}

// checkHandle checks a handle that the driver answered.
func (d *Driver) checkHandle(op string, cfg *wasmnodev1.TaskConfig, h *wasmnodev1.TaskHandle) error {
	switch {
	case h.Version == 0:
		return d.badAnswer(op, "a handle of version 0")
	case len(h.DriverState) > maxDriverStateBytes:
		return d.badAnswer(op, fmt.Sprintf("a handle with %d bytes of driver state, the limit is %d", len(h.DriverState), maxDriverStateBytes))
	case h.WorkloadId != "" && h.WorkloadId != cfg.GetId():
		return d.badAnswer(op, fmt.Sprintf("a handle with the workload %q, which is not this task's", catalog.Printable(h.WorkloadId)))
	}
	return nil
}

func (d *Driver) badAnswer(op, what string) error {
	return abi.NewError(abi.Internal, fmt.Sprintf("driver %s: %s answered %s", d.Name(), op, what))
}

// RecoverTask takes over a task that another version, or this one before the agent
// was restarted, has started, and returns the handle to use from now on. NOT_FOUND:
// the task is no more. Events is that of StartTask.
func (d *Driver) RecoverTask(ctx context.Context, cfg *wasmnodev1.TaskConfig, h *wasmnodev1.TaskHandle, events func(*wasmnodev1.TaskEvent)) (*wasmnodev1.TaskHandle, error) {
	if err := d.checkArguments(cfg, h); err != nil {
		return nil, err
	}
	if h.WorkloadId != "" {
		if _, err := d.workloads().Inspect(ctx, h.WorkloadId); err != nil {
			return nil, err
		}
	}
	known := d.tasks().get(cfg.GetId()) != nil
	t := d.tasks().of(cfg)
	t.listen(d.Name(), events)
	answer := &wasmnodev1.DriverRecoverTaskResponse{}
	err := d.call(ctx, t, h, recoverDeadline, host.Call{Op: abi.OpDriverRecoverTask, Task: cfg, Request: &wasmnodev1.DriverRecoverTaskRequest{Task: cfg, Handle: h}, Answer: answer})
	if d.fallsToHost(err, h) {
		err = nil
	}
	if err == nil && answer.Handle != nil {
		err = d.checkHandle(abi.OpDriverRecoverTask, cfg, answer.Handle)
	}
	if err != nil {
		if !known {
			d.tasks().forget(cfg.GetId())
		}
		return nil, err
	}
	newest := answer.Handle
	if newest == nil {
		newest = h
	}
	return t.update(h, newest), nil
}

// SignalTask sends a signal to a task.
func (d *Driver) SignalTask(ctx context.Context, cfg *wasmnodev1.TaskConfig, h *wasmnodev1.TaskHandle, signal string) (*wasmnodev1.TaskHandle, error) {
	if err := d.checkArguments(cfg, h); err != nil {
		return nil, err
	}
	t := d.tasks().of(cfg)
	h, _ = t.current(h)
	defer t.notify()
	answer := &wasmnodev1.DriverSignalTaskResponse{}
	err := d.call(ctx, t, h, signalDeadline, host.Call{Op: abi.OpDriverSignalTask, Task: cfg, Request: &wasmnodev1.DriverSignalTaskRequest{TaskId: cfg.GetId(), Handle: h, Signal: signal}, Answer: answer})
	if d.fallsToHost(err, h) {
		err = d.workloads().Signal(ctx, h.WorkloadId, signal)
	}
	return d.checkRenewed(abi.OpDriverSignalTask, cfg, t, h, answer.Handle, err)
}

// checkRenewed checks and notes the handle that an operation may have answered.
func (d *Driver) checkRenewed(op string, cfg *wasmnodev1.TaskConfig, t *task, h, newest *wasmnodev1.TaskHandle, err error) (*wasmnodev1.TaskHandle, error) {
	if err == nil && newest != nil {
		err = d.checkHandle(op, cfg, newest)
	}
	if err != nil {
		return nil, err
	}
	return t.update(h, newest), nil
}

// KeepSecrets has the values of variables of a task's environment be secrets in all that the driver says of
// it, until the task is destroyed.
func (d *Driver) KeepSecrets(taskID string, variables []string) {
	d.plugin.Plugin().KeepSecrets(taskID, variables)
}

// DestroyTask frees what a task holds; a running one only when it is forced, else
// it is FAILED_PRECONDITION. The workload is destroyed even if the driver fails.
func (d *Driver) DestroyTask(ctx context.Context, cfg *wasmnodev1.TaskConfig, h *wasmnodev1.TaskHandle, force bool) error {
	if err := d.checkArguments(cfg, h); err != nil {
		return err
	}
	t := d.tasks().of(cfg)
	h, _ = t.current(h)
	if !force && h.WorkloadId != "" {
		if s, err := d.workloads().Inspect(ctx, h.WorkloadId); err == nil && s.State == workload.Running {
			return abi.NewError(abi.FailedPrecondition, "the task still runs")
		}
	}
	err := d.call(ctx, t, h, destroyDeadline, host.Call{Op: abi.OpDriverDestroyTask, Task: cfg, Request: &wasmnodev1.DriverDestroyTaskRequest{TaskId: cfg.GetId(), Handle: h, Force: force}, Answer: &wasmnodev1.DriverDestroyTaskResponse{}})
	if code := abi.CodeOf(err); code == abi.Unimplemented || code == abi.NotFound {
		err = nil // a driver that cannot forget a task holds nothing of it
	}
	if h.WorkloadId != "" {
		err = errors.Join(err, d.workloads().Destroy(ctx, h.WorkloadId))
	}
	if err == nil || force {
		t.notify()
		d.tasks().forget(cfg.GetId())
		d.KeepSecrets(cfg.GetId(), nil)
	}
	return err
}

// TaskStats returns what a task uses now.
func (d *Driver) TaskStats(ctx context.Context, cfg *wasmnodev1.TaskConfig, h *wasmnodev1.TaskHandle) (*wasmnodev1.TaskStats, error) {
	if err := d.checkArguments(cfg, h); err != nil {
		return nil, err
	}
	t := d.tasks().of(cfg)
	h, _ = t.current(h)
	answer := &wasmnodev1.DriverTaskStatsResponse{}
	err := d.call(ctx, t, h, statsDeadline, host.Call{Op: abi.OpDriverTaskStats, Task: cfg, Request: &wasmnodev1.DriverTaskStatsRequest{TaskId: cfg.GetId(), Handle: h}, Answer: answer})
	if d.fallsToHost(err, h) {
		s, err := d.workloads().Stats(ctx, h.WorkloadId)
		if err != nil {
			return nil, err
		}
		return host.StatsMessage(s), nil
	}
	if err != nil {
		return nil, err
	}
	if answer.Stats == nil {
		return nil, d.badAnswer(abi.OpDriverTaskStats, "no stats")
	}
	return answer.Stats, nil
}

// checkArguments checks what a caller hands over.
func (d *Driver) checkArguments(cfg *wasmnodev1.TaskConfig, h *wasmnodev1.TaskHandle) error {
	if h == nil {
		return abi.NewError(abi.InvalidArgument, "no task handle")
	}
	return d.checkHandle("the stored state", cfg, h)
}

func (d *Driver) tasks() *tasks { return &d.plugin.m.tasks }

func (d *Driver) workloads() Workloads { return d.plugin.m.cfg.Workloads }

// fallsToHost reports whether an operation that ended with err is the host's to do.
func (d *Driver) fallsToHost(err error, h *wasmnodev1.TaskHandle) bool {
	return h.GetWorkloadId() != "" && abi.CodeOf(err) == abi.Unimplemented
}

// leaves reports whether the driver leaves an operation to the host: it does not have it, or has
// answered so for a handle that, as this one, is nothing but a workload.
func (d *Driver) leaves(op string, h *wasmnodev1.TaskHandle) bool {
	if !d.plugin.Plugin().Has(op) {
		return true
	}
	_, left := d.plugin.left.Load(op)
	return left && isWorkload(h)
}

// isWorkload reports whether the driver knows nothing of a task but its workload.
func isWorkload(h *wasmnodev1.TaskHandle) bool {
	return h.GetWorkloadId() != "" && len(h.GetDriverState()) == 0
}

// call calls an operation about a task, with its handle where it has one, and counts a fault against
// the task.
func (d *Driver) call(ctx context.Context, t *task, h *wasmnodev1.TaskHandle, deadline time.Duration, c host.Call) error {
	c.Events = t.event
	if d.leaves(c.Op, h) {
		return abi.NewError(abi.Unimplemented, fmt.Sprintf("driver %s does not have %s", d.Name(), c.Op))
	}
	if err := d.plugin.Quarantined(); err != nil {
		return err
	}
	if deadline > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, deadline)
		defer cancel()
	}
	err := d.plugin.Plugin().Invoke(ctx, c)
	if d.fallsToHost(err, h) && isWorkload(h) {
		d.plugin.left.Store(c.Op, true)
	}
	return d.plugin.TaskError(c.Task.GetAllocId()+"/"+c.Task.GetName(), err)
}
