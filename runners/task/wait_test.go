package task_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/runners/task"
	"github.com/wasmnode/wasmnode/structs"
)

func TestANewVersionOfTheDriverTakesTheTask(t *testing.T) {
	t.Run("at once", func(t *testing.T) { testHandover(t, 0) })
	t.Run("when it can", func(t *testing.T) { testHandover(t, 4) })
}

func testHandover(t *testing.T, faults int) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, nil)
		f.start()
		synctest.Wait()
		left := faults
		f.world.Fail("recover", func() error {
			if left--; left >= 0 {
				return errUnavailable
			}
			return nil
		})
		f.world.Upgrade()
		if faults > 0 {
			time.Sleep(time.Minute)
		}
		synctest.Wait()
		require.Equal(t, faults+1, f.world.Count("recover web with version 1"))
		require.Equal(t, 1, f.world.Holds(), "the old version was given back")
		require.Equal(t, []string{received, setup, begun}, f.events())
		local, _, err := f.db.Task("a1", "web")
		require.NoError(t, err)
		require.Equal(t, "sha256:1", local.PluginDigest)
		if !onPlugin(t) { // whose handles stay the same
			require.Contains(t, string(local.Handle), "version 1")
		}
		f.world.Upgrade()
		synctest.Wait()
		require.Equal(t, 1, f.world.Count("recover web with version 2"), "and the next takes it from that one")
		require.Equal(t, 1, f.world.Holds())
		f.finish()
	})
}

// What the new version recovered is not the run any more when a signal brought another handle.
func TestASignalDuringAHandover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, nil)
		f.start()
		synctest.Wait()
		over := make(chan struct{})
		f.world.Fail("recover", func() error { <-over; return nil })
		f.world.Upgrade()
		synctest.Wait()
		require.NoError(t, f.r.Signal(t.Context(), "HUP", ""))
		close(over)
		synctest.Wait()
		require.Equal(t, 2, f.world.Count("recover web with version 1"))
		require.Equal(t, 1, f.world.Holds())
		local, _, err := f.db.Task("a1", "web")
		require.NoError(t, err)
		require.Equal(t, "sha256:1", local.PluginDigest)
		f.finish()
	})
}

func TestATaskThatTheNewVersionDoesNotTakeStays(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, nil)
		f.start()
		synctest.Wait()
		f.world.Fail("recover", func() error { return errors.New("too old") })
		f.world.Upgrade()
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Equal(t, []string{"web"}, f.world.Running())
		require.Equal(t, 1, f.world.Holds())
		require.Equal(t, 1, f.world.Count("recover web"), "it has said that it does not")
		require.Equal(t, []string{received, setup, begun}, f.events())
		f.r.Kill(nil)
		<-f.r.WaitCh()
		require.Equal(t, killed, f.events()[len(f.events())-1])
		f.finish()
	})
}

func TestADriverThatFaultsWhileWaitingRecoversTheTask(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, nil)
		faults := 2
		f.world.Fail("wait", func() error {
			if faults--; faults >= 0 {
				return errors.New("trap: unreachable")
			}
			return nil
		})
		var recovered []time.Duration
		begin := time.Now()
		f.world.Fail("recover", func() error {
			recovered = append(recovered, time.Since(begin))
			return nil
		})
		f.start()
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, []string{received, setup, begun}, f.events())
		require.Equal(t, []time.Duration{250 * time.Millisecond, 1250 * time.Millisecond}, recovered)
		f.finish()
	})
}

// What a driver answers that fails at waiting counts, and not that it failed.
func TestADriverThatFaultsWhileWaitingAndDoesNotKnowTheTaskAnyMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, nil)
		f.task.RestartPolicy.Attempts = ptr(0)
		f.world.Fail("wait", func() error {
			f.world.Fail("wait", nil)
			f.world.Lose()
			return errors.New("trap: unreachable")
		})
		f.start()
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, []string{
			received, setup, begun,
			"Failed Restoring Task: Task did not survive the end of what ran it, and starts again: task not found for given id", begun,
		}, f.events())
		f.finish()
	})
}

func TestAKillDoesNotWaitForADriverThatFaultsWhileWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, nil)
		f.world.Fail("wait", func() error {
			f.world.Fail("wait", nil)
			return errors.New("trap: unreachable")
		})
		f.start()
		time.Sleep(100 * time.Millisecond)
		begin := time.Now()
		f.r.Kill(nil)
		<-f.r.WaitCh()
		require.Zero(t, time.Since(begin))
		require.Equal(t, []string{received, setup, begun, killing, exit0, killed}, f.events())
		require.Zero(t, f.world.Count("recover"))
		f.finish()
	})
}

// silent is a driver that answers nothing, and no error.
type silent struct{ task.Driver }

func (silent) WaitTask(context.Context, *wasmnodev1.TaskConfig, *wasmnodev1.TaskHandle) (*structs.ExitResult, error) {
	return nil, nil
}

func TestADriverThatSaysNothingOfAnEndLosesTheTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, nil)
		f.task.RestartPolicy.Attempts = ptr(0)
		f.as = func(d task.Driver) task.Driver { return silent{d} }
		f.start()
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		require.Contains(t, f.events(),
			`Terminated: Exit Code: 0, Exit Message: "the driver lost the task: wait for task: the driver gave no result"`)
		require.Equal(t, structs.TaskDead, f.r.State().State)
		f.finish()
	})
}

func TestADriverThatAlwaysFaultsWhileWaitingLosesTheTask(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, nil)
		f.task.RestartPolicy.Attempts = ptr(0)
		f.world.Fail("wait", func() error { return errors.New("trap: unreachable") })
		f.start()
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		require.Equal(t, []string{
			received, setup, begun,
			`Terminated: Exit Code: 0, Exit Message: "the driver lost the task: trap: unreachable"`,
			"Not Restarting: Policy allows no restarts",
		}, f.events())
		require.Zero(t, f.world.Known(), "what it lost was destroyed")
		f.finish()
	})
}
