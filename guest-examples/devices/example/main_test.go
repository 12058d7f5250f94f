package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/sdk/go/device"
	"github.com/wasmnode/wasmnode/sdk/go/drivertest"
	"github.com/wasmnode/wasmnode/sdk/go/drivertest/guestbuild"
)

// both runs a test natively and against the compiled plugin, with a directory that
// holds the devices "a" and "b", which is unhealthy.
func both(t *testing.T, test func(t *testing.T, node *drivertest.DeviceNode, dir string)) {
	run := func(t *testing.T, newNode func(dir string) *drivertest.DeviceNode) {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, "a"), []byte("123"), 0o644))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "b"), nil, 0o644))
		require.NoError(t, os.Mkdir(filepath.Join(dir, "c"), 0o755))
		node := newNode(dir)
		require.NoError(t, node.Configure(`{"dir": "`+dir+`"}`))
		test(t, node, dir)
	}
	t.Run("native", func(t *testing.T) {
		run(t, func(string) *drivertest.DeviceNode {
			return drivertest.NewDevice(t, func() device.Plugin { return &example{} })
		})
	})
	t.Run("compiled", func(t *testing.T) {
		run(t, func(dir string) *drivertest.DeviceNode {
			return drivertest.NewCompiledDevice(t, guestbuild.Plugin(t, "guest-examples/devices/example"), dir)
		})
	})
}

func TestEveryFileIsADevice(t *testing.T) {
	both(t, func(t *testing.T, node *drivertest.DeviceNode, dir string) {
		f, err := node.Fingerprint()
		require.NoError(t, err)
		require.Len(t, f.Groups, 1)
		require.True(t, f.Groups[0].Id.EqualVT(group))
		require.True(t, f.Groups[0].Attributes["dir"].EqualVT(device.String(dir)))
		require.Len(t, f.Groups[0].Devices, 2)
		require.True(t, f.Groups[0].Devices[0].EqualVT(&device.Device{Id: "a", Healthy: true}))
		require.True(t, f.Groups[0].Devices[1].EqualVT(&device.Device{Id: "b", HealthDescription: "the file is empty"}))

		require.NoError(t, os.Remove(filepath.Join(dir, "a")))
		require.NoError(t, os.Remove(filepath.Join(dir, "b")))
		f, err = node.Fingerprint()
		require.NoError(t, err)
		require.Empty(t, f.Groups)
	})
}

func TestATaskGetsTheFileAndItsName(t *testing.T) {
	both(t, func(t *testing.T, node *drivertest.DeviceNode, dir string) {
		edits, err := node.Reserve(group, "web", "a", "b")
		require.NoError(t, err)
		require.Equal(t, []string{"EXAMPLE_DEVICES=a,b"}, edits.Env)
		require.Len(t, edits.Mounts, 2)
		require.True(t, edits.Mounts[0].EqualVT(&device.Mount{HostPath: filepath.Join(dir, "a"), ContainerPath: "/devices/a"}))

		_, err = node.Reserve(group, "web", "gone")
		require.Equal(t, abi.NotFound, abi.CodeOf(err))
		require.Equal(t, abi.Unimplemented, abi.CodeOf(node.Release(group, "web", "a")), "there is nothing to undo")
	})
}

func TestStatsAreTheSizesOfTheFiles(t *testing.T) {
	both(t, func(t *testing.T, node *drivertest.DeviceNode, _ string) {
		s, err := node.Stats()
		require.NoError(t, err)
		a := s.Groups[0].Devices["a"]
		require.Equal(t, int64(3), a.Summary.GetIntValue())
		require.Equal(t, "B", a.Summary.Unit)
		require.Equal(t, []string{"file", "size"}, a.Stats[0].Path)
		require.NotNil(t, s.Groups[0].Devices["b"].Summary.Value, "0 is a value")
	})
}

func TestADirectoryThatCannotBeReadIsUnavailable(t *testing.T) {
	both(t, func(t *testing.T, node *drivertest.DeviceNode, dir string) {
		require.NoError(t, node.Configure(`{"dir": "`+dir+`/nowhere"}`))
		_, err := node.Fingerprint()
		require.Equal(t, abi.Unavailable, abi.CodeOf(err))
		require.ErrorContains(t, err, "granted")
		require.Error(t, node.Configure(`{}`), "dir is required")
	})
}
