package task_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestALogThatCannotBeWrittenIsOneEventAndTriedAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, nil)
		logs := filepath.Join(f.dir.Path(), "alloc", "logs")
		require.NoError(t, os.Remove(logs))
		require.NoError(t, os.WriteFile(logs, nil, 0o600))
		f.start()
		time.Sleep(time.Second)
		failed := "Task hook failed: logs: " + logs + " is not a directory"
		again := "Restarting: Task restarting in 10s"
		require.Equal(t, []string{received, setup, failed, again}, f.events())
		require.Zero(t, f.world.Started("web"))
		require.NoError(t, os.Remove(logs))
		require.NoError(t, os.Mkdir(logs, 0o777))
		time.Sleep(10 * time.Second)
		require.Equal(t, []string{received, setup, failed, again, begun}, f.events())
		f.finish()
	})
}

func TestALogOnAFileSystemThatRefusesFailsTheTaskByItsPolicy(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, nil)
		logs := filepath.Join(f.dir.Path(), "alloc", "logs")
		if err := syscall.Mount("tmpfs", logs, "tmpfs", syscall.MS_RDONLY, ""); err != nil {
			t.Skipf("cannot mount a file system: %v", err)
		}
		t.Cleanup(func() { require.NoError(t, syscall.Unmount(logs, syscall.MNT_DETACH)) })
		f.start()
		f.untilDead()
		failed := "Task hook failed: logs: " + logs + " cannot be written: read-only file system"
		require.Equal(t, []string{
			received, setup, failed, "Restarting: Task restarting in 10s", failed,
			`Not Restarting: Exceeded allowed attempts 1 in interval 1m0s and mode is "fail"`,
		}, f.events())
		require.Zero(t, f.world.Started("web"))
		f.finish()
	})
}
