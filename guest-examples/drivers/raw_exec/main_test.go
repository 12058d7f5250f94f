package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/sdk/go/driver"
	"github.com/wasmnode/wasmnode/sdk/go/drivertest"
	"github.com/wasmnode/wasmnode/sdk/go/drivertest/guestbuild"
	"github.com/wasmnode/wasmnode/sdk/go/process"
)

// both runs a test natively and against the compiled plugin.
func both(t *testing.T, test func(t *testing.T, node *drivertest.Node)) {
	t.Run("native", func(t *testing.T) {
		test(t, drivertest.New(t, func() driver.Driver { return new(rawExec) }))
	})
	t.Run("compiled", func(t *testing.T) {
		test(t, drivertest.NewCompiled(t, guestbuild.Plugin(t, "guest-examples/drivers/raw_exec"), nil))
	})
}

func TestATaskIsTheCommandThatItsConfigNames(t *testing.T) {
	both(t, func(t *testing.T, node *drivertest.Node) {
		task := node.Task(`{"command": "/bin/sleep", "args": ["1", "ü"], "work_dir": "local", "denied_envvars": ["SECRET"]}`)
		task.Env = map[string]string{"A": "1", "SECRET": "x"}
		task.User = "nobody"
		handle, network, err := node.StartTask(task)
		require.NoError(t, err)
		require.Nil(t, network)
		require.Equal(t, task.Id, handle.WorkloadId)
		require.Len(t, node.Processes(), 1)
		want := &process.Command{
			Command: "/bin/sleep", Args: []string{"1", "ü"}, Dir: "local", User: "nobody", Isolation: process.IsolationNone,
			Env: map[string]string{"A": "1", "PATH": defaultPath},
		}
		require.True(t, want.EqualVT(node.Processes()[0]), "%v", node.Processes()[0])
	})
}

func TestTheOperatorKeepsVariablesFromAllTasks(t *testing.T) {
	both(t, func(t *testing.T, node *drivertest.Node) {
		require.NoError(t, node.Configure(`{"enabled": true, "denied_envvars": ["TOKEN"]}`))
		task := node.Task(`{"command": "sleep", "denied_envvars": ["SECRET"]}`)
		task.Env = map[string]string{"A": "1", "SECRET": "x", "TOKEN": "y"}
		_, _, err := node.StartTask(task)
		require.NoError(t, err)
		require.Equal(t, map[string]string{"A": "1", "PATH": defaultPath}, node.Processes()[0].Env)
		require.Error(t, node.Configure(`{"enabled": false}`), "it is not the driver that is disabled, but its grant")
	})
}

func TestATasksOwnPathWins(t *testing.T) {
	both(t, func(t *testing.T, node *drivertest.Node) {
		task := node.Task(`{"command": "sleep"}`)
		task.Env = map[string]string{"PATH": "/opt/bin"}
		_, _, err := node.StartTask(task)
		require.NoError(t, err)
		require.Equal(t, map[string]string{"PATH": "/opt/bin"}, node.Processes()[0].Env)
	})
}

func TestWhatTheNodeRefusesIsTheStartsError(t *testing.T) {
	both(t, func(t *testing.T, node *drivertest.Node) {
		node.RefuseProcess(abi.NewError(abi.PermissionDenied, "command /bin/sleep is not granted"))
		_, _, err := node.StartTask(node.Task(`{"command": "/bin/sleep"}`))
		require.Equal(t, abi.PermissionDenied, abi.CodeOf(err))
		require.EqualError(t, err, "command /bin/sleep is not granted")
	})
}

func TestAConfigWithoutACommandOrWithAnUnknownFieldIsRefused(t *testing.T) {
	node := drivertest.New(t, func() driver.Driver { return new(rawExec) })
	for config, want := range map[string]string{
		`{}`:                                       "command",
		`{"command": ""}`:                          "command",
		`{"command": "c", "arg": []}`:              "arg",
		`{"command": "c", "args": "x"}`:            "args",
		`{"command": "c", "oom_score_adj": -1}`:    "oom_score_adj",
		`{"command": "c", "denied_envvars": [""]}`: "denied_envvars",
	} {
		_, err := node.TryTask(config)
		require.ErrorContains(t, err, want, config)
	}
}

func TestTheDriverIsHealthyOnceItIsGranted(t *testing.T) {
	both(t, func(t *testing.T, node *drivertest.Node) {
		require.Equal(t, "raw_exec", node.Describe().Name)
		require.Equal(t, driver.IsolationNone, node.Describe().Capabilities.FilesystemIsolation)
		require.True(t, node.Describe().Capabilities.SendSignals)
		f, err := node.Fingerprint()
		require.NoError(t, err)
		require.Equal(t, driver.Healthy, f.Health)
		require.True(t, f.Attributes["driver.raw_exec"].EqualVT(driver.Bool(true)))
	})
}

func TestACommandRunsOnTheMachineOfTheTest(t *testing.T) {
	both(t, func(t *testing.T, node *drivertest.Node) {
		node.RunProcesses()
		task := node.Task(`{"command": "sh", "args": ["-c", "echo hello; exit 4"]}`)
		_, _, err := node.StartTask(task)
		require.NoError(t, err)
		require.EqualValues(t, 4, node.AwaitWorkload(task.Id).ExitCode)
		require.Equal(t, "hello\n", node.Stdout())
	})
}
