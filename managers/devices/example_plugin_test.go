package devices

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/managers/catalog"
	"github.com/wasmnode/wasmnode/managers/internal/catalogtest"
	"github.com/wasmnode/wasmnode/sdk/go/drivertest/guestbuild"
	"github.com/wasmnode/wasmnode/structs"
)

func TestTheExamplePluginServesDevicesFromPlugToUnplug(t *testing.T) {
	granted, plugins := t.TempDir(), t.TempDir()
	dir := filepath.Join(granted, "devices")
	require.NoError(t, os.Mkdir(dir, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a"), []byte("123"), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(plugins, "example.wasm"), guestbuild.Plugin(t, "guest-examples/devices/example"), 0o644))
	c, err := catalog.New(catalog.Config{Dir: plugins, Logger: hclog.NewNullLogger(), Loader: catalog.HostLoader{Host: deviceHost(t)}, Settings: catalog.Settings{Plugins: map[string]catalog.PluginSettings{
		"example": {Config: map[string]any{"dir": dir}, Grants: host.Grants{FS: host.FSGrant{ReadOnly: []string{granted}}}},
	}}})
	require.NoError(t, err)
	updates := &deviceUpdates{}
	m := New(Config{
		Catalog: c, Logger: hclog.NewNullLogger(), Updater: updates.update,
	})
	t.Cleanup(func() { m.Shutdown(); c.Shutdown() })
	c.Start()
	ctx, cancel := context.WithTimeout(t.Context(), catalogtest.TestTimeout)
	defer cancel()
	require.NoError(t, m.WaitForFirstFingerprint(ctx))
	require.Equal(t, "nomad/file/mock[a] healthy", updates.last())
	require.Equal(t, host.KindDevice, c.Status()[0].Type)

	mock := structs.AllocatedDevice{Vendor: "nomad", Type: "file", Name: "mock", DeviceIDs: []string{"a"}}
	r, err := m.Reserve(ctx, mock, consumer)
	require.NoError(t, err)
	require.Equal(t, &structs.DeviceReservation{
		Env:    map[string]string{"EXAMPLE_DEVICES": "a"},
		Mounts: []structs.Mount{{HostPath: filepath.Join(dir, "a"), TaskPath: "/devices/a", ReadOnly: true}},
	}, r)
	require.NoError(t, m.Release(ctx, mock, consumer))
	require.Eventually(t, func() bool {
		s, err := m.DeviceStats(mock)
		return err == nil && s.Devices["a"] != nil && *s.Devices["a"].Stats.Nested["file"].Attributes["size"].Int == 3
	}, catalogtest.TestTimeout, 10*time.Millisecond)

	require.NoError(t, os.WriteFile(filepath.Join(dir, "b"), nil, 0o644))
	until := func(want string) {
		require.Eventually(t, func() bool { return updates.last() == want }, catalogtest.TestTimeout, 10*time.Millisecond)
	}
	until("nomad/file/mock[a] healthy, nomad/file/mock[b] unhealthy")
	require.NoError(t, os.Rename(dir, dir+".away")) // both devices at once
	until("nomad/file/mock[a] unconfirmed, nomad/file/mock[b] unconfirmed")
}
