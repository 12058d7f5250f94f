package openat2_test

import (
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/wasmnode/wasmnode/internal/openat2"
)

func TestAPathIsOpenedWhileOthersRename(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "a", "b"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "x"), nil, 0o600))
	var over atomic.Bool
	var renaming sync.WaitGroup
	renaming.Go(func() {
		from, to := filepath.Join(dir, "x"), filepath.Join(dir, "a", "x")
		for !over.Load() {
			if err := os.Rename(from, to); err != nil {
				t.Error(err)
				return
			}
			from, to = to, from
		}
	})
	defer renaming.Wait()
	defer over.Store(true)
	root, err := unix.Open(dir, unix.O_PATH|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	defer func() { _ = unix.Close(root) }()
	for refused := 0; refused < 10; {
		fd, err := unix.Openat2(root, "a/b/../..", &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT})
		if err != nil {
			require.ErrorIs(t, err, unix.EAGAIN)
			refused++
		} else {
			require.NoError(t, unix.Close(fd))
		}
		fd, err = openat2.Path(root, "a/b/../..", unix.RESOLVE_IN_ROOT)
		require.NoError(t, err)
		require.NoError(t, unix.Close(fd))
	}
}

func TestAPathIsKeptBelow(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Symlink("..", filepath.Join(dir, "out")))
	root, err := unix.Open(dir, unix.O_PATH|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	defer func() { _ = unix.Close(root) }()
	for path, want := range map[string]error{"out": unix.EXDEV, "none": unix.ENOENT} {
		_, err := openat2.Path(root, path, unix.RESOLVE_BENEATH)
		require.ErrorIs(t, err, want)
	}
	_, err = openat2.Path(root, "out", unix.RESOLVE_NO_SYMLINKS)
	require.ErrorIs(t, err, unix.ELOOP)
}
