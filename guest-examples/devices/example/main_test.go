package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/sdk/go/device"
	"github.com/wasmnode/wasmnode/sdk/go/drivertest"
	"github.com/wasmnode/wasmnode/sdk/go/drivertest/guestbuild"
)

// inEachLanguage runs a test natively, against the compiled plugin, and against the same plugin in
// the other languages, with a directory that holds the devices "a" and "b", which is unhealthy.
func inEachLanguage(t *testing.T, test func(t *testing.T, node *drivertest.DeviceNode, dir string)) {
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
	for language, build := range map[string]func(t *testing.T) []byte{
		"go": func(t *testing.T) []byte { return guestbuild.Plugin(t, devices+"example") },
		"assemblyscript": func(t *testing.T) []byte {
			return guestbuild.AssemblyScriptPlugin(t, devices+"assemblyscript-example", "sdk/assemblyscript")
		},
		"c":    func(t *testing.T) []byte { return guestbuild.CReactor(t, devices+"c-example") },
		"rust": func(t *testing.T) []byte { return guestbuild.RustReactor(t, devices+"rust-example", "sdk/rust") },
		"zig":  func(t *testing.T) []byte { return guestbuild.ZigReactor(t, devices+"zig-example", "sdk/zig") },
	} {
		t.Run(language, func(t *testing.T) {
			run(t, func(dir string) *drivertest.DeviceNode { return drivertest.NewCompiledDevice(t, build(t), dir) })
		})
	}
}

const devices = "guest-examples/devices/"

// groupOf is a plugin's: two on a node cannot have the same.
func groupOf(node *drivertest.DeviceNode) *device.GroupID {
	if name := node.Describe().Name; name != "example" {
		return &device.GroupID{Vendor: "nomad", Type: "file", Name: name}
	}
	return group
}

func TestEveryFileIsADevice(t *testing.T) {
	inEachLanguage(t, func(t *testing.T, node *drivertest.DeviceNode, dir string) {
		f, err := node.Fingerprint()
		require.NoError(t, err)
		require.Len(t, f.Groups, 1)
		require.True(t, f.Groups[0].Id.EqualVT(groupOf(node)))
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
	inEachLanguage(t, func(t *testing.T, node *drivertest.DeviceNode, dir string) {
		group := groupOf(node)
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
	inEachLanguage(t, func(t *testing.T, node *drivertest.DeviceNode, dir string) {
		s, err := node.Stats()
		require.NoError(t, err)
		a := s.Groups[0].Devices["a"]
		require.Equal(t, int64(3), a.Summary.GetIntValue())
		require.Equal(t, "B", a.Summary.Unit)
		require.Equal(t, []string{"file", "size"}, a.Stats[0].Path)
		about, err := os.Stat(filepath.Join(dir, "a"))
		require.NoError(t, err)
		require.Equal(t, about.ModTime().Unix(), a.Stats[1].Value.GetIntValue())
		require.NotNil(t, s.Groups[0].Devices["b"].Summary.Value, "0 is a value")
	})
}

func TestADirectoryBelowOneThatIsGrantedIsRead(t *testing.T) {
	inEachLanguage(t, func(t *testing.T, node *drivertest.DeviceNode, dir string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "c", "inner"), []byte("1"), 0o644))
		require.NoError(t, os.Symlink("inner", filepath.Join(dir, "c", "link")))
		require.NoError(t, node.Configure(`{"dir": "`+dir+`/c"}`))
		f, err := node.Fingerprint()
		require.NoError(t, err)
		require.Len(t, f.Groups[0].Devices, 1, "a link is no regular file")
		require.Equal(t, "inner", f.Groups[0].Devices[0].Id)
	})
}

// More than an SDK reads of a directory at once.
func TestALongDirectoryIsReadToItsEnd(t *testing.T) {
	inEachLanguage(t, func(t *testing.T, node *drivertest.DeviceNode, dir string) {
		want := []string{"a", "b"}
		for i := range 500 {
			name := fmt.Sprintf("n%03d-%s", i, strings.Repeat("x", 60))
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o644))
			want = append(want, name)
		}
		f, err := node.Fingerprint()
		require.NoError(t, err)
		var got []string
		for _, d := range f.Groups[0].Devices {
			got = append(got, d.Id)
		}
		require.Equal(t, want, got)
	})
}

func TestADirectoryThatCannotBeReadIsUnavailable(t *testing.T) {
	inEachLanguage(t, func(t *testing.T, node *drivertest.DeviceNode, dir string) {
		require.NoError(t, node.Configure(`{"dir": "`+dir+`/nowhere"}`))
		_, err := node.Fingerprint()
		require.Equal(t, abi.Unavailable, abi.CodeOf(err))
		require.ErrorContains(t, err, "granted")
		require.Error(t, node.Configure(`{}`), "dir is required")
	})
}
