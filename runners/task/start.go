package task

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"go.opentelemetry.io/otel/attribute"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/internal/tracing"
	"github.com/wasmnode/wasmnode/runners/taskenv"
	"github.com/wasmnode/wasmnode/structs"
)

// startGrace is what a driver that is starting a task gets to finish when the agent
// stops, so that the task can be found again.
const startGrace = 5 * time.Second

// start prepares the task and has its driver start it.
func (r *Runner) start() error {
	alloc, task := r.current()
	ctx, end := r.cfg.Traces.Begin(r.active, alloc.EvalID, "start task",
		attribute.String("job", alloc.JobID), attribute.String("namespace", alloc.Namespace), attribute.String("alloc_id", alloc.ID),
		attribute.String("task", task.Name), attribute.String("driver", task.Driver))
	err := r.startIn(ctx)
	end(err)
	return err
}

// startIn is start, with the context of the start's trace.
func (r *Runner) startIn(ctx context.Context) error {
	r.waiting = false
	driver, err := r.dispense(ctx, abi.IsRecoverable)
	if err != nil {
		return r.startFailed(structs.EventDriverFailure, err)
	}
	unused := true // the driver is still to be given back
	defer func() {
		if unused {
			driver.Release()
		}
	}()
	alloc, task := r.current()
	b := r.envBuilder(alloc, task, driver)
	if err := r.prestart(ctx, driver, b); err != nil {
		return err
	}
	cfg, err := r.config(alloc, task, b.Build(), driver)
	if err != nil {
		return r.startFailed(structs.EventFailedValidation, err)
	}
	// Durable before the driver gets it: whatever it starts under this ID can be found
	// and ended, also when the agent dies the next moment.
	if err := r.storeStart(driver, cfg); err != nil {
		return r.startFailed(structs.EventSetupFailure, err)
	}
	run := &invocation{driver: driver, config: cfg, done: make(chan struct{})}
	unused = false
	run.handle, run.network, err = r.startTask(ctx, run)
	if err == nil {
		err = r.keepHandle(run)
	}
	if err != nil {
		// Whatever was started in spite of the error ends here.
		run.handle = handleOrID(cfg, run.handle)
		r.dispose(r.shutdown, run) //nolint:contextcheck // it goes on when the start is over
		r.forget()
		return r.startFailed(structs.EventDriverFailure, err)
	}
	r.setRunning(run)
	r.started() //nolint:contextcheck // likewise
	return nil
}

// startFailed emits the event of a start that failed, unless it was interrupted.
func (r *Runner) startFailed(event string, err error) error {
	if r.active.Err() == nil {
		r.emit(failureEvent(event, err))
	}
	return err
}

// failureEvent is the event of an error. Of one that is a plugin's fault it has all that is
// known of it, and where to read more.
func failureEvent(event string, err error) *structs.TaskEvent {
	e := structs.NewTaskEvent(event).WithMessage(err.Error())
	var fault interface{ FaultDetails() map[string]string }
	if errors.As(err, &fault) {
		for key, value := range fault.FaultDetails() {
			e.WithDetail(key, value)
		}
		e.WithMessage(fmt.Sprintf("%v (see wasmnode plugin logs %s)", err, e.Details["plugin"]))
	}
	return e
}

type started struct {
	handle  *wasmnodev1.TaskHandle
	network *wasmnodev1.DriverNetwork
}

// startTask calls the driver. A kill interrupts it at once, the end of the agent only
// after a grace: a start that was finished can be recovered.
func (r *Runner) startTask(traced context.Context, run *invocation) (*wasmnodev1.TaskHandle, *wasmnodev1.DriverNetwork, error) {
	ctx, cancel := context.WithTimeout(tracing.Below(r.killed, traced), r.limits.StartTimeout)
	defer cancel()
	leaving := context.AfterFunc(r.shutdown, func() { //nolint:contextcheck // it is of the agent
		if sleep(ctx, startGrace) {
			cancel()
		}
	})
	defer leaving()
	driver, cfg := run.driver, run.config
	r.tellSecrets(run)
	s, err := call(ctx, "start task", func(ctx context.Context) (started, error) {
		h, n, err := driver.StartTask(ctx, cfg, r.driverEvent)
		if err == nil && h == nil {
			err = errors.New("start task: the driver gave no handle")
		}
		return started{h, n}, err
	}, func(s started, _ error) { //nolint:contextcheck // it comes when the start is over
		late, done := context.WithTimeout(context.Background(), r.limits.CallTimeout)
		defer done()
		_ = r.destroy(late, driver, cfg, handleOrID(cfg, s.handle)) // it is logged
	})
	return s.handle, s.network, err
}

// handleOrID is the handle to destroy what a start without a handle may have left: the
// host's workloads are known by the task's ID.
func handleOrID(cfg *wasmnodev1.TaskConfig, h *wasmnodev1.TaskHandle) *wasmnodev1.TaskHandle {
	if h != nil {
		return h
	}
	return &wasmnodev1.TaskHandle{Version: 1, WorkloadId: cfg.GetId()}
}

// storeStart makes the coming invocation durable, with what the hooks left.
func (r *Runner) storeStart(driver Driver, cfg *wasmnodev1.TaskConfig) error {
	data, err := cfg.MarshalVT()
	if err != nil {
		return fmt.Errorf("encode the task's configuration: %w", err)
	}
	r.local.TaskID, r.local.Config, r.local.Handle, r.local.Network, r.local.Lost = cfg.GetId(), data, nil, nil, false
	r.local.Driver, r.local.PluginDigest = driver.Name(), driver.PluginDigest()
	r.unsaved = true
	return recoverable(r.inRoom(r.save))
}

// recoverable makes an error one that the restart policy may try again.
func recoverable(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w", abi.NewRecoverableError(abi.Unavailable, err.Error()))
}

// storeHandle makes a run's handle durable, and which plugin it is of. It is the only
// place that does. A task that could not be found again after an agent restart must not
// run.
func (r *Runner) storeHandle(run *invocation) error {
	handle, err := run.handle.MarshalVT()
	if err != nil {
		return fmt.Errorf("encode the task's handle: %w", err)
	}
	if run.network != nil {
		if r.local.Network, err = run.network.MarshalVT(); err != nil {
			return fmt.Errorf("encode the driver's network: %w", err)
		}
	}
	r.local.Handle, r.local.PluginDigest, r.unsaved = handle, run.driver.PluginDigest(), true
	return r.save()
}

// started reports that the task runs, unless its kill was announced meanwhile.
func (r *Runner) started() {
	r.rec.update(func(s *status) bool {
		s.killErr = nil
		s.state.Enter(structs.TaskRunning, time.Now())
		if !s.killing {
			s.state.Append(structs.NewTaskEvent(structs.EventStarted))
		}
		return true
	})
	r.poststart()
}

// dispense gets the task's driver. One that is restarting or not there is waited for, for a
// bounded time, which begins when no plugin that may be it is being loaded: loading all of
// them takes a slow machine longer. Worth decides which errors are worth that.
func (r *Runner) dispense(ctx context.Context, worth func(error) bool) (Driver, error) {
	_, task := r.current()
	deadline := time.Now().Add(r.limits.DriverWait)
	pause := newBackoff()
	for first := true; ; first = false {
		driver, err := r.cfg.Dispense(task.Driver)
		if err == nil {
			return driver, nil
		}
		if IsLoading(err) {
			deadline = time.Now().Add(r.limits.DriverWait)
		}
		left := time.Until(deadline)
		if !worth(err) || left <= 0 {
			return nil, err
		}
		if first {
			r.emitWaiting(structs.NewTaskEvent(structs.EventDriver).WithMessage(fmt.Sprintf("Waiting for driver %q: %v", task.Driver, err)))
		}
		if !sleep(ctx, min(pause.NextBackOff(), left)) {
			return nil, err
		}
	}
}

// IsLoading reports whether an error of [Dispense] says that plugins are being loaded.
func IsLoading(err error) bool {
	var loading interface{ Loading() bool }
	return errors.As(err, &loading) && loading.Loading()
}

// emitWaiting adds the event that the task's driver is waited for, once in a wait.
func (r *Runner) emitWaiting(e *structs.TaskEvent) {
	if !r.waiting {
		r.waiting = true
		r.emit(e)
	}
}

// anyError is worth waiting: somewhere there is a task that only this driver can find.
func anyError(error) bool { return true }

// newTaskID is unique per invocation: the allocation, the task and a piece of a fresh
// UUID's randomness.
func newTaskID(allocID, task string) string {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	return allocID + "/" + task + "/" + hex.EncodeToString(b[:])
}

// envBuilder has all of the environment but the hooks' part and the driver's address.
func (r *Runner) envBuilder(alloc *structs.Allocation, task *nomad.Task, driver Driver) *taskenv.Builder {
	b := taskenv.NewBuilder(r.cfg.Node(), alloc, task).SetDirs(r.dirs(driver)).SetAllocNetwork(r.ownNetwork())
	if driver.RunsProcesses() {
		b.SetHostEnv(r.hostEnv(task, driver.Capabilities().GetFilesystemIsolation()))
	}
	return b
}

// personal are the variables that tell who somebody is and where they are at home.
var personal = []string{"HOME", "LOGNAME", "USER"}

// hostEnv is what the task has of the machine's environment. One in an image of its own has
// nothing of it. A task that runs as somebody else is not told who the agent is.
func (r *Runner) hostEnv(task *nomad.Task, isolation wasmnodev1.FilesystemIsolation) map[string]string {
	switch {
	case isolation == wasmnodev1.FilesystemIsolation_FILESYSTEM_ISOLATION_IMAGE:
		return nil
	case task.User == "" && isolation != wasmnodev1.FilesystemIsolation_FILESYSTEM_ISOLATION_CHROOT:
		return r.cfg.HostEnv
	}
	env := maps.Clone(r.cfg.HostEnv)
	maps.DeleteFunc(env, func(name, _ string) bool { return slices.Contains(personal, name) })
	return env
}

// networkOf is the address that the driver gave a run; nil: none.
func networkOf(run *invocation) *taskenv.Network {
	if run.network == nil {
		return nil
	}
	ports := make(map[string]int, len(run.network.GetPortMap()))
	for label, port := range run.network.GetPortMap() {
		ports[label] = int(port)
	}
	return &taskenv.Network{IP: run.network.GetIp(), PortMap: ports}
}

// dirs is what the task sees of its directories.
func (r *Runner) dirs(driver Driver) taskenv.Dirs {
	if isolates(driver) {
		return taskenv.IsolatedDirs
	}
	d := r.cfg.Dir
	return taskenv.Dirs{Alloc: d.Alloc.Shared(), Task: d.Local, Secrets: d.Secrets}
}

// isolates reports whether a driver's tasks have a file system of their own.
func isolates(driver Driver) bool {
	switch driver.Capabilities().GetFilesystemIsolation() {
	case wasmnodev1.FilesystemIsolation_FILESYSTEM_ISOLATION_CHROOT,
		wasmnodev1.FilesystemIsolation_FILESYSTEM_ISOLATION_IMAGE:
		return true
	}
	return false
}

// mounts and devices are what all hooks asked for, also those that are done and did not
// run this time.
func (r *Runner) mounts() (mounts []*wasmnodev1.Mount, devices []*wasmnodev1.DeviceNode) {
	for _, h := range r.hooks {
		left := r.local.Hooks[h.Name()]
		if left == nil {
			continue
		}
		mounts = append(mounts, protoMounts(left.Mounts)...)
		devices = append(devices, protoDevices(left.Devices)...)
	}
	return mounts, devices
}

func protoMounts(mounts []structs.Mount) []*wasmnodev1.Mount {
	out := make([]*wasmnodev1.Mount, 0, len(mounts))
	for _, m := range mounts {
		out = append(out, &wasmnodev1.Mount{TaskPath: m.TaskPath, HostPath: m.HostPath, ReadOnly: m.ReadOnly})
	}
	return out
}

func protoDevices(devices []structs.DeviceNode) []*wasmnodev1.DeviceNode {
	out := make([]*wasmnodev1.DeviceNode, 0, len(devices))
	for _, d := range devices {
		out = append(out, &wasmnodev1.DeviceNode{TaskPath: d.TaskPath, HostPath: d.HostPath, Permissions: d.Permissions})
	}
	return out
}
