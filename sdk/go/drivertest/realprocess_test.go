//go:build unix

package drivertest_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/sdk/go/driver"
	"github.com/wasmnode/wasmnode/sdk/go/drivertest"
	"github.com/wasmnode/wasmnode/sdk/go/internal/expect"
	"github.com/wasmnode/wasmnode/sdk/go/process"
	"github.com/wasmnode/wasmnode/sdk/go/workload"
)

// runner is a driver that runs one command as each task.
type runner struct {
	build
	command process.Command
}

func (r *runner) StartTask(ctx context.Context, _ *driver.TaskConfig) (*driver.TaskHandle, *driver.Network, error) {
	c := r.command
	id, err := process.Start(ctx, &c)
	if err != nil {
		return nil, nil, err
	}
	return &driver.TaskHandle{WorkloadId: id}, nil, nil
}

func (r *runner) RecoverTask(context.Context, *driver.TaskConfig, *driver.TaskHandle) (*driver.TaskHandle, error) {
	return nil, nil
}

func (r *runner) WaitTask(ctx context.Context, _ string, _ *driver.TaskHandle) (*driver.ExitResult, time.Duration, error) {
	result, err := workload.Wait(ctx, "", time.Minute)
	return result, 0, err
}

func (r *runner) StopTask(ctx context.Context, _ string, _ *driver.TaskHandle, signal string, timeout time.Duration) (*driver.TaskHandle, error) {
	return nil, workload.Stop(ctx, "", signal, timeout)
}

func (r *runner) SignalTask(ctx context.Context, _ string, _ *driver.TaskHandle, signal string) (*driver.TaskHandle, error) {
	return nil, workload.Signal(ctx, "", signal)
}

func script(text string) process.Command {
	return process.Command{Command: "/bin/sh", Args: []string{"-c", text}, Isolation: process.IsolationNone, Env: map[string]string{"A": "1"}}
}

func running(t *testing.T, c process.Command) *drivertest.Node {
	t.Helper()
	node := drivertest.New(t, func() driver.Driver { return &runner{build: build{name: "runner"}, command: c} })
	node.RunProcesses()
	return node
}

func TestAProcessRunsOnRequest(t *testing.T) {
	node := running(t, script(`echo "$A $HOME $(pwd)"; echo oops >&2; exit 3`))
	task := node.Task("")
	h, _, err := node.StartTask(task)
	expect.NoError(t, err)
	result, _, err := node.WaitTask(task, h)
	expect.NoError(t, err)
	expect.Equal(t, result.ExitCode, int32(3))
	expect.Equal(t, node.AwaitWorkload(task.Id).ExitCode, int32(3))
	expect.Equal(t, node.Stdout(), "1  "+task.Directories.Task+"\n", "nothing of the test's environment")
	expect.Equal(t, node.Stderr(), "oops\n")
}

func TestAProcessIsSignalledStoppedAndOutlivesTheAgent(t *testing.T) {
	node := running(t, script(`trap 'echo one' USR1; trap 'echo term' TERM; echo ready; while :; do sleep 0.05; done`))
	task := node.Task("")
	_, _, err := node.StartTask(task)
	expect.NoError(t, err)
	wait := func(text string) {
		t.Helper()
		for began := time.Now(); !strings.Contains(node.Stdout(), text); time.Sleep(time.Millisecond) {
			expect.True(t, time.Since(began) < time.Minute, text)
		}
	}
	wait("ready")
	expect.NoError(t, node.Restart())
	_, err = node.SignalTask(task, node.Handle(task), "SIGUSR1") // SIGHUP is ignored by what a test under nohup starts
	expect.NoError(t, err)
	wait("one")
	_, err = node.SignalTask(task, node.Handle(task), "SIGNONE")
	expect.Code(t, err, abi.InvalidArgument)
	_, err = node.StopTask(task, node.Handle(task), "SIGTERM", 200*time.Millisecond)
	expect.NoError(t, err)
	wait("term")
	expect.Equal(t, node.AwaitWorkload(task.Id).Signal, int32(9), "it did not end by itself")
	expect.Equal(t, node.WorkloadSignals()[0].Signal, "SIGUSR1")
}

func TestWhatRunsEndsWithItsTask(t *testing.T) {
	node := running(t, script(`sleep 1000 & wait`))
	task := node.Task("")
	_, _, err := node.StartTask(task)
	expect.NoError(t, err)
	expect.NoError(t, node.DestroyTask(task, node.Handle(task), true))
	expect.Equal(t, node.AwaitWorkload(task.Id).Signal, int32(9))
}

func TestAProcessThatATestCannotRunFails(t *testing.T) {
	isolated, as := script("true"), script("true")
	isolated.Isolation, as.User = process.IsolationFull, "nobody"
	for _, c := range []struct {
		command process.Command
		want    abi.Code
	}{
		{isolated, abi.Unimplemented},
		{as, abi.Unimplemented},
		{process.Command{Command: "/no/such", Isolation: process.IsolationNone}, abi.NotFound},
		{process.Command{Command: "no-such", Isolation: process.IsolationNone}, abi.NotFound},
		{process.Command{Command: "/etc/passwd", Isolation: process.IsolationNone}, abi.PermissionDenied},
	} {
		node := running(t, c.command)
		_, _, err := node.StartTask(node.Task(""))
		expect.Code(t, err, c.want, c.command.Command)
		expect.Equal(t, len(node.Processes()), 0)
	}
}
