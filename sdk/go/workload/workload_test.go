package workload_test

import (
	"context"
	"testing"
	"time"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/sdk/go/driver"
	"github.com/wasmnode/wasmnode/sdk/go/drivertest"
	"github.com/wasmnode/wasmnode/sdk/go/internal/expect"
	"github.com/wasmnode/wasmnode/sdk/go/process"
	"github.com/wasmnode/wasmnode/sdk/go/workload"
)

// machine is a driver whose tasks have a process beside their own, and that does in signal_task
// what a test says.
type machine struct {
	do func(ctx context.Context) error
}

func (machine) Describe() *driver.Description {
	return &driver.Description{Name: "machine", Version: "1.0.0"}
}
func (machine) Configure(context.Context, []byte) error { return nil }
func (m machine) Fingerprint(ctx context.Context) (*driver.Fingerprint, error) {
	return &driver.Fingerprint{Health: driver.Healthy}, m.do(ctx)
}

func (machine) StartTask(ctx context.Context, _ *driver.TaskConfig) (*driver.TaskHandle, *driver.Network, error) {
	if _, err := process.Start(ctx, &process.Command{Name: "swtpm", Command: "/bin/swtpm", Isolation: process.IsolationNone}); err != nil {
		return nil, nil, err
	}
	id, err := process.Start(ctx, &process.Command{Command: "/bin/vm", Isolation: process.IsolationNone})
	return &driver.TaskHandle{WorkloadId: id}, nil, err
}

func (m machine) SignalTask(ctx context.Context, _ string, _ *driver.TaskHandle, _ string) (*driver.TaskHandle, error) {
	return nil, m.do(ctx)
}

// started is a node with a task, and what has the task's driver do something about it.
func started(t *testing.T) (node *drivertest.Node, id string, do func(func(ctx context.Context) error) error) {
	t.Helper()
	var now func(ctx context.Context) error
	node = drivertest.New(t, func() driver.Driver {
		return machine{func(ctx context.Context) error { return now(ctx) }}
	})
	task := node.Task("{}")
	handle, _, err := node.StartTask(task)
	expect.NoError(t, err)
	return node, handle.WorkloadId, func(f func(ctx context.Context) error) error {
		now = f
		_, err := node.SignalTask(task, handle, "SIGHUP")
		return err
	}
}

func TestADriverDealsWithTheWorkloadsThatItStarted(t *testing.T) {
	node, id, do := started(t)
	expect.NoError(t, do(func(ctx context.Context) error {
		for _, name := range []string{"", "swtpm"} {
			expect.NoError(t, workload.Signal(ctx, name, "SIGUSR1"))
			figures, err := workload.Stats(ctx, name)
			expect.NoError(t, err)
			expect.Equal(t, figures.TimeNs, int64(1))
			state, err := workload.Inspect(ctx, name)
			expect.NoError(t, err)
			expect.Equal(t, state.Result == nil, true)
			result, err := workload.Wait(ctx, name, time.Second)
			expect.NoError(t, err)
			expect.Equal(t, result == nil, true)
		}
		return workload.Stop(ctx, "swtpm", "SIGTERM", time.Minute)
	}))
	sent := node.WorkloadSignals()
	expect.Equal(t, len(sent), 3)
	expect.Equal(t, sent[0], drivertest.WorkloadSignal{WorkloadID: id, Signal: "SIGUSR1"})
	expect.Equal(t, sent[2], drivertest.WorkloadSignal{WorkloadID: id + "/swtpm", Signal: "SIGTERM"})
	node.EndWorkload(id, &workload.Result{ExitCode: 3})
	expect.NoError(t, do(func(ctx context.Context) error {
		expect.NoError(t, workload.Stop(ctx, "swtpm", "", 0))
		expect.Code(t, workload.Signal(ctx, "swtpm", "SIGHUP"), abi.FailedPrecondition)
		state, err := workload.Inspect(ctx, "swtpm")
		expect.NoError(t, err)
		expect.Equal(t, state.ExitedAtNs > 0, true)
		result, err := workload.Wait(ctx, "", -1)
		expect.NoError(t, err)
		expect.Equal(t, result.ExitCode, int32(3))
		return nil
	}))
}

func TestATestAnswersForCommandsInWorkloads(t *testing.T) {
	node, id, do := started(t)
	run := func(c workload.Command) (ended *workload.Ended, err error) {
		return ended, do(func(ctx context.Context) error {
			ended, err = workload.Exec(ctx, &c)
			return err
		})
	}
	_, err := run(workload.Command{Command: "/bin/true"})
	expect.Code(t, err, abi.PermissionDenied)
	node.OnWorkloadCommand(func(workloadID string, c *workload.Command) (*workload.Ended, error) {
		expect.Equal(t, workloadID, id+"/swtpm")
		return &workload.Ended{Stdout: c.Stdin}, nil
	})
	ended, err := run(workload.Command{Name: "swtpm", Command: "/bin/cat", Stdin: []byte("in")})
	expect.NoError(t, err)
	expect.Equal(t, string(ended.Stdout), "in")
	for _, beyond := range []workload.Command{{Command: "cat"}, {Command: "/x", TimeoutMs: 300_001}, {Command: "/x", Args: make([]string, 257)}} {
		_, err := run(beyond)
		expect.Code(t, err, abi.InvalidArgument)
	}
	node.EndWorkload(id, &workload.Result{})
	_, err = run(workload.Command{Command: "/bin/true"})
	expect.Code(t, err, abi.FailedPrecondition)
}

func TestATestNodeRefusesWhatEveryNodeRefuses(t *testing.T) {
	node, _, do := started(t)
	for code, f := range map[abi.Code]func(ctx context.Context) error{
		abi.NotFound:        func(ctx context.Context) error { return workload.Signal(ctx, "virtiofsd", "SIGHUP") },
		abi.InvalidArgument: func(ctx context.Context) error { return workload.Stop(ctx, "Virtiofsd", "", 0) },
	} {
		expect.Code(t, do(f), code)
	}
	expect.Code(t, do(func(ctx context.Context) error { return workload.Stop(ctx, "", "", 25*time.Hour) }), abi.InvalidArgument)
	expect.NoError(t, do(func(ctx context.Context) error {
		_, err := workload.Stats(ctx, "")
		return err
	}))
	_, err := node.Fingerprint() // which asks the same, about no task
	expect.Code(t, err, abi.FailedPrecondition)
}
