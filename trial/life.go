package trial

import (
	"context"
	"path/filepath"
	"time"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/sdk/go/conform"
)

// life is the recording of a plugin's operations, one after another.
type life struct {
	trial   *Trial
	to      *Recorder
	timeout time.Duration
	called  func(op string, r *Result)
	task    *wasmnodev1.TaskConfig // nil: the calls are about none
}

// RecordLife records what a plugin does from its fingerprint on: of a driver, all of a task with
// that config, JSON as [Trial.TaskConfig] returns it, whose directories are below dir; of a
// device plugin, a reservation of the first healthy device. It calls what the plugin has, each
// call within timeout, tells called of each, and goes on when one fails. The task's workload is
// stopped and forgotten at the end. The error is that of writing.
func (t *Trial) RecordLife(ctx context.Context, to *Recorder, dir string, config []byte, timeout time.Duration, called func(op string, r *Result)) error {
	l := &life{trial: t, to: to, timeout: timeout, called: called}
	if t.plugin.Spec().Kind == host.KindDevice {
		return l.devices(ctx)
	}
	task, err := conform.Task(filepath.Join(dir, "alloc"), 1, config)
	if err != nil {
		return err
	}
	return l.driver(ctx, task)
}

// call records a call, unless the plugin has no such operation, and decodes its answer: false:
// it has none.
func (l *life) call(ctx context.Context, op string, request, answer host.Message) (bool, error) {
	if !l.trial.plugin.Has(op) {
		return false, nil
	}
	encoded, err := request.MarshalVT()
	if err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	r, err := l.trial.Record(ctx, Call{Op: op, Request: encoded, Task: l.task}, l.to)
	if err != nil {
		return false, err
	}
	l.called(op, r)
	return r.Err == nil && answer.UnmarshalVT(r.Answer) == nil, nil
}

func (l *life) driver(ctx context.Context, task *wasmnodev1.TaskConfig) error {
	if _, err := l.call(ctx, abi.OpDriverFingerprint, &wasmnodev1.DriverFingerprintRequest{}, &wasmnodev1.DriverFingerprintResponse{}); err != nil {
		return err
	}
	l.task = task
	defer func() {
		_ = l.trial.workloads.Stop(ctx, task.Id, "SIGTERM", stopTime) // there may be none
		_ = l.trial.workloads.Destroy(ctx, task.Id)
	}()
	var started wasmnodev1.DriverStartTaskResponse
	if ok, err := l.call(ctx, abi.OpDriverStartTask, &wasmnodev1.DriverStartTaskRequest{Task: task}, &started); !ok {
		return err
	}
	id, h := task.Id, started.Handle
	var stopped wasmnodev1.DriverStopTaskResponse
	for _, c := range []struct {
		op              string
		request, answer host.Message
	}{
		{abi.OpDriverRecoverTask, &wasmnodev1.DriverRecoverTaskRequest{Task: task, Handle: h}, &wasmnodev1.DriverRecoverTaskResponse{}},
		{abi.OpDriverInspectTask, &wasmnodev1.DriverInspectTaskRequest{TaskId: id, Handle: h}, &wasmnodev1.DriverInspectTaskResponse{}},
		{abi.OpDriverTaskStats, &wasmnodev1.DriverTaskStatsRequest{TaskId: id, Handle: h}, &wasmnodev1.DriverTaskStatsResponse{}},
		{abi.OpDriverStopTask, &wasmnodev1.DriverStopTaskRequest{TaskId: id, Handle: h, TimeoutMs: uint64(stopTime.Milliseconds()), Signal: "SIGTERM"}, &stopped},
	} {
		if _, err := l.call(ctx, c.op, c.request, c.answer); err != nil {
			return err
		}
	}
	if stopped.Handle != nil {
		h = stopped.Handle
	}
	_ = l.trial.workloads.Stop(ctx, id, "SIGTERM", stopTime) // a node's part, where the driver leaves it to it
	if _, err := l.call(ctx, abi.OpDriverWaitTask, &wasmnodev1.DriverWaitTaskRequest{TaskId: id, Handle: h}, &wasmnodev1.DriverWaitTaskResponse{}); err != nil {
		return err
	}
	_, err := l.call(ctx, abi.OpDriverDestroyTask, &wasmnodev1.DriverDestroyTaskRequest{TaskId: id, Handle: h, Force: true}, &wasmnodev1.DriverDestroyTaskResponse{})
	return err
}

func (l *life) devices(ctx context.Context) error {
	var found wasmnodev1.DeviceFingerprintResponse
	if _, err := l.call(ctx, abi.OpDeviceFingerprint, &wasmnodev1.DeviceFingerprintRequest{}, &found); err != nil {
		return err
	}
	if _, err := l.call(ctx, abi.OpDeviceStats, &wasmnodev1.DeviceStatsRequest{}, &wasmnodev1.DeviceStatsResponse{}); err != nil {
		return err
	}
	for _, g := range found.Groups {
		for _, d := range g.Devices {
			if d.Healthy {
				return l.reservation(ctx, g.Id, d.Id)
			}
		}
	}
	return nil
}

func (l *life) reservation(ctx context.Context, group *wasmnodev1.DeviceGroupId, id string) error {
	request := &wasmnodev1.DeviceReserveRequest{Group: group, DeviceIds: []string{id}, User: conform.User()}
	if _, err := l.call(ctx, abi.OpDeviceReserve, request, &wasmnodev1.DeviceReserveResponse{}); err != nil {
		return err
	}
	_, err := l.call(ctx, abi.OpDeviceRelease, &wasmnodev1.DeviceReleaseRequest{Group: group, DeviceIds: []string{id}, User: conform.User()}, &wasmnodev1.DeviceReleaseResponse{})
	return err
}
