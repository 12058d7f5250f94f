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
		test(t, drivertest.New(t, func() driver.Driver { return exec{} }))
	})
	t.Run("compiled", func(t *testing.T) {
		test(t, drivertest.NewCompiled(t, guestbuild.Plugin(t, "guest-examples/drivers/exec"), nil))
	})
}

func TestATaskIsAnIsolatedCommand(t *testing.T) {
	both(t, func(t *testing.T, node *drivertest.Node) {
		for user, want := range map[string]string{"": "nobody", "web": "web"} {
			task := node.Task(`{"command": "local/server", "args": ["-v"], "work_dir": "/local", "cap_add": ["net_raw"], "cap_drop": ["all"]}`)
			task.User = user
			handle, _, err := node.StartTask(task)
			require.NoError(t, err)
			require.Equal(t, task.Id, handle.WorkloadId)
			processes := node.Processes()
			started := processes[len(processes)-1]
			require.True(t, (&process.Command{
				Command: "local/server", Args: []string{"-v"}, Env: task.Env, Dir: "/local", User: want, Isolation: process.IsolationFull,
				AddCapabilities: []string{"net_raw"}, DropCapabilities: []string{"all"},
			}).EqualVT(started), "%v", started)
		}
	})
}

func TestATaskBeginsInTheNetworkAndOnTheProcessorsOfItsConfig(t *testing.T) {
	both(t, func(t *testing.T, node *drivertest.Node) {
		for config, want := range map[string]*process.Command{
			`{"command": "c"}`:                                   {},
			`{"command": "c", "network_mode": "group"}`:          {},
			`{"command": "c", "network_mode": "host"}`:           {Network: process.NetworkHost},
			`{"command": "c", "network_mode": "none"}`:           {Network: process.NetworkNone},
			`{"command": "c", "network_mode": "/run/netns/vpn"}`: {Network: process.NetworkNamespace, NetworkNamespace: "/run/netns/vpn"},
			`{"command": "c", "cpuset_cpus": "0-3,6"}`:           {Cpuset: "0-3,6"},
		} {
			_, _, err := node.StartTask(node.Task(config))
			require.NoError(t, err, config)
			processes := node.Processes()
			started := processes[len(processes)-1]
			require.Equal(t, want.Network, started.Network, config)
			require.Equal(t, want.NetworkNamespace, started.NetworkNamespace, config)
			require.Equal(t, want.Cpuset, started.Cpuset, config)
		}
		_, _, err := node.StartTask(node.Task(`{"command": "c", "cpuset_cpus": "0-"}`))
		require.Equal(t, abi.InvalidArgument, abi.CodeOf(err))
	})
}

func TestWhereTheNodeCannotIsolateTheDriverIsUnhealthyAndStartsNothing(t *testing.T) {
	both(t, func(t *testing.T, node *drivertest.Node) {
		f, err := node.Fingerprint()
		require.NoError(t, err)
		require.Equal(t, driver.Healthy, f.Health)
		require.True(t, f.Attributes["driver.exec"].EqualVT(driver.Bool(true)))

		node.LackFullIsolation("no user namespaces")
		f, err = node.Fingerprint()
		require.NoError(t, err)
		require.Equal(t, driver.Unhealthy, f.Health)
		require.Equal(t, "no full isolation: no user namespaces", f.Description)
		require.Empty(t, f.Attributes)
		_, _, err = node.StartTask(node.Task(`{"command": "/bin/true"}`))
		require.Equal(t, abi.Unimplemented, abi.CodeOf(err))
		require.EqualError(t, err, "isolation full: no user namespaces")
		require.Empty(t, node.Processes())
	})
}

func TestAConfigWithoutACommandOrWithAnUnknownFieldIsRefused(t *testing.T) {
	node := drivertest.New(t, func() driver.Driver { return exec{} })
	for config, want := range map[string]string{
		`{}`:                                    "command",
		`{"command": "c", "work_dir": "x"}`:     "work_dir",
		`{"command": "c", "user": "x"}`:         "user",
		`{"command": "c", "pid_mode": "host"}`:  "pid_mode",
		`{"command": "c", "network_mode": "x"}`: "network_mode",
	} {
		_, err := node.TryTask(config)
		require.ErrorContains(t, err, want, config)
	}
}
