package conform

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
)

func tooSlow(err error) bool { return errors.Is(err, context.DeadlineExceeded) }

// maxState bounds a handle's driver_state.
const maxState = 64 << 10

// taken is a task that was started.
type taken struct {
	config *wasmnodev1.TaskConfig
	handle *wasmnodev1.TaskHandle
	fresh  bool
}

// driver checks what a driver does with tasks.
func (r *run) driver() {
	r.network()
	config, err := r.node.Fit(r.description.TaskConfigSchema, r.opts.TaskConfig)
	if err != nil {
		r.skip("tasks", fmt.Sprintf("without a config that fits, nothing is started: %v", err))
		return
	}
	again, err := r.node.Fit(r.description.TaskConfigSchema, config)
	if err == nil && string(again) != string(config) {
		err = errors.New("with its defaults a config is not the same when it is checked again")
	}
	r.done("schema/defaults", err)
	r.opts.TaskConfig = config

	kept := r.life(false)
	for _, step := range kept {
		r.done(step.name, step.problem)
	}
	if len(kept) > 1 {
		r.done("fresh-instances", differs(kept, r.life(true)))
	}
	if kept[0].problem == nil {
		r.done("start_task/large", r.largeTask())
		r.sweepStart()
		r.sweepTasks()
		r.handles()
	}
}

// start starts a new task.
func (r *run) start(fresh bool, fail Fault) (*taken, Outcome, error) {
	task, err := r.node.NewTask()
	if err != nil {
		return nil, Outcome{}, err
	}
	return r.startTask(task, fresh, fail)
}

// startTask is start of a task that is there.
func (r *run) startTask(task *wasmnodev1.TaskConfig, fresh bool, fail Fault) (*taken, Outcome, error) {
	task.DriverConfig = r.opts.TaskConfig
	t := &taken{config: task, fresh: fresh}
	out := r.call(Call{Op: abi.OpDriverStartTask, Request: encode(&wasmnodev1.DriverStartTaskRequest{Task: task}), Task: task, Fresh: fresh, Fail: fail})
	if out.Err != nil {
		return t, out, out.Err
	}
	var answer wasmnodev1.DriverStartTaskResponse
	if err := answer.UnmarshalVT(out.Answer); err != nil {
		return t, out, &faultError{errors.New("its answer cannot be decoded")}
	}
	t.handle = answer.Handle
	return t, out, r.checkHandle(t)
}

// checkHandle checks what a driver answers as a task's handle.
func (r *run) checkHandle(t *taken) error {
	h := t.handle
	switch {
	case h == nil:
		return errors.New("it answers no handle")
	case len(h.DriverState) > maxState:
		return fmt.Errorf("driver_state has %d bytes, the limit is %d", len(h.DriverState), maxState)
	case h.WorkloadId != "" && !r.node.HasWorkload(r.ctx, h.WorkloadId):
		return fmt.Errorf("the handle names the workload %q, which there is not", h.WorkloadId)
	case h.WorkloadId == "" && r.node.HasWorkload(r.ctx, t.config.Id):
		return errors.New("it started a workload that the handle does not name: nothing would wait for it")
	}
	return nil
}

// end ends what is left of a task, however far it got.
func (r *run) end(t *taken) {
	if t == nil {
		return
	}
	if t.handle != nil {
		r.call(r.about(t, abi.OpDriverDestroyTask, &wasmnodev1.DriverDestroyTaskRequest{TaskId: t.config.Id, Handle: t.handle, Force: true}))
	}
	r.node.ForgetWorkload(r.ctx, t.config.Id)
}

func (r *run) about(t *taken, op string, request message) Call {
	return Call{Op: op, Request: encode(request), Task: t.config, Fresh: t.fresh}
}

// step is one thing in the life of a task that was checked.
type step struct {
	name    string
	problem error
}

// life takes a task through its life, and returns what was checked. With fresh instances each
// call has one that has seen none before it.
func (r *run) life(fresh bool) (steps []step) {
	add := func(name string, problem error) { steps = append(steps, step{name, problem}) }
	t, _, err := r.start(fresh, Fault{})
	defer func() { r.end(t) }()
	add("start_task", said("driver_start_task", err))
	if err != nil {
		return steps
	}
	add("start_task/no-workload", r.alone(t))
	if t.handle.WorkloadId != "" {
		add("start_task/twice", r.startTwice(t))
	}
	add("recover_task", r.recover(t))
	add("inspect_task", faultOf(r.answers(t, abi.OpDriverInspectTask, &wasmnodev1.DriverInspectTaskRequest{TaskId: t.config.Id, Handle: t.handle})))
	add("task_stats", faultOf(r.answers(t, abi.OpDriverTaskStats, &wasmnodev1.DriverTaskStatsRequest{TaskId: t.config.Id, Handle: t.handle})))
	add("signal_task/unknown", faultOf(r.answers(t, abi.OpDriverSignalTask, &wasmnodev1.DriverSignalTaskRequest{TaskId: t.config.Id, Handle: t.handle, Signal: "SIGNONE"})))
	add("signal_task/long", r.longSignal(t))
	add("exec_task/streams", r.execStreams(t))
	add("exec_task/gone", r.execGone(t))
	add("destroy_task/running", r.destroyRunning(t))
	add("stop_task", r.stop(t))
	add("stop_task/again", r.stop(t))
	add("wait_task/again", r.waitTwice(t))
	add("destroy_task", r.destroy(t))
	add("destroy_task/again", r.destroy(t))
	return steps
}

// answers makes a call about a task, whose answer is not looked at.
func (r *run) answers(t *taken, op string, request message) error {
	if !r.has(op) {
		return nil
	}
	return r.call(r.about(t, op, request)).Err
}

// alone checks that a task without a workload has somebody who waits for it.
func (r *run) alone(t *taken) error {
	if t.handle.WorkloadId != "" {
		return nil
	}
	problem := errors.New("the handle names no workload, and the driver has no driver_wait_task: the node would lose the task")
	if !r.has(abi.OpDriverWaitTask) {
		return problem
	}
	_, err := r.look(t)
	if err != nil && optional(err) == nil {
		return problem
	}
	return nil
}

// startTwice starts a task that has a workload.
func (r *run) startTwice(t *taken) error {
	err := r.call(r.about(t, abi.OpDriverStartTask, &wasmnodev1.DriverStartTaskRequest{Task: t.config})).Err
	if err == nil {
		return errors.New("it starts a task that it has started")
	}
	return faultOf(err)
}

// recover hands a task to an instance that has not started it.
func (r *run) recover(t *taken) error {
	if !r.has(abi.OpDriverRecoverTask) {
		return nil
	}
	var answer wasmnodev1.DriverRecoverTaskResponse
	err := r.ask(r.about(t, abi.OpDriverRecoverTask, &wasmnodev1.DriverRecoverTaskRequest{Task: t.config, Handle: t.handle}), &answer)
	if err != nil {
		return said("a task that was just started", optional(err))
	}
	return r.replace(t, answer.Handle)
}

// replace takes another handle of a task, if there is one.
func (r *run) replace(t *taken, h *wasmnodev1.TaskHandle) error {
	if h == nil {
		return nil
	}
	t.handle = h
	return r.checkHandle(t)
}

// waitTime is how long a driver is left to wait for a task that runs.
const waitTime = 5 * time.Second

// wait asks how a task ended.
func (r *run) wait(t *taken) (*wasmnodev1.ExitResult, error) { return r.waitWithin(r.opts.Timeout, t) }

// look asks once how a task ended; nil: it runs. A driver that waits until the end has no answer.
func (r *run) look(t *taken) (*wasmnodev1.ExitResult, error) {
	return r.waitWithin(min(r.opts.Timeout, waitTime), t)
}

func (r *run) waitWithin(limit time.Duration, t *taken) (*wasmnodev1.ExitResult, error) {
	var answer wasmnodev1.DriverWaitTaskResponse
	err := r.askWithin(limit, r.about(t, abi.OpDriverWaitTask, waitFor(t)), &answer)
	return answer.Result, err
}

// waitTwice checks that a task that has ended has ended in one way.
func (r *run) waitTwice(t *taken) error {
	if !r.has(abi.OpDriverWaitTask) {
		return nil
	}
	first, err := r.wait(t)
	if err != nil {
		return said("the first time", optional(err))
	}
	if first == nil {
		return errors.New("after driver_stop_task the task still runs")
	}
	again, err := r.wait(t)
	switch {
	case err != nil:
		return said("the second time", err)
	case !again.EqualVT(first):
		return errors.New("it answers something else the second time, and has to answer the same after the end")
	}
	return nil
}

// destroyRunning destroys a task that runs, which has to be refused.
func (r *run) destroyRunning(t *taken) error {
	if !r.has(abi.OpDriverDestroyTask) || !r.has(abi.OpDriverWaitTask) {
		return nil
	}
	if result, err := r.look(t); err != nil || result != nil {
		return nil // whether it runs is not known, or it has ended
	}
	err := r.answers(t, abi.OpDriverDestroyTask, &wasmnodev1.DriverDestroyTaskRequest{TaskId: t.config.Id, Handle: t.handle})
	if err == nil {
		return errors.New("it destroys a task that runs, without force")
	}
	return faultOf(err)
}

// stopMillis is how long a task may take to end.
const stopMillis = 1000

// stop stops a task, also one that has ended.
func (r *run) stop(t *taken) error {
	defer r.node.EndWorkload(r.ctx, t.config.Id)
	if !r.has(abi.OpDriverStopTask) {
		return nil
	}
	var answer wasmnodev1.DriverStopTaskResponse
	err := r.ask(r.about(t, abi.OpDriverStopTask, &wasmnodev1.DriverStopTaskRequest{TaskId: t.config.Id, Handle: t.handle, TimeoutMs: stopMillis, Signal: "SIGTERM"}), &answer)
	if err != nil {
		return said("driver_stop_task", optional(err))
	}
	if answer.Handle != nil {
		t.handle = answer.Handle
	}
	return nil
}

// destroy destroys a task that has ended, also one that is destroyed.
func (r *run) destroy(t *taken) error {
	err := r.answers(t, abi.OpDriverDestroyTask, &wasmnodev1.DriverDestroyTaskRequest{TaskId: t.config.Id, Handle: t.handle})
	r.node.ForgetWorkload(r.ctx, t.config.Id)
	return said("driver_destroy_task", optional(err))
}

// differs compares two lives: what went well with instances that were kept has to go well
// without.
func differs(kept, fresh []step) error {
	for i, step := range kept {
		if i >= len(fresh) {
			return errors.New("a task's life is shorter when no instance is kept")
		}
		if step.problem == nil && fresh[i].problem != nil {
			return fmt.Errorf("%s: it goes wrong when the instance is another than that of the call before: %w", step.name, fresh[i].problem)
		}
	}
	return nil
}

// sweepStart fails each use of a capability in the start of a task.
func (r *run) sweepStart() {
	r.sweep("start_task", func(fail Fault) (int, error) {
		t, out, err := r.start(false, fail)
		defer r.end(t)
		if out.Err == nil && err != nil {
			return out.Asked, err // it answers a handle that is none
		}
		return out.Asked, faultOf(out.Err)
	})
}

// handles hands over handles that the driver did not make.
func (r *run) handles() {
	t, _, err := r.start(false, Fault{})
	defer func() { r.end(t) }()
	if err != nil {
		r.done("handles", said("driver_start_task", err))
		return
	}
	h := t.handle
	for _, c := range []struct {
		name   string
		handle *wasmnodev1.TaskHandle
	}{
		{"no-state", &wasmnodev1.TaskHandle{WorkloadId: h.WorkloadId}},
		{"other-version", &wasmnodev1.TaskHandle{Version: h.Version + 1000, DriverState: h.DriverState, WorkloadId: h.WorkloadId}},
		{"garbage", &wasmnodev1.TaskHandle{Version: h.Version, DriverState: []byte("\xff{\x00"), WorkloadId: h.WorkloadId}},
	} {
		other := &taken{config: t.config, handle: c.handle, fresh: true}
		r.done("handle/"+c.name, r.withHandle(other, c.name == "garbage" && len(h.DriverState) > 0))
	}
}

// withHandle makes each call that has a handle. None may fault; one that cannot be read has to
// be refused when the task is recovered.
func (r *run) withHandle(t *taken, unreadable bool) error {
	id, h := t.config.Id, t.handle
	for _, c := range []struct {
		op      string
		request message
	}{
		{abi.OpDriverRecoverTask, &wasmnodev1.DriverRecoverTaskRequest{Task: t.config, Handle: h}},
		{abi.OpDriverInspectTask, &wasmnodev1.DriverInspectTaskRequest{TaskId: id, Handle: h}},
		{abi.OpDriverTaskStats, &wasmnodev1.DriverTaskStatsRequest{TaskId: id, Handle: h}},
		{abi.OpDriverSignalTask, &wasmnodev1.DriverSignalTaskRequest{TaskId: id, Handle: h, Signal: "SIGNONE"}},
		{abi.OpDriverExecTask, &wasmnodev1.DriverExecTaskRequest{TaskId: id, Handle: h}},
	} {
		err := r.answers(t, c.op, c.request)
		if fault := faultOf(err); fault != nil {
			return said(c.op, fault)
		}
		if unreadable && err == nil && c.op == abi.OpDriverRecoverTask && r.has(c.op) {
			return errors.New("driver_recover_task takes a driver_state that it cannot have read")
		}
	}
	return nil
}
