package drivertest

import (
	"fmt"
	"time"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/sdk/go/driver"
)

// The methods below do with a task what a node does: they ask the driver, with the handle that
// the node has, and do with the task's workload what the driver leaves to the node. Their errors
// are as those of the operations; a task that was not started, or was destroyed, is NOT_FOUND.

// defaultPoll is how long a node waits before it asks again how a task ended, see abi/ABI.md.
const defaultPoll = time.Second

// Await waits until the task has ended. Between two questions it lets pass what the driver asks
// for: of a [Clock], or of real time. A task that still runs when that long has passed is
// DEADLINE_EXCEEDED.
func (n *Node) Await(task *driver.TaskConfig, within time.Duration) (*driver.ExitResult, error) {
	end := n.now().Add(within)
	for {
		h, err := n.handle(task)
		if err != nil {
			return nil, err
		}
		result, pause, err := n.WaitTask(task, h)
		if fallsToNode(err, h) {
			result, pause, err = n.waitWorkload(task, end.Sub(n.now()))
		}
		left := end.Sub(n.now())
		switch {
		case err != nil || result != nil:
			return result, err
		case left <= 0:
			return nil, abi.NewError(abi.DeadlineExceeded, fmt.Sprintf("the task still runs after %v", within))
		case pause <= 0:
			pause = defaultPoll
		}
		n.sleep(min(pause, left))
	}
}

// waitWorkload waits for the task's workload; only one that is a process ends by itself. Nil
// without an error: it runs, and is to be looked at again after the pause.
func (n *Node) waitWorkload(task *driver.TaskConfig, left time.Duration) (*driver.ExitResult, time.Duration, error) {
	n.records.mu.Lock()
	real := n.records.real != nil
	n.records.mu.Unlock()
	if !real {
		left = 0
	}
	var answer wasmnodev1.WorkloadWaitResponse
	err := n.askWorkload(task, abi.FuncWorkloadWait, &wasmnodev1.WorkloadWaitRequest{TimeoutMs: left.Milliseconds()}, &answer)
	return answer.Result, left, err
}

// Signal sends the task a signal.
func (n *Node) Signal(task *driver.TaskConfig, signal string) error {
	h, err := n.handle(task)
	if err != nil {
		return err
	}
	_, err = n.SignalTask(task, h, signal)
	if fallsToNode(err, h) {
		err = n.askWorkload(task, abi.FuncWorkloadSignal, &wasmnodev1.WorkloadSignalRequest{Signal: signal}, &wasmnodev1.WorkloadSignalResponse{})
	}
	return err
}

// Stop ends the task: by the signal (empty: the driver's own), and by force when it still runs
// after the timeout.
func (n *Node) Stop(task *driver.TaskConfig, signal string, timeout time.Duration) error {
	h, err := n.handle(task)
	if err != nil {
		return err
	}
	_, err = n.StopTask(task, h, signal, timeout)
	if fallsToNode(err, h) {
		request := &wasmnodev1.WorkloadStopRequest{Signal: signal, TimeoutMs: timeout.Milliseconds()}
		err = n.askWorkload(task, abi.FuncWorkloadStop, request, &wasmnodev1.WorkloadStopResponse{})
	}
	return err
}

// Inspect tells the task's state.
func (n *Node) Inspect(task *driver.TaskConfig) (*driver.TaskStatus, error) {
	h, err := n.handle(task)
	if err != nil {
		return nil, err
	}
	status, err := n.InspectTask(task, h)
	if !fallsToNode(err, h) {
		return status, err
	}
	var w wasmnodev1.WorkloadInspectResponse
	if err := n.askWorkload(task, abi.FuncWorkloadInspect, &wasmnodev1.WorkloadInspectRequest{}, &w); err != nil {
		return nil, err
	}
	status = &driver.TaskStatus{State: wasmnodev1.TaskState_TASK_STATE_RUNNING, StartedAtNs: w.StartedAtNs, CompletedAtNs: w.ExitedAtNs, ExitResult: w.Result}
	if w.Result != nil {
		status.State = wasmnodev1.TaskState_TASK_STATE_EXITED
	}
	return status, nil
}

// Destroy has the driver and the node forget the task. One whose workload runs is
// FAILED_PRECONDITION, unless it is forced.
func (n *Node) Destroy(task *driver.TaskConfig, force bool) error {
	h, err := n.handle(task)
	if err != nil {
		return err
	}
	if !force && h.GetWorkloadId() != "" {
		var w wasmnodev1.WorkloadInspectResponse
		err := n.askWorkload(task, abi.FuncWorkloadInspect, &wasmnodev1.WorkloadInspectRequest{}, &w)
		if err == nil && w.Result == nil {
			return abi.NewError(abi.FailedPrecondition, "the task still runs")
		}
	}
	err = n.DestroyTask(task, h, force)
	if code := abi.CodeOf(err); code == abi.Unimplemented || code == abi.NotFound {
		n.forget(task.GetId())
		n.records.kill(task.GetId())
		return nil
	}
	return err
}

// handle is the handle that the node has of a task.
func (n *Node) handle(task *driver.TaskConfig) (*driver.TaskHandle, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if i := n.index(task.GetId()); i >= 0 {
		return n.running[i].handle, nil
	}
	return nil, abi.NewError(abi.NotFound, "the task is not there: it was not started, or was destroyed")
}

// fallsToNode reports whether an operation that ended with err is the node's to do.
func fallsToNode(err error, h *driver.TaskHandle) bool {
	return h.GetWorkloadId() != "" && abi.CodeOf(err) == abi.Unimplemented
}

// askWorkload does what wasmnode:workload/v1 does with the task's own workload.
func (n *Node) askWorkload(task *driver.TaskConfig, function string, request, answer message) error {
	encoded, err := request.MarshalVT()
	if err != nil {
		return err
	}
	host := &callHost{records: n.records, taskID: task.GetId()}
	if encoded, err = host.Workload(function, encoded); err != nil {
		return err
	}
	return answer.UnmarshalVT(encoded)
}

// clock is that of the driver; nil: the real one.
func (n *core) clock() *Clock {
	n.mu.Lock()
	defer n.mu.Unlock()
	if c, is := n.plugin.(*compiled); is {
		return c.clock
	}
	return nil
}

func (n *core) now() time.Time {
	if c := n.clock(); c != nil {
		return c.Now()
	}
	return time.Now()
}

func (n *core) sleep(d time.Duration) {
	if c := n.clock(); c != nil {
		c.Sleep(d)
		return
	}
	time.Sleep(d)
}

// recover hands a task to the driver as a node does, which keeps one that is a workload by itself.
func (n *Node) recover(r running) error {
	_, err := n.RecoverTask(r.task, r.handle)
	if fallsToNode(err, r.handle) {
		return n.askWorkload(r.task, abi.FuncWorkloadInspect, &wasmnodev1.WorkloadInspectRequest{}, &wasmnodev1.WorkloadInspectResponse{})
	}
	return err
}
