package agent_test

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/agent"
	"github.com/wasmnode/wasmnode/agent/agenttest"
	"github.com/wasmnode/wasmnode/runners/allocdir/allocdirtest"
	"github.com/wasmnode/wasmnode/sdk/go/drivertest/guestbuild"
)

func TestPluginsBuiltBeforeRunUnchanged(t *testing.T) {
	dir := t.TempDir()
	allocdirtest.Unmount(t, dir)
	plugins, devices := filepath.Join(dir, "plugins"), filepath.Join(dir, "devices")
	require.NoError(t, os.Mkdir(plugins, 0o700))
	require.NoError(t, os.Mkdir(devices, 0o700))
	for _, name := range []string{"c_minimal", "mock_driver", "example_device"} {
		require.NoError(t, os.WriteFile(filepath.Join(plugins, name+".wasm"), keptPlugin(t, name), 0o600))
	}
	require.NoError(t, os.WriteFile(filepath.Join(devices, "one"), []byte("I am a device"), 0o600))
	program := filepath.Join(dir, "exit.wasm")
	require.NoError(t, os.WriteFile(program, guestbuild.Program(t, "guest-examples/programs/exit"), 0o600))
	config := filepath.Join(dir, "node.hcl")
	require.NoError(t, os.WriteFile(config, fmt.Appendf(nil, `
		plugin "c_minimal" { grant { wasm { directories = [%q] } } }
		plugin "example" {
			file = "example_device.wasm"
			config { dir = %q }
			grant { fs { read_only = [%q] } }
		}`, dir, devices, devices), 0o600))
	client := runAgent(t, agent.Options{
		ConfigPaths: []string{config}, DataDir: filepath.Join(dir, "data"), PluginDir: plugins,
		HTTPAddr: "127.0.0.1:0", LogOutput: t.Output(),
	})

	withDevice := agenttest.Job("device", "mock_driver", map[string]any{"run_for": "1ms"})
	withDevice.TaskGroups[0].Tasks[0].Resources.Devices = []*nomad.RequestedDevice{{Name: "nomad/file/mock"}}
	for _, job := range []*nomad.Job{withDevice, agenttest.Job("program", "c_minimal", map[string]any{"module": program})} {
		_, _, err := client.Jobs().Register(job, nil)
		require.NoError(t, err)
	}
	complete := awaitComplete(t, client, "device")
	given := complete.AllocatedResources.Tasks["task"].Devices
	require.Len(t, given, 1)
	require.Equal(t, []string{"one"}, given[0].DeviceIDs)
	awaitComplete(t, client, "program")
}

// keptPlugin returns a plugin of testdata/plugins-v1.
func keptPlugin(t *testing.T, name string) []byte {
	t.Helper()
	file, err := os.Open(filepath.Join("testdata", "plugins-v1", name+".wasm.gz"))
	require.NoError(t, err)
	defer file.Close()
	archive, err := gzip.NewReader(file)
	require.NoError(t, err)
	wasm, err := io.ReadAll(archive)
	require.NoError(t, err)
	return wasm
}

// runAgent runs an agent until the test ends.
func runAgent(t *testing.T, o agent.Options) *nomad.Client {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	ready, ended := make(chan string, 1), make(chan error, 1)
	o.Ready = func(address string) { ready <- address }
	go func() { ended <- agent.Run(ctx, o) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-ended)
	})
	select {
	case address := <-ready:
		client, err := nomad.NewClient(&nomad.Config{Address: "http://" + address})
		require.NoError(t, err)
		t.Cleanup(client.Close)
		return client
	case err := <-ended:
		ended <- err
		require.FailNow(t, "the agent did not start", "%v", err)
		return nil
	}
}

// awaitComplete waits until a job's only allocation is complete.
func awaitComplete(t *testing.T, client *nomad.Client, job string) *nomad.Allocation {
	t.Helper()
	var last *nomad.Allocation
	require.Eventually(t, func() bool {
		stubs, _, err := client.Jobs().Allocations(job, true, nil)
		if err != nil || len(stubs) != 1 {
			return false
		}
		last, _, err = client.Allocations().Info(stubs[0].ID, nil)
		return err == nil && last.ClientStatus == nomad.AllocClientStatusComplete
	}, 3*time.Minute, 10*time.Millisecond, "%s: %+v", job, last)
	return last
}
