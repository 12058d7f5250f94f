package rootfs_test

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tetratelabs/wazero"
	experimentalsys "github.com/tetratelabs/wazero/experimental/sys"
	"github.com/tetratelabs/wazero/experimental/sysfs"

	"github.com/wasmnode/wasmnode/sandbox"
	"github.com/wasmnode/wasmnode/sandbox/rootfs"
	"github.com/wasmnode/wasmnode/sandbox/scan"
	"github.com/wasmnode/wasmnode/sdk/go/drivertest/guestbuild"
)

// runGuest runs a program with the world's mount at /data and returns its output.
func runGuest(t *testing.T, wasm []byte, mount experimentalsys.FS) string {
	t.Helper()
	e, err := sandbox.Open(sandbox.Config{})
	require.NoError(t, err)
	defer func() { require.NoError(t, e.Close(t.Context())) }()
	scanned, err := scan.Read(scan.NewSource(wasm), scan.DefaultLimits())
	require.NoError(t, err)
	m, err := e.Compile(t.Context(), scanned, sandbox.Options{MemoryMaxBytes: 64 << 20})
	require.NoError(t, err)
	defer func() { require.NoError(t, m.Close(t.Context())) }()
	var out bytes.Buffer
	files := wazero.NewFSConfig().(sysfs.FSConfig).WithSysFSMount(mount, "/data")
	_, err = m.Instantiate(t.Context(), wazero.NewModuleConfig().WithName("").WithFSConfig(files).WithStdout(&out).WithStderr(&out))
	if code, exited := sandbox.ExitCode(err); !exited || code != 0 {
		require.NoError(t, err, out.String())
	}
	return out.String()
}

// A guest sees no more through a switch than through what it is.
func TestAHostileGuestDoesNotGetOutOfASwitch(t *testing.T) {
	wasm := guestbuild.Program(t, "sandbox/rootfs/testdata/escape")
	w := newWorld(t)
	s := rootfs.NewSwitch(func() <-chan struct{} { return nil })
	require.NotContains(t, runGuest(t, wasm, s), "mine", "it is none")
	s.Set(func() (*rootfs.FS, error) {
		return rootfs.OpenWithin(filepath.Dir(w.mount), filepath.Base(w.mount), false)
	})
	out := runGuest(t, wasm, s)
	require.Zero(t, s.Clear(), "its end closes what it left open")
	require.True(t, strings.HasSuffix(out, "done\n"), out)
	require.NotContains(t, out, secret)
	require.NotContains(t, out, "root:x:")
	w.requireUntouched(t)
	require.Empty(t, descriptors(t, w.mount))
	require.Contains(t, out, `READ inner-file: "mine below"`, "what is inside can be had")
}

func TestAHostileGuestDoesNotGetOut(t *testing.T) {
	wasm := guestbuild.Program(t, "sandbox/rootfs/testdata/escape")
	for _, readOnly := range []bool{false, true} {
		t.Run(map[bool]string{false: "read-write", true: "read-only"}[readOnly], func(t *testing.T) {
			w := newWorld(t)
			mount, err := rootfs.Open(w.mount, readOnly)
			require.NoError(t, err)
			out := runGuest(t, wasm, mount)
			require.NotEmpty(t, descriptors(t, w.mount), "the check sees descriptors")
			require.NoError(t, mount.Close())

			require.True(t, strings.HasSuffix(out, "done\n"), out)
			require.NotContains(t, out, secret)
			require.NotContains(t, out, "root:x:")
			w.requireUntouched(t)
			require.Empty(t, descriptors(t, w.mount), "the guest leaves open files open; its end closes them")
			require.Contains(t, out, `READ inner-file: "mine below"`, "what is inside can be had")
		})
	}
}
