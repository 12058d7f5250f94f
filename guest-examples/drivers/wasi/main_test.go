package main

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/sdk/go/driver"
	"github.com/wasmnode/wasmnode/sdk/go/drivertest"
	"github.com/wasmnode/wasmnode/sdk/go/drivertest/guestbuild"
)

// both runs a test natively and against the compiled plugin.
func both(t *testing.T, test func(t *testing.T, node *drivertest.Node)) {
	t.Run("native", func(t *testing.T) {
		test(t, drivertest.New(t, func() driver.Driver { return wasi{} }))
	})
	t.Run("compiled", func(t *testing.T) {
		test(t, drivertest.NewCompiled(t, guestbuild.Plugin(t, "guest-examples/drivers/wasi"), nil))
	})
}

func TestATaskIsTheProgramThatItsConfigNames(t *testing.T) {
	both(t, func(t *testing.T, node *drivertest.Node) {
		task := node.Task(`{"module": "local/app.wasm", "args": ["-v", "ü"], "listen": ["http"], "signals": true, "stdin": "local/in", "mounts": [
			{"source": "local/data", "target": "/data"},
			{"source": "/srv/shared", "target": "/shared", "read_only": false}]}`)
		task.Mounts = []*driver.Mount{{TaskPath: "/volume", HostPath: "/srv/volume", ReadOnly: true}}
		handle, network, err := node.StartTask(task)
		require.NoError(t, err)
		require.Nil(t, network)
		require.Equal(t, task.Id, handle.WorkloadId)
		require.Equal(t, uint32(1), handle.Version)
		require.Len(t, node.Programs(), 1)
		program := node.Programs()[0]
		require.Equal(t, "local/app.wasm", program.Module)
		require.Equal(t, []string{"-v", "ü"}, program.Args)
		require.Equal(t, task.Env, program.Env)
		require.Equal(t, []string{"http"}, program.Listen)
		require.True(t, program.Signals)
		require.Equal(t, "local/in", program.Stdin)
		dirs := task.Directories
		require.Equal(t, []*driver.Mount{
			{TaskPath: "/alloc", HostPath: dirs.Shared},
			{TaskPath: "/local", HostPath: dirs.Local},
			{TaskPath: "/secrets", HostPath: dirs.Secrets},
			{TaskPath: "/volume", HostPath: "/srv/volume", ReadOnly: true},
			{TaskPath: "/data", HostPath: filepath.Join(dirs.Local, "data"), ReadOnly: true},
			{TaskPath: "/shared", HostPath: "/srv/shared"},
		}, program.Mounts)
	})
}

func TestWhatTheNodeRefusesIsTheStartsError(t *testing.T) {
	both(t, func(t *testing.T, node *drivertest.Node) {
		node.RefuseWasm(abi.NewRecoverableError(abi.NotFound, "local/app.wasm: no such file"))
		_, _, err := node.StartTask(node.Task(`{"module": "local/app.wasm"}`))
		require.ErrorIs(t, err, abi.NewError(abi.NotFound, ""))
		require.EqualError(t, err, "local/app.wasm: no such file")
		require.True(t, abi.IsRecoverable(err))
	})
}

func TestTheHostDoesTheRest(t *testing.T) {
	both(t, func(t *testing.T, node *drivertest.Node) {
		task := node.Task(`{"module": "m"}`)
		handle, _, err := node.StartTask(task)
		require.NoError(t, err)
		_, _, err = node.WaitTask(task, handle)
		require.Equal(t, abi.Unimplemented, abi.CodeOf(err))
	})
}

func TestAConfigWithoutAModuleOrWithAnUnknownFieldIsRefused(t *testing.T) {
	node := drivertest.New(t, func() driver.Driver { return wasi{} })
	for config, want := range map[string]string{
		`{}`:                                           "module",
		`{"module": ""}`:                               "module",
		`{"module": "m", "arg": []}`:                   "arg",
		`{"module": "m", "args": "x"}`:                 "args",
		`{"module": "m", "listen": "http"}`:            "listen",
		`{"module": "m", "signals": "yes"}`:            "signals",
		`{"module": "m", "mounts": [{"source": "x"}]}`: "target",
		`{"module": "m", "mounts": [{"source": "x", "target": "data"}]}`: "target",
	} {
		_, err := node.TryTask(config)
		require.ErrorContains(t, err, want, config)
	}
}

func TestTheDriverIsHealthyAnywhere(t *testing.T) {
	both(t, func(t *testing.T, node *drivertest.Node) {
		require.Equal(t, "wasi", node.Describe().Name)
		require.Equal(t, driver.IsolationChroot, node.Describe().Capabilities.FilesystemIsolation)
		f, err := node.Fingerprint()
		require.NoError(t, err)
		require.Equal(t, driver.Healthy, f.Health)
		require.True(t, f.Attributes["driver.wasi"].EqualVT(driver.Bool(true)))
	})
}
