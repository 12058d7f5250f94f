package supervisor_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/workload/supervisor"
)

// TestAResultThatAFullDiskDidNotTakeIsReportedAndWrittenLater: a workload's end is known
// though it cannot be written down, and is written once there is room again.
func TestAResultThatAFullDiskDidNotTakeIsReportedAndWrittenLater(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("none", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("this machine lets the test mount nothing: %v", err)
	}
	defer func() { require.NoError(t, syscall.Unmount(dir, 0)) }()
	p := begin(t, dir, time.Hour)
	c := connect(t, dir, nil)
	fill := filepath.Join(dir, "fill")
	require.ErrorIs(t, os.WriteFile(fill, make([]byte, 2<<20), 0o600), syscall.ENOSPC)
	for _, id := range []string{"a", "b"} {
		require.NoError(t, c.Start(t.Context(), spec(t, id, "exit", "7")))
		exit, err := c.Wait(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, 7, exit.ExitCode)
	}
	require.NoError(t, c.Destroy(t.Context(), "b"))
	files, err := os.ReadDir(supervisor.Results(dir))
	require.NoError(t, err)
	require.Empty(t, files, "nothing half-written is left")

	require.NoError(t, os.Remove(fill))
	require.NoError(t, c.Start(t.Context(), spec(t, "later", "exit", "0")))
	_, err = c.Wait(t.Context(), "later")
	require.NoError(t, err)
	p.end(t)

	p = begin(t, dir, time.Hour)
	defer p.end(t)
	exit, err := c.Wait(t.Context(), "a")
	require.NoError(t, err)
	require.Equal(t, 7, exit.ExitCode)
	_, err = c.Wait(t.Context(), "b")
	require.ErrorIs(t, err, abi.ErrTaskNotFound, "it was acknowledged")
}
