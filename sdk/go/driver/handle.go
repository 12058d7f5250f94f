package driver

import (
	"context"
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
		return describe(d, request)
	case abi.OpDriverConfigure:
		return configure(ctx, d, request)
	case abi.OpDriverFingerprint:
		return fingerprint(ctx, d, request)
	case abi.OpDriverStartTask:
		return startTask(ctx, d, request)
	case abi.OpDriverRecoverTask:
		return recoverTask(ctx, d, request)
	case abi.OpDriverWaitTask:
		return waitTask(ctx, d, request)
	case abi.OpDriverStopTask:
		return stopTask(ctx, d, request)
	case abi.OpDriverSignalTask:
		return signalTask(ctx, d, request)
	case abi.OpDriverDestroyTask:
		return destroyTask(ctx, d, request)
	case abi.OpDriverInspectTask:
		return inspectTask(ctx, d, request)
	case abi.OpDriverTaskStats:
		return taskStats(ctx, d, request)
	case abi.OpDriverExecTask:
		return execTask(ctx, d, request)
	case abi.OpDriverCreateNetwork:
		return createNetwork(ctx, d, request)
	case abi.OpDriverDestroyNetwork:
		return destroyNetwork(ctx, d, request)
	default:
		return nil, abi.NewError(abi.Unimplemented, "no driver operation "+operation)
	}
}

// The operations call the generated codecs directly and never through an interface:
// a method that is called through one is linked for every message there is, which
// makes each plugin a fifth larger.

func describe(d Driver, request []byte) ([]byte, error) {
	var r wasmnodev1.DriverDescribeRequest
	if err := r.UnmarshalVT(request); err != nil {
		return nil, undecodable(err)
	}
	description := d.Describe()
	if description == nil {
		return nil, nilAnswer("Describe")
	}
	return description.MarshalVT()
}

func configure(ctx context.Context, d Driver, request []byte) ([]byte, error) {
	var r wasmnodev1.DriverConfigureRequest
	if err := r.UnmarshalVT(request); err != nil {
		return nil, undecodable(err)
	}
	if err := d.Configure(ctx, r.Config); err != nil {
		return nil, err
	}
	return (&wasmnodev1.DriverConfigureResponse{}).MarshalVT()
}

func fingerprint(ctx context.Context, d Driver, request []byte) ([]byte, error) {
	var r wasmnodev1.DriverFingerprintRequest
	if err := r.UnmarshalVT(request); err != nil {
		return nil, undecodable(err)
	}
	f, err := d.Fingerprint(ctx)
	if err != nil {
		return nil, err
	}
	if f == nil {
		return nil, nilAnswer("Fingerprint")
	}
	return f.MarshalVT()
}

func startTask(ctx context.Context, d Driver, request []byte) ([]byte, error) {
	var r wasmnodev1.DriverStartTaskRequest
	if err := r.UnmarshalVT(request); err != nil {
		return nil, undecodable(err)
	}
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
	return (&wasmnodev1.DriverStartTaskResponse{Handle: versioned(handle), Network: network}).MarshalVT()
}

func recoverTask(ctx context.Context, d Driver, request []byte) ([]byte, error) {
	x, ok := d.(TaskRecoverer)
	if !ok {
		return nil, unimplemented("RecoverTask")
	}
	var r wasmnodev1.DriverRecoverTaskRequest
	if err := r.UnmarshalVT(request); err != nil {
		return nil, undecodable(err)
	}
	if r.Task == nil {
		return nil, missing("task")
	}
	if r.Handle == nil {
		return nil, missing("handle")
	}
	handle, err := x.RecoverTask(ctx, complete(r.Task), r.Handle)
	if err != nil {
		return nil, err
	}
	return (&wasmnodev1.DriverRecoverTaskResponse{Handle: versioned(handle)}).MarshalVT()
}

func waitTask(ctx context.Context, d Driver, request []byte) ([]byte, error) {
	x, ok := d.(TaskWaiter)
	if !ok {
		return nil, unimplemented("WaitTask")
	}
	var r wasmnodev1.DriverWaitTaskRequest
	if err := r.UnmarshalVT(request); err != nil {
		return nil, undecodable(err)
	}
	if r.Handle == nil {
		return nil, missing("handle")
	}
	result, pollAfter, err := x.WaitTask(ctx, r.TaskId, r.Handle)
	if err != nil {
		return nil, err
	}
	return (&wasmnodev1.DriverWaitTaskResponse{Result: result, PollAfterMs: milliseconds(pollAfter)}).MarshalVT()
}

func stopTask(ctx context.Context, d Driver, request []byte) ([]byte, error) {
	x, ok := d.(TaskStopper)
	if !ok {
		return nil, unimplemented("StopTask")
	}
	var r wasmnodev1.DriverStopTaskRequest
	if err := r.UnmarshalVT(request); err != nil {
		return nil, undecodable(err)
	}
	if r.Handle == nil {
		return nil, missing("handle")
	}
	handle, err := x.StopTask(ctx, r.TaskId, r.Handle, r.Signal, duration(r.TimeoutMs))
	if err != nil {
		return nil, err
	}
	return (&wasmnodev1.DriverStopTaskResponse{Handle: versioned(handle)}).MarshalVT()
}

func signalTask(ctx context.Context, d Driver, request []byte) ([]byte, error) {
	x, ok := d.(TaskSignaler)
	if !ok {
		return nil, unimplemented("SignalTask")
	}
	var r wasmnodev1.DriverSignalTaskRequest
	if err := r.UnmarshalVT(request); err != nil {
		return nil, undecodable(err)
	}
	if r.Handle == nil {
		return nil, missing("handle")
	}
	handle, err := x.SignalTask(ctx, r.TaskId, r.Handle, r.Signal)
	if err != nil {
		return nil, err
	}
	return (&wasmnodev1.DriverSignalTaskResponse{Handle: versioned(handle)}).MarshalVT()
}

func destroyTask(ctx context.Context, d Driver, request []byte) ([]byte, error) {
	x, ok := d.(TaskDestroyer)
	if !ok {
		return nil, unimplemented("DestroyTask")
	}
	var r wasmnodev1.DriverDestroyTaskRequest
	if err := r.UnmarshalVT(request); err != nil {
		return nil, undecodable(err)
	}
	if r.Handle == nil {
		return nil, missing("handle")
	}
	if err := x.DestroyTask(ctx, r.TaskId, r.Handle, r.Force); err != nil {
		return nil, err
	}
	return (&wasmnodev1.DriverDestroyTaskResponse{}).MarshalVT()
}

func inspectTask(ctx context.Context, d Driver, request []byte) ([]byte, error) {
	x, ok := d.(TaskInspector)
	if !ok {
		return nil, unimplemented("InspectTask")
	}
	var r wasmnodev1.DriverInspectTaskRequest
	if err := r.UnmarshalVT(request); err != nil {
		return nil, undecodable(err)
	}
	if r.Handle == nil {
		return nil, missing("handle")
	}
	status, err := x.InspectTask(ctx, r.TaskId, r.Handle)
	if err != nil {
		return nil, err
	}
	if status == nil {
		return nil, nilAnswer("InspectTask")
	}
	return (&wasmnodev1.DriverInspectTaskResponse{Status: status}).MarshalVT()
}

func taskStats(ctx context.Context, d Driver, request []byte) ([]byte, error) {
	x, ok := d.(TaskStatser)
	if !ok {
		return nil, unimplemented("TaskStats")
	}
	var r wasmnodev1.DriverTaskStatsRequest
	if err := r.UnmarshalVT(request); err != nil {
		return nil, undecodable(err)
	}
	if r.Handle == nil {
		return nil, missing("handle")
	}
	stats, err := x.TaskStats(ctx, r.TaskId, r.Handle)
	if err != nil {
		return nil, err
	}
	if stats == nil {
		return nil, nilAnswer("TaskStats")
	}
	return (&wasmnodev1.DriverTaskStatsResponse{Stats: stats}).MarshalVT()
}

func execTask(ctx context.Context, d Driver, request []byte) ([]byte, error) {
	streaming, streams := d.(TaskStreamExecer)
	plain, ok := d.(TaskExecer)
	if !ok && !streams {
		return nil, unimplemented("ExecTask")
	}
	var r wasmnodev1.DriverExecTaskRequest
	if err := r.UnmarshalVT(request); err != nil {
		return nil, undecodable(err)
	}
	if r.Handle == nil {
		return nil, missing("handle")
	}
	var result *ExecResult
	var err error
	if streams {
		result, err = execStreams(ctx, streaming, &r)
	} else {
		result, err = plain.ExecTask(ctx, r.TaskId, r.Handle, r.Command, duration(r.TimeoutMs))
	}
	if err != nil {
		return nil, err
	}
	if result == nil {
		return nil, nilAnswer("ExecTask")
	}
	return result.MarshalVT()
}

func createNetwork(ctx context.Context, d Driver, request []byte) ([]byte, error) {
	x, ok := d.(NetworkCreator)
	if !ok {
		return nil, unimplemented("CreateNetwork")
	}
	var r wasmnodev1.DriverCreateNetworkRequest
	if err := r.UnmarshalVT(request); err != nil {
		return nil, undecodable(err)
	}
	if r.AllocId == "" {
		return nil, missing("alloc_id")
	}
	namespace, err := x.CreateNetwork(ctx, r.AllocId, r.Hostname)
	if err != nil {
		return nil, err
	}
	return (&wasmnodev1.DriverCreateNetworkResponse{Namespace: namespace}).MarshalVT()
}

func destroyNetwork(ctx context.Context, d Driver, request []byte) ([]byte, error) {
	x, ok := d.(NetworkCreator)
	if !ok {
		return nil, unimplemented("DestroyNetwork")
	}
	var r wasmnodev1.DriverDestroyNetworkRequest
	if err := r.UnmarshalVT(request); err != nil {
		return nil, undecodable(err)
	}
	if r.AllocId == "" {
		return nil, missing("alloc_id")
	}
	if err := x.DestroyNetwork(ctx, r.AllocId); err != nil {
		return nil, err
	}
	return (&wasmnodev1.DriverDestroyNetworkResponse{}).MarshalVT()
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
	return abi.NewError(abi.Unimplemented, "the driver has no "+method+": the host's default applies")
}

func nilAnswer(method string) error {
	return abi.NewError(abi.Internal, "the driver's "+method+" returned neither an answer nor an error")
}

func missing(field string) error {
	return abi.NewError(abi.InvalidArgument, "request: "+field+" is missing")
}

func undecodable(err error) error {
	return abi.NewError(abi.InvalidArgument, "decode request: "+err.Error())
}
