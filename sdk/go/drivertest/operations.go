package drivertest

import (
	"context"
	"time"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/sdk/go/driver"
)

// The methods below are the operations of a driver. Their errors are the driver's
// own as they cross the sandbox (an [abi.Error]; UNIMPLEMENTED for an optional
// operation that it does not have) or a [FaultError].

// Describe returns the driver's description of itself. The test fails when it cannot.
func (n *Node) Describe() *driver.Description {
	n.t.Helper()
	return n.describe(context.Background())
}

func (n *Node) describe(ctx context.Context) *driver.Description {
	n.t.Helper()
	description := new(driver.Description)
	if err := description.UnmarshalVT(n.describeRaw(ctx)); err != nil {
		n.t.Fatalf("drivertest: describe: %v", err)
	}
	return description
}

// Fingerprint asks whether the driver can run tasks.
func (n *Node) Fingerprint() (*driver.Fingerprint, error) {
	answer, err := n.call(context.Background(), abi.OpDriverFingerprint, "", nil)
	if err != nil {
		return nil, err
	}
	f := new(driver.Fingerprint)
	return f, f.UnmarshalVT(answer)
}

// StartTask starts a task that [Node.Task] made.
func (n *Node) StartTask(task *driver.TaskConfig) (*driver.TaskHandle, *driver.Network, error) {
	request, err := (&wasmnodev1.DriverStartTaskRequest{Task: task}).MarshalVT()
	if err != nil {
		return nil, nil, err
	}
	answer, err := n.call(context.Background(), abi.OpDriverStartTask, task.GetId(), request)
	if err != nil {
		return nil, nil, err
	}
	var r wasmnodev1.DriverStartTaskResponse
	if err := r.UnmarshalVT(answer); err != nil {
		return nil, nil, err
	}
	n.keep(task, r.Handle)
	return r.Handle, r.Network, nil
}

// RecoverTask hands a task to a new instance and returns the handle from then on.
func (n *Node) RecoverTask(task *driver.TaskConfig, handle *driver.TaskHandle) (*driver.TaskHandle, error) {
	request, err := (&wasmnodev1.DriverRecoverTaskRequest{Task: task, Handle: handle}).MarshalVT()
	if err != nil {
		return nil, err
	}
	answer, err := n.call(context.Background(), abi.OpDriverRecoverTask, task.GetId(), request)
	if err != nil {
		return nil, err
	}
	var r wasmnodev1.DriverRecoverTaskResponse
	recovered, err := n.either(r.UnmarshalVT(answer), r.GetHandle, task, handle)
	if err == nil {
		n.keep(task, recovered)
	}
	return recovered, err
}

// WaitTask asks once how the task ended; a nil result means that it still runs.
func (n *Node) WaitTask(task *driver.TaskConfig, handle *driver.TaskHandle) (*driver.ExitResult, time.Duration, error) {
	request, err := (&wasmnodev1.DriverWaitTaskRequest{TaskId: task.GetId(), Handle: handle}).MarshalVT()
	if err != nil {
		return nil, 0, err
	}
	answer, err := n.call(context.Background(), abi.OpDriverWaitTask, task.GetId(), request)
	if err != nil {
		return nil, 0, err
	}
	var r wasmnodev1.DriverWaitTaskResponse
	if err := r.UnmarshalVT(answer); err != nil {
		return nil, 0, err
	}
	return r.Result, time.Duration(r.PollAfterMs) * time.Millisecond, nil
}

// StopTask stops the task and returns the handle from then on.
func (n *Node) StopTask(task *driver.TaskConfig, handle *driver.TaskHandle, signal string, timeout time.Duration) (*driver.TaskHandle, error) {
	request, err := (&wasmnodev1.DriverStopTaskRequest{
		TaskId: task.GetId(), Handle: handle, Signal: signal, TimeoutMs: uint64(timeout.Milliseconds()),
	}).MarshalVT()
	if err != nil {
		return nil, err
	}
	answer, err := n.call(context.Background(), abi.OpDriverStopTask, task.GetId(), request)
	if err != nil {
		return nil, err
	}
	var r wasmnodev1.DriverStopTaskResponse
	return n.either(r.UnmarshalVT(answer), r.GetHandle, task, handle)
}

// SignalTask sends a signal and returns the handle from then on.
func (n *Node) SignalTask(task *driver.TaskConfig, handle *driver.TaskHandle, signal string) (*driver.TaskHandle, error) {
	request, err := (&wasmnodev1.DriverSignalTaskRequest{TaskId: task.GetId(), Handle: handle, Signal: signal}).MarshalVT()
	if err != nil {
		return nil, err
	}
	answer, err := n.call(context.Background(), abi.OpDriverSignalTask, task.GetId(), request)
	if err != nil {
		return nil, err
	}
	var r wasmnodev1.DriverSignalTaskResponse
	return n.either(r.UnmarshalVT(answer), r.GetHandle, task, handle)
}

// either returns the handle of an answer, or the old one when it has none, and keeps it.
func (n *Node) either(err error, answered func() *driver.TaskHandle, task *driver.TaskConfig, old *driver.TaskHandle) (*driver.TaskHandle, error) {
	if err != nil {
		return nil, err
	}
	if h := answered(); h != nil {
		old = h
	}
	n.renew(task, old)
	return old, nil
}

// DestroyTask makes the driver forget the task.
func (n *Node) DestroyTask(task *driver.TaskConfig, handle *driver.TaskHandle, force bool) error {
	request, err := (&wasmnodev1.DriverDestroyTaskRequest{TaskId: task.GetId(), Handle: handle, Force: force}).MarshalVT()
	if err != nil {
		return err
	}
	if _, err = n.call(context.Background(), abi.OpDriverDestroyTask, task.GetId(), request); err == nil {
		n.forget(task.GetId())
		n.records.kill(task.GetId())
	}
	return err
}

// InspectTask asks for the task's state.
func (n *Node) InspectTask(task *driver.TaskConfig, handle *driver.TaskHandle) (*driver.TaskStatus, error) {
	request, err := (&wasmnodev1.DriverInspectTaskRequest{TaskId: task.GetId(), Handle: handle}).MarshalVT()
	if err != nil {
		return nil, err
	}
	answer, err := n.call(context.Background(), abi.OpDriverInspectTask, task.GetId(), request)
	if err != nil {
		return nil, err
	}
	var r wasmnodev1.DriverInspectTaskResponse
	err = r.UnmarshalVT(answer)
	return r.Status, err
}

// TaskStats asks what the task uses.
func (n *Node) TaskStats(task *driver.TaskConfig, handle *driver.TaskHandle) (*driver.TaskStats, error) {
	request, err := (&wasmnodev1.DriverTaskStatsRequest{TaskId: task.GetId(), Handle: handle}).MarshalVT()
	if err != nil {
		return nil, err
	}
	answer, err := n.call(context.Background(), abi.OpDriverTaskStats, task.GetId(), request)
	if err != nil {
		return nil, err
	}
	var r wasmnodev1.DriverTaskStatsResponse
	err = r.UnmarshalVT(answer)
	return r.Stats, err
}

// CreateNetwork asks for the namespace of an allocation's network, and returns its path; empty:
// the node makes it.
func (n *Node) CreateNetwork(allocID, hostname string) (string, error) {
	request, err := (&wasmnodev1.DriverCreateNetworkRequest{AllocId: allocID, Hostname: hostname}).MarshalVT()
	if err != nil {
		return "", err
	}
	answer, err := n.call(context.Background(), abi.OpDriverCreateNetwork, "", request)
	if err != nil {
		return "", err
	}
	var r wasmnodev1.DriverCreateNetworkResponse
	err = r.UnmarshalVT(answer)
	return r.Namespace, err
}

// DestroyNetwork lets go of it.
func (n *Node) DestroyNetwork(allocID string) error {
	request, err := (&wasmnodev1.DriverDestroyNetworkRequest{AllocId: allocID}).MarshalVT()
	if err != nil {
		return err
	}
	_, err = n.call(context.Background(), abi.OpDriverDestroyNetwork, "", request)
	return err
}
