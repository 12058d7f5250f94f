package supervisor_test

import (
	"net/http"
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
	dir := smallDisk(t)
	p := begin(t, dir, time.Hour)
	c := connect(t, dir, nil)
	fill := fillDisk(t, dir)
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

// TestASupervisorStaysUntilTheDiskHasTakenWhatItKnows: one that ended, or became another
// program, would forget how workloads ended.
func TestASupervisorStaysUntilTheDiskHasTakenWhatItKnows(t *testing.T) {
	dir := smallDisk(t)
	p := begin(t, dir, time.Hour)
	c := connect(t, dir, nil)
	require.NoError(t, c.Start(t.Context(), spec(t, "a", "exit", "7"))) // it has its module then
	_, err := c.Wait(t.Context(), "a")
	require.NoError(t, err)
	fill := fillDisk(t, dir)
	require.NoError(t, c.Start(t.Context(), spec(t, "b", "exit", "8")))
	exit, err := c.Wait(t.Context(), "b")
	require.NoError(t, err)
	require.Equal(t, 8, exit.ExitCode)
	require.Equal(t, http.StatusUnprocessableEntity, askForReplacement(t, dir))
	require.NoError(t, c.Close())
	require.Eventually(t, func() bool {
		clients, _ := p.server.Needed()
		return clients == 0
	}, 10*time.Second, time.Millisecond)
	require.False(t, p.server.BeIdle(), "it has something to write down")
	require.NoError(t, os.Remove(fill))
	require.Eventually(t, p.server.BeIdle, 10*time.Second, time.Millisecond)
	require.NoError(t, <-p.ended, "by itself")

	p = begin(t, dir, time.Hour)
	defer p.end(t)
	exit, err = connect(t, dir, nil).Wait(t.Context(), "b")
	require.NoError(t, err)
	require.Equal(t, 8, exit.ExitCode)
}

// smallDisk is a directory on a disk of 1 MB.
func smallDisk(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := syscall.Mount("none", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("this machine lets the test mount nothing: %v", err)
	}
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(dir, syscall.MNT_DETACH)) })
	return dir
}

// fillDisk fills the disk with a file, whose path it returns.
func fillDisk(t *testing.T, dir string) (fill string) {
	t.Helper()
	fill = filepath.Join(dir, "fill")
	require.ErrorIs(t, os.WriteFile(fill, make([]byte, 2<<20), 0o600), syscall.ENOSPC)
	return fill
}
