package devices

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/managers/catalog"
	"github.com/wasmnode/wasmnode/managers/internal/catalogtest"
	"github.com/wasmnode/wasmnode/sdk/go/drivertest/guestbuild"
	"github.com/wasmnode/wasmnode/structs"
)

// twoPlugins is a device manager on two compiled plugins: the devices a and b of
// acme/gpu/x1, and the device file of nomad/file/mock.
func twoPlugins(t *testing.T) (m *Manager, mock structs.AllocatedDevice) {
	t.Helper()
	plugins, acme, files := t.TempDir(), t.TempDir(), t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(plugins, "faulty.wasm"), faultyDevice(t), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(plugins, "example.wasm"), guestbuild.Plugin(t, "guest-examples/devices/example"), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(files, "file"), []byte("12345"), 0o644))
	grants := deviceGrants
	grants.FS.ReadWrite = append([]string{acme}, grants.FS.ReadWrite...)
	grants.FS.ReadOnly = append([]string{files}, grants.FS.ReadOnly...)
	c, err := catalog.New(catalog.Config{Dir: plugins, Logger: hclog.NewNullLogger(), Loader: catalog.HostLoader{Host: deviceHost(t)},
		Settings: catalog.Settings{Plugins: map[string]catalog.PluginSettings{
			"faulty":  {Config: map[string]any{"dir": acme}, Grants: grants},
			"example": {Config: map[string]any{"dir": files}, Grants: grants},
		}},
	})
	require.NoError(t, err)
	m = New(Config{
		Catalog: c, Logger: hclog.NewNullLogger(), Updater: func([]*structs.DeviceGroup) {},
	})
	t.Cleanup(func() { m.Shutdown(); c.Shutdown() })
	c.Start()
	ctx, cancel := context.WithTimeout(t.Context(), catalogtest.TestTimeout)
	defer cancel()
	require.NoError(t, m.WaitForFirstFingerprint(ctx))
	return m, structs.AllocatedDevice{Vendor: "nomad", Type: "file", Name: "mock", DeviceIDs: []string{"file"}}
}

func TestStatsOfTwoCompiledPluginsAreKeptApart(t *testing.T) {
	m, mock := twoPlugins(t)
	require.Eventually(t, func() bool { return len(m.AllStats()) == 2 }, catalogtest.TestTimeout, 10*time.Millisecond)
	some, err := m.DeviceStats(devices("b"))
	require.NoError(t, err)
	require.Len(t, some.Devices, 1)
	require.Equal(t, int64(7), *some.Devices["b"].Summary.Int)
	some, err = m.DeviceStats(mock)
	require.NoError(t, err)
	require.Len(t, some.Devices, 1)
	require.Equal(t, int64(5), *some.Devices["file"].Stats.Nested["file"].Attributes["size"].Int)
}

func TestEachOfTwoCompiledPluginsReservesItsOwnDevices(t *testing.T) {
	m, mock := twoPlugins(t)
	r, err := m.Reserve(t.Context(), mock, consumer)
	require.NoError(t, err)
	require.Equal(t, map[string]string{"EXAMPLE_DEVICES": "file"}, r.Env)
	r, err = m.Reserve(t.Context(), devices("a", "b"), consumer)
	require.NoError(t, err)
	require.Equal(t, map[string]string{"ACME": "a,b"}, r.Env)
	for name, unknown := range map[string]structs.AllocatedDevice{
		"one of the devices is": devices("a", "c"),
		"the vendor is":         {Vendor: "other", Type: "gpu", Name: "x1", DeviceIDs: []string{"a"}},
		"the name is":           {Vendor: "acme", Type: "gpu", Name: "x2", DeviceIDs: []string{"a"}},
		"it is the other's":     {Vendor: "nomad", Type: "file", Name: "mock", DeviceIDs: []string{"a"}},
	} {
		_, err = m.Reserve(t.Context(), unknown, consumer)
		var refused *UnknownDeviceError
		require.ErrorAs(t, err, &refused, name)
	}
	require.NoError(t, m.Release(t.Context(), mock, consumer))
	require.NoError(t, m.Release(t.Context(), devices("a", "b"), consumer))
}
