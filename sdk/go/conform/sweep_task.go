package conform

import (
	"strings"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
)

// taskCall is an operation about a task that was started.
type taskCall struct {
	op      string
	request func(t *taken) message
	// ended: it is called when the task has ended; alone: each call has a task of its own, which
	// it ends or destroys.
	ended, alone bool
}

// taskCalls are the operations whose uses of capabilities are failed. The signal is one that
// leaves a process as it is.
var taskCalls = []taskCall{
	{op: abi.OpDriverRecoverTask, request: func(t *taken) message {
		return &wasmnodev1.DriverRecoverTaskRequest{Task: t.config, Handle: t.handle}
	}},
	{op: abi.OpDriverInspectTask, request: func(t *taken) message {
		return &wasmnodev1.DriverInspectTaskRequest{TaskId: t.config.Id, Handle: t.handle}
	}},
	{op: abi.OpDriverTaskStats, request: func(t *taken) message {
		return &wasmnodev1.DriverTaskStatsRequest{TaskId: t.config.Id, Handle: t.handle}
	}},
	{op: abi.OpDriverSignalTask, request: func(t *taken) message {
		return &wasmnodev1.DriverSignalTaskRequest{TaskId: t.config.Id, Handle: t.handle, Signal: "SIGCONT"}
	}},
	{op: abi.OpDriverExecTask, request: func(t *taken) message {
		return &wasmnodev1.DriverExecTaskRequest{TaskId: t.config.Id, Handle: t.handle, Command: []string{"/bin/true"}}
	}},
	{op: abi.OpDriverWaitTask, request: waitFor},
	{op: abi.OpDriverStopTask, alone: true, request: func(t *taken) message {
		return &wasmnodev1.DriverStopTaskRequest{TaskId: t.config.Id, Handle: t.handle, TimeoutMs: stopMillis, Signal: "SIGTERM"}
	}},
	{op: abi.OpDriverWaitTask, ended: true, request: waitFor},
	{op: abi.OpDriverDestroyTask, ended: true, alone: true, request: func(t *taken) message {
		return &wasmnodev1.DriverDestroyTaskRequest{TaskId: t.config.Id, Handle: t.handle}
	}},
}

func waitFor(t *taken) message {
	return &wasmnodev1.DriverWaitTaskRequest{TaskId: t.config.Id, Handle: t.handle}
}

// sweepTasks fails each use of a capability in what is asked about a task. The calls that leave
// it as it is have one task together.
func (r *run) sweepTasks() {
	var shared *taken
	defer func() { r.end(shared) }()
	for _, c := range taskCalls {
		if !r.has(c.op) {
			continue
		}
		name := strings.TrimPrefix(c.op, r.kind)
		if c.ended && !c.alone {
			name += "/ended"
		}
		var worked bool
		r.sweep(name, func(fail Fault) (int, error) {
			t := shared
			if t == nil || c.alone {
				var err error
				if t, _, err = r.start(false, Fault{}); err != nil {
					r.end(t)
					return 0, said("driver_start_task", err)
				}
			}
			if c.alone {
				defer func() { r.end(t) }()
			} else {
				shared = t
			}
			if c.ended {
				_ = r.stop(t) // the task's life has shown whether it can
			}
			out := r.askAbout(t, c, fail)
			if fail.Use == 0 {
				worked = out.Err == nil
			}
			return out.Asked, r.afterFault(t, c, out, worked)
		})
	}
}

// askAbout makes a call about a task, in which a use of a capability fails.
func (r *run) askAbout(t *taken, c taskCall, fail Fault) Outcome {
	call := r.about(t, c.op, c.request(t))
	call.Fail = fail
	if c.op == abi.OpDriverExecTask {
		call.Streams = emptyStreams()
	}
	limit := r.opts.Timeout
	if c.waits() {
		limit = min(limit, waitTime)
	}
	out := r.callWithin(limit, call)
	if c.waits() && tooSlow(out.Err) {
		out.Err = nil // it may wait
	}
	if h := newHandle(c.op, out.Answer); h != nil {
		t.handle = h
	}
	return out
}

// waits reports whether the call may take as long as the task.
func (c taskCall) waits() bool { return c.op == abi.OpDriverWaitTask && !c.ended }

// afterFault returns what is wrong with the outcome of a call. One that the driver has answered
// with an error has to work when it is made again, if it works at all.
func (r *run) afterFault(t *taken, c taskCall, out Outcome, worked bool) error {
	if problem := faultOf(out.Err); problem != nil || out.Err == nil || !worked || c.waits() {
		return problem
	}
	if again := r.askAbout(t, c, Fault{}); again.Err != nil {
		return said("the same call again, without a failure", again.Err)
	}
	return nil
}

// newHandle returns the handle that an answer replaces a task's with; nil: it does not.
func newHandle(op string, answer []byte) *wasmnodev1.TaskHandle {
	var a interface {
		message
		GetHandle() *wasmnodev1.TaskHandle
	}
	switch op {
	case abi.OpDriverRecoverTask:
		a = &wasmnodev1.DriverRecoverTaskResponse{}
	case abi.OpDriverSignalTask:
		a = &wasmnodev1.DriverSignalTaskResponse{}
	case abi.OpDriverStopTask:
		a = &wasmnodev1.DriverStopTaskResponse{}
	default:
		return nil
	}
	if a.UnmarshalVT(answer) != nil {
		return nil // the task's life has told
	}
	return a.GetHandle()
}
