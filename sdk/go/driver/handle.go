package driver

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
)

// Handle performs one operation of d, by its export's name, from encoded request to
// encoded answer: all that an export does but for moving the bytes. It is what
// emulators of the host call, such as drivertest; a driver has no use for it.
//
// # Errors
//
// The driver's own; INVALID_ARGUMENT for a request that cannot be decoded;
// UNIMPLEMENTED for an optional operation that d does not implement and for names
// that no driver has; INTERNAL when d answers nil without an error.
func Handle(ctx context.Context, d Driver, operation string, request []byte) ([]byte, error) {
	switch operation {
	case abi.OpDriverDescribe:
		return serve(request, func(*wasmnodev1.DriverDescribeRequest) (message, error) { return describe(d) })
	case abi.OpDriverConfigure:
		return serve(request, func(r *wasmnodev1.DriverConfigureRequest) (message, error) {
			return &wasmnodev1.DriverConfigureResponse{}, d.Configure(ctx, r.Config)
		})
	case abi.OpDriverFingerprint:
		return serve(request, func(*wasmnodev1.DriverFingerprintRequest) (message, error) { return fingerprint(ctx, d) })
	case abi.OpDriverStartTask:
		return serve(request, func(r *wasmnodev1.DriverStartTaskRequest) (message, error) { return startTask(ctx, d, r) })
	case abi.OpDriverRecoverTask:
		return serve(request, func(r *wasmnodev1.DriverRecoverTaskRequest) (message, error) { return recoverTask(ctx, d, r) })
	case abi.OpDriverWaitTask:
		return serve(request, func(r *wasmnodev1.DriverWaitTaskRequest) (message, error) { return waitTask(ctx, d, r) })
	case abi.OpDriverStopTask:
		return serve(request, func(r *wasmnodev1.DriverStopTaskRequest) (message, error) { return stopTask(ctx, d, r) })
	case abi.OpDriverSignalTask:
		return serve(request, func(r *wasmnodev1.DriverSignalTaskRequest) (message, error) { return signalTask(ctx, d, r) })
	case abi.OpDriverDestroyTask:
		return serve(request, func(r *wasmnodev1.DriverDestroyTaskRequest) (message, error) { return destroyTask(ctx, d, r) })
	case abi.OpDriverInspectTask:
		return serve(request, func(r *wasmnodev1.DriverInspectTaskRequest) (message, error) { return inspectTask(ctx, d, r) })
	case abi.OpDriverTaskStats:
		return serve(request, func(r *wasmnodev1.DriverTaskStatsRequest) (message, error) { return taskStats(ctx, d, r) })
	case abi.OpDriverExecTask:
		return serve(request, func(r *wasmnodev1.DriverExecTaskRequest) (message, error) { return execTask(ctx, d, r) })
	default:
		return nil, Errorf(abi.Unimplemented, "no driver operation %q", operation)
	}
}

type message interface{ MarshalVT() ([]byte, error) }

// serve decodes a request, calls f and encodes its answer.
func serve[R any, P interface {
	*R
	UnmarshalVT([]byte) error
}](request []byte, f func(P) (message, error)) ([]byte, error) {
	r := P(new(R))
	if err := r.UnmarshalVT(request); err != nil {
		return nil, Errorf(abi.InvalidArgument, "decode request: %v", err)
	}
	answer, err := f(r)
	if err != nil {
		return nil, err
	}
	return answer.MarshalVT()
}

func describe(d Driver) (message, error) {
	description := d.Describe()
	if description == nil {
		return nil, nilAnswer("Describe")
	}
	return description, nil
}

func fingerprint(ctx context.Context, d Driver) (message, error) {
	f, err := d.Fingerprint(ctx)
	if err == nil && f == nil {
		err = nilAnswer("Fingerprint")
	}
	return f, err
}

func startTask(ctx context.Context, d Driver, r *wasmnodev1.DriverStartTaskRequest) (message, error) {
	if r.Task == nil {
		return nil, missing("task")
	}
	handle, network, err := d.StartTask(ctx, complete(r.Task))
	if err != nil {
		return nil, err
	}
	if handle == nil {
		return nil, nilAnswer("StartTask")
	}
	return &wasmnodev1.DriverStartTaskResponse{Handle: versioned(handle), Network: network}, nil
}

func recoverTask(ctx context.Context, d Driver, r *wasmnodev1.DriverRecoverTaskRequest) (message, error) {
	x, ok := d.(TaskRecoverer)
	switch {
	case !ok:
		return nil, unimplemented("RecoverTask")
	case r.Task == nil:
		return nil, missing("task")
	case r.Handle == nil:
		return nil, missing("handle")
	}
	handle, err := x.RecoverTask(ctx, complete(r.Task), r.Handle)
	return &wasmnodev1.DriverRecoverTaskResponse{Handle: versioned(handle)}, err
}

func waitTask(ctx context.Context, d Driver, r *wasmnodev1.DriverWaitTaskRequest) (message, error) {
	x, ok := d.(TaskWaiter)
	switch {
	case !ok:
		return nil, unimplemented("WaitTask")
	case r.Handle == nil:
		return nil, missing("handle")
	}
	result, pollAfter, err := x.WaitTask(ctx, r.TaskId, r.Handle)
	return &wasmnodev1.DriverWaitTaskResponse{Result: result, PollAfterMs: milliseconds(pollAfter)}, err
}

func stopTask(ctx context.Context, d Driver, r *wasmnodev1.DriverStopTaskRequest) (message, error) {
	x, ok := d.(TaskStopper)
	switch {
	case !ok:
		return nil, unimplemented("StopTask")
	case r.Handle == nil:
		return nil, missing("handle")
	}
	handle, err := x.StopTask(ctx, r.TaskId, r.Handle, r.Signal, duration(r.TimeoutMs))
	return &wasmnodev1.DriverStopTaskResponse{Handle: versioned(handle)}, err
}

func signalTask(ctx context.Context, d Driver, r *wasmnodev1.DriverSignalTaskRequest) (message, error) {
	x, ok := d.(TaskSignaler)
	switch {
	case !ok:
		return nil, unimplemented("SignalTask")
	case r.Handle == nil:
		return nil, missing("handle")
	}
	handle, err := x.SignalTask(ctx, r.TaskId, r.Handle, r.Signal)
	return &wasmnodev1.DriverSignalTaskResponse{Handle: versioned(handle)}, err
}

func destroyTask(ctx context.Context, d Driver, r *wasmnodev1.DriverDestroyTaskRequest) (message, error) {
	x, ok := d.(TaskDestroyer)
	switch {
	case !ok:
		return nil, unimplemented("DestroyTask")
	case r.Handle == nil:
		return nil, missing("handle")
	}
	return &wasmnodev1.DriverDestroyTaskResponse{}, x.DestroyTask(ctx, r.TaskId, r.Handle, r.Force)
}

func inspectTask(ctx context.Context, d Driver, r *wasmnodev1.DriverInspectTaskRequest) (message, error) {
	x, ok := d.(TaskInspector)
	switch {
	case !ok:
		return nil, unimplemented("InspectTask")
	case r.Handle == nil:
		return nil, missing("handle")
	}
	status, err := x.InspectTask(ctx, r.TaskId, r.Handle)
	if err == nil && status == nil {
		err = nilAnswer("InspectTask")
	}
	return &wasmnodev1.DriverInspectTaskResponse{Status: status}, err
}

func taskStats(ctx context.Context, d Driver, r *wasmnodev1.DriverTaskStatsRequest) (message, error) {
	x, ok := d.(TaskStatser)
	switch {
	case !ok:
		return nil, unimplemented("TaskStats")
	case r.Handle == nil:
		return nil, missing("handle")
	}
	stats, err := x.TaskStats(ctx, r.TaskId, r.Handle)
	if err == nil && stats == nil {
		err = nilAnswer("TaskStats")
	}
	return &wasmnodev1.DriverTaskStatsResponse{Stats: stats}, err
}

func execTask(ctx context.Context, d Driver, r *wasmnodev1.DriverExecTaskRequest) (message, error) {
	x, ok := d.(TaskExecer)
	switch {
	case !ok:
		return nil, unimplemented("ExecTask")
	case r.Handle == nil:
		return nil, missing("handle")
	}
	result, err := x.ExecTask(ctx, r.TaskId, r.Handle, r.Command, duration(r.TimeoutMs))
	if err == nil && result == nil {
		err = nilAnswer("ExecTask")
	}
	return result, err
}

// complete replaces what the request left out by empty values, so that a driver
// reads task.Directories.Task without asking for nil.
func complete(task *TaskConfig) *TaskConfig {
	if task.Resources == nil {
		task.Resources = &wasmnodev1.Resources{}
	}
	if task.Directories == nil {
		task.Directories = &wasmnodev1.TaskDirectories{}
	}
	return task
}

// versioned gives a handle whose author keeps no versions the first one, because 0
// is not a version.
func versioned(handle *TaskHandle) *TaskHandle {
	if handle != nil && handle.Version == 0 {
		handle.Version = 1
	}
	return handle
}

// milliseconds rounds up: a wait is never shorter than asked for.
func milliseconds(d time.Duration) uint32 {
	if d <= 0 {
		return 0
	}
	return uint32(min((d-1)/time.Millisecond+1, math.MaxUint32))
}

func duration(ms uint64) time.Duration {
	return time.Duration(min(ms, uint64(math.MaxInt64/time.Millisecond))) * time.Millisecond
}

func unimplemented(method string) error {
	return abi.NewError(abi.Unimplemented, fmt.Sprintf("the driver has no %s: the host's default applies", method))
}

func nilAnswer(method string) error {
	return abi.NewError(abi.Internal, fmt.Sprintf("the driver's %s returned neither an answer nor an error", method))
}

func missing(field string) error {
	return abi.NewError(abi.InvalidArgument, fmt.Sprintf("request: %s is missing", field))
}
