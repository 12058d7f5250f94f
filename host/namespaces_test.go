package host_test

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/host"
)

// namespaced keeps a new network namespace at a path.
func namespaced(t *testing.T, path string) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			done <- err
			return
		}
		done <- unix.Mount("/proc/thread-self/ns/net", path, "", unix.MS_BIND, "")
	}()
	require.NoError(t, <-done)
	t.Cleanup(func() { _ = unix.Unmount(path, unix.MNT_DETACH) })
}

func TestADriverNamesNoNetworkButThoseThatItIsGranted(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make network namespaces")
	}
	dir := t.TempDir()
	granted, other := filepath.Join(dir, "granted"), filepath.Join(dir, "other")
	for _, d := range []string{granted, other} {
		require.NoError(t, os.Mkdir(d, 0o700))
		namespaced(t, filepath.Join(d, "n"))
	}
	require.NoError(t, os.Symlink(granted, filepath.Join(dir, "link")))
	require.NoError(t, os.Symlink(filepath.Join(other, "n"), filepath.Join(granted, "out")))
	require.NoError(t, os.WriteFile(filepath.Join(granted, "file"), nil, 0o600))
	for name, source := range map[string]string{"own": "/proc/thread-self/ns/net", "names": "/proc/self/ns/uts"} {
		path := filepath.Join(granted, name)
		require.NoError(t, os.WriteFile(path, nil, 0o600))
		require.NoError(t, unix.Mount(source, path, "", unix.MS_BIND, ""))
		t.Cleanup(func() { _ = unix.Unmount(path, unix.MNT_DETACH) })
	}
	p := newWorld(t, host.Limits{}).ready(t, guest(nil, nil).Bytes(), host.Grants{Net: host.NetGrant{Namespaces: []string{filepath.Join(dir, "link")}}})
	for path, want := range map[string]struct {
		code abi.Code
		says string
	}{
		filepath.Join(granted, "n"):       {},
		filepath.Join(dir, "link", "n"):   {},
		filepath.Join(other, "n"):         {abi.PermissionDenied, `is not granted: add plugin "`},
		filepath.Join(granted, "out"):     {abi.PermissionDenied, "namespaces = [\"" + granted + "\"]"}, // where it leads is not told
		granted + "/../other/n":           {abi.PermissionDenied, "is not granted"},
		granted:                           {abi.PermissionDenied, "is not granted"},
		filepath.Join(granted, "file"):    {abi.InvalidArgument, "is no namespace"},
		filepath.Join(granted, "names"):   {abi.InvalidArgument, "is no network namespace"},
		filepath.Join(granted, "own"):     {abi.InvalidArgument, "is the node's own network"},
		filepath.Join(granted, "nothing"): {abi.FailedPrecondition, "no such file"},
		"relative":                        {abi.InvalidArgument, "is no absolute path"},
	} {
		f, err := p.OpenNamespace(path)
		if want.code == 0 {
			require.NoError(t, err, path)
			require.NoError(t, f.Close())
			continue
		}
		require.ErrorContains(t, err, want.says, path)
		require.Equal(t, want.code, abi.CodeOf(err), path)
	}
}
