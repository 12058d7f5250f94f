//go:build unix

package drivertest_test

import (
	"context"
	"testing"
	"time"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/sdk/go/driver"
	"github.com/wasmnode/wasmnode/sdk/go/drivertest"
	"github.com/wasmnode/wasmnode/sdk/go/internal/expect"
	"github.com/wasmnode/wasmnode/sdk/go/process"
	"github.com/wasmnode/wasmnode/sdk/go/workload"
)

// starter is a driver that starts a process, and leaves all else to the node.
type starter struct{ runner }

// The operations of a runner that this one has not.
type (
	described interface {
		Describe() *driver.Description
		Configure(context.Context, []byte) error
		Fingerprint(context.Context) (*driver.Fingerprint, error)
		StartTask(context.Context, *driver.TaskConfig) (*driver.TaskHandle, *driver.Network, error)
		RecoverTask(context.Context, *driver.TaskConfig, *driver.TaskHandle) (*driver.TaskHandle, error)
	}
	onlyStarts struct{ described }
)

func starting(t *testing.T, c process.Command) *drivertest.Node {
	return drivertest.New(t, func() driver.Driver { return onlyStarts{&starter{runner{build: build{name: "starter"}, command: c}}} })
}

func begun(t *testing.T, node *drivertest.Node) *driver.TaskConfig {
	t.Helper()
	task := node.Task("{}")
	_, _, err := node.StartTask(task)
	expect.NoError(t, err)
	return task
}

func TestWhatADriverLeavesToTheNodeIsDoneWithTheWorkload(t *testing.T) {
	node := starting(t, script("trap 'exit 7' TERM; echo up; while :; do sleep 0.05; done"))
	node.RunProcesses()
	task := begun(t, node)
	for node.Stdout() == "" { // until the trap is set
		time.Sleep(time.Millisecond)
	}
	status, err := node.Inspect(task)
	expect.NoError(t, err)
	expect.Equal(t, status.State, wasmnodev1.TaskState_TASK_STATE_RUNNING)
	expect.Equal(t, abi.CodeOf(node.Destroy(task, false)), abi.FailedPrecondition)
	_, err = node.Await(task, 0)
	expect.Equal(t, abi.CodeOf(err), abi.DeadlineExceeded)
	expect.NoError(t, node.Restart())

	expect.NoError(t, node.Stop(task, "SIGTERM", time.Minute))
	result, err := node.Await(task, time.Minute)
	expect.NoError(t, err)
	expect.Equal(t, result.ExitCode, int32(7))
	status, err = node.Inspect(task)
	expect.NoError(t, err)
	expect.Equal(t, status.State, wasmnodev1.TaskState_TASK_STATE_EXITED)
	expect.NoError(t, node.Destroy(task, false))
	_, err = node.Inspect(task)
	expect.Equal(t, abi.CodeOf(err), abi.NotFound)
}

func TestATaskThatIsKilledByASignalIsAwaited(t *testing.T) {
	node := starting(t, script("exec sleep 3600"))
	node.RunProcesses()
	task := begun(t, node)
	expect.NoError(t, node.Signal(task, "SIGKILL"))
	result, err := node.Await(task, time.Minute)
	expect.NoError(t, err)
	expect.Equal(t, result.Signal, int32(9))

	task = begun(t, node)
	expect.NoError(t, node.Destroy(task, true))
}

func TestAWorkloadThatATestEndsIsAwaited(t *testing.T) {
	node := starting(t, script("true"))
	task := begun(t, node)
	expect.NoError(t, node.Signal(task, "SIGHUP"))
	node.EndWorkload(task.Id, &workload.Result{ExitCode: 4})
	result, err := node.Await(task, time.Minute)
	expect.NoError(t, err)
	expect.Equal(t, result.ExitCode, int32(4))
}

func TestADriverIsAskedWhatItDoesItself(t *testing.T) {
	node := running(t, script("exec sleep 3600"))
	task := begun(t, node)
	expect.NoError(t, node.Stop(task, "SIGKILL", time.Minute))
	result, err := node.Await(task, time.Minute)
	expect.NoError(t, err)
	expect.Equal(t, result.Signal, int32(9))
	for _, err := range []error{node.Stop(node.Task("{}"), "", 0), node.Signal(node.Task("{}"), ""), node.Destroy(node.Task("{}"), true)} {
		expect.Equal(t, abi.CodeOf(err), abi.NotFound)
	}
}
