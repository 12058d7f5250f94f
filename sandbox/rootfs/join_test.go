package rootfs_test

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	experimentalsys "github.com/tetratelabs/wazero/experimental/sys"
	"pgregory.net/rapid"

	"github.com/wasmnode/wasmnode/sandbox/rootfs"
)

// newSysfs makes a tree as the kernel's: a bus whose devices are links to where they
// are attached. Beside them lies what is not granted.
func newSysfs(t *testing.T) (bus, devices *rootfs.FS) {
	t.Helper()
	top := t.TempDir()
	for path, text := range map[string]string{
		"devices/pci0/usb1/idVendor":     "1d6b\n",
		"devices/pci0/usb1/1-1/idVendor": "0781\n",
		"devices/pci0/usb1/1-1/serial":   "A1\n",
		"module/secret":                  secret,
	} {
		require.NoError(t, os.MkdirAll(filepath.Join(top, filepath.Dir(path)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(top, path), []byte(text), 0o644))
	}
	require.NoError(t, os.MkdirAll(filepath.Join(top, "bus/usb/devices"), 0o755))
	for name, target := range map[string]string{
		"bus/usb/devices/usb1":            "../../../devices/pci0/usb1",
		"bus/usb/devices/1-1":             "../../../devices/pci0/usb1/1-1",
		"bus/usb/devices/module":          "../../../module",
		"bus/usb/devices/absolute":        filepath.Join(top, "devices/pci0/usb1"),
		"bus/usb/devices/to-root":         "../../../../../../../../../..",
		"bus/usb/devices/dangling":        "../../../devices/none",
		"bus/usb/devices/loop":            "../../../devices/loop",
		"devices/loop":                    "../bus/usb/devices/loop",
		"devices/pci0/usb1/1-1/subsystem": "../../../../bus/usb",
		"devices/pci0/usb1/1-1/stolen":    "../../../../module/secret",
		"devices/pci0/usb1/1-1/proc":      "/proc/self/root",
		"bus/usb/devices/over-two":        "1-1/subsystem/devices/usb1/idVendor",
		"bus/usb/devices/over-and-out":    "1-1/stolen",
		"bus/usb/devices/beside":          "../../../devices-not/x",
	} {
		require.NoError(t, os.Symlink(target, filepath.Join(top, name)))
	}
	open := func(dir string) *rootfs.FS {
		f, err := rootfs.Open(filepath.Join(top, dir), true)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, f.Close()) })
		return f
	}
	bus, devices = open("bus/usb"), open("devices")
	return bus, devices
}

func readAll(t *testing.T, f *rootfs.FS, name string) (string, experimentalsys.Errno) {
	t.Helper()
	opened, no := f.OpenFile(name, experimentalsys.O_RDONLY, 0)
	if no != 0 {
		return "", no
	}
	defer func() { require.Zero(t, opened.Close()) }()
	b := make([]byte, 64)
	n, no := opened.Read(b)
	return string(b[:n]), no
}

func TestLinksLeadFromOneJoinedDirectoryIntoAnother(t *testing.T) {
	bus, devices := newSysfs(t)
	_, no := readAll(t, bus, "devices/1-1/idVendor")
	require.Equal(t, experimentalsys.EPERM, no, "not before they are joined")
	rootfs.Join(bus, devices)
	for name, want := range map[string]string{
		"devices/usb1/idVendor":                    "1d6b\n",
		"devices/1-1/idVendor":                     "0781\n",
		"devices/1-1/subsystem/devices/1-1/serial": "A1\n",
		"devices/over-two":                         "1d6b\n",
		"devices/1-1/../../devices/usb1/idVendor":  "1d6b\n",
	} {
		got, no := readAll(t, bus, name)
		require.Zero(t, no, name)
		require.Equal(t, want, got, name)
		st, no := bus.Stat(name)
		require.Zero(t, no, name)
		require.True(t, st.Mode.IsRegular())
	}
	got, no := readAll(t, devices, "pci0/usb1/1-1/subsystem/devices/usb1/idVendor")
	require.Zero(t, no)
	require.Equal(t, "1d6b\n", got)

	dir, no := bus.OpenFile("devices/1-1", experimentalsys.O_RDONLY|experimentalsys.O_DIRECTORY, 0)
	require.Zero(t, no)
	entries, no := dir.Readdir(-1)
	require.Zero(t, no)
	require.Len(t, entries, 5)
	require.Zero(t, dir.Close())

	st, no := bus.Lstat("devices/1-1")
	require.Zero(t, no)
	require.NotZero(t, st.Mode&fs.ModeSymlink, "the last link is not followed")
	st, no = bus.Lstat("devices/1-1/subsystem")
	require.Zero(t, no)
	require.NotZero(t, st.Mode&fs.ModeSymlink)
	target, no := bus.Readlink("devices/1-1/subsystem")
	require.Zero(t, no)
	require.Equal(t, "../../../../bus/usb", target)
}

func TestLinksThatLeadToWhatIsNotJoinedAreRefused(t *testing.T) {
	bus, devices := newSysfs(t)
	rootfs.Join(bus, devices)
	for _, name := range []string{
		"devices/module/secret", "devices/module", "devices/absolute/idVendor", "devices/to-root/etc/passwd", "devices/loop",
		"devices/1-1/stolen", "devices/over-and-out", "devices/1-1/proc/etc/passwd", "devices/beside", "devices/module/../module/secret",
	} {
		got, no := readAll(t, bus, name)
		require.NotZero(t, no, name)
		require.NotContains(t, got, secret)
		_, no = bus.Stat(name)
		require.NotZero(t, no, name)
	}
	_, no := readAll(t, bus, "devices/dangling")
	require.Equal(t, experimentalsys.ENOENT, no)
	for _, name := range []string{"../module/secret", "../../module/secret"} {
		_, no := readAll(t, bus, name)
		require.NotZero(t, no, name)
	}
}

func TestJoinedDirectoriesAreOnlyReadThroughEachOther(t *testing.T) {
	top := t.TempDir()
	for _, dir := range []string{"a", "b"} {
		require.NoError(t, os.Mkdir(filepath.Join(top, dir), 0o755))
	}
	require.NoError(t, os.WriteFile(filepath.Join(top, "b", "file"), []byte("b"), 0o644))
	require.NoError(t, os.Symlink("../b", filepath.Join(top, "a", "link")))
	a, err := rootfs.Open(filepath.Join(top, "a"), false)
	require.NoError(t, err)
	defer func() { require.NoError(t, a.Close()) }()
	b, err := rootfs.Open(filepath.Join(top, "b"), true)
	require.NoError(t, err)
	defer func() { require.NoError(t, b.Close()) }()
	rootfs.Join(a, b)
	got, no := readAll(t, a, "link/file")
	require.Zero(t, no)
	require.Equal(t, "b", got)
	_, no = a.OpenFile("link/file", experimentalsys.O_RDWR, 0)
	require.NotZero(t, no)
	_, no = a.OpenFile("link/new", experimentalsys.O_RDWR|experimentalsys.O_CREAT, 0o644)
	require.NotZero(t, no)
	for _, no := range []experimentalsys.Errno{a.Unlink("link/file"), a.Rename("link/file", "x"), a.Chmod("link/file", 0o777), a.Link("link/file", "y"), a.Mkdir("link/d", 0o755)} {
		require.NotZero(t, no)
	}
	require.FileExists(t, filepath.Join(top, "b", "file"))
}

// Whatever links there are: what is read is what the kernel would read, and never lies
// outside.
func TestWhateverLinksThereAreNothingOutsideIsRead(t *testing.T) {
	places := []string{"a", "a/x", "b", "b/y", "out"}
	rapid.Check(t, func(r *rapid.T) {
		top, err := os.MkdirTemp("", "join")
		require.NoError(r, err)
		defer func() { require.NoError(r, os.RemoveAll(top)) }()
		for _, dir := range places {
			require.NoError(r, os.MkdirAll(filepath.Join(top, dir), 0o755))
			text := dir
			if dir == "out" {
				text = secret
			}
			require.NoError(r, os.WriteFile(filepath.Join(top, dir, "f"), []byte(text), 0o644))
		}
		element := rapid.SampledFrom([]string{"..", ".", "a", "b", "x", "y", "out", "f", "l0", "l1", "l2"})
		relative := func(label string) string {
			return path.Join(rapid.SliceOfN(element, 1, 5).Draw(r, label)...)
		}
		for i := range 3 {
			name := filepath.Join(top, rapid.SampledFrom(places).Draw(r, "place"), fmt.Sprint("l", i))
			require.NoError(r, os.Symlink(relative("target"), name))
		}
		a, err := rootfs.Open(filepath.Join(top, "a"), true)
		require.NoError(r, err)
		defer func() { require.NoError(r, a.Close()) }()
		b, err := rootfs.Open(filepath.Join(top, "b"), true)
		require.NoError(r, err)
		defer func() { require.NoError(r, b.Close()) }()
		rootfs.Join(a, b)
		for range 10 {
			name := relative("name")
			got, no := readAll(t, a, name)
			if no != 0 {
				continue
			}
			require.NotEqual(r, secret, got, name)
			want, err := os.ReadFile(filepath.Join(top, "a", name))
			require.NoError(r, err)
			require.Equal(r, string(want), got, name)
		}
	})
}
