package task_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/runners/task"
)

func TestSignals(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, nil)
		f.start()
		synctest.Wait()
		ctx := context.Background()
		require.NoError(t, f.r.Signal(ctx, "HUP", "because"))
		require.Contains(t, f.world.Log(), "signal web SIGHUP")
		synctest.Wait()
		require.Contains(t, f.events(), "Signaling: Task being sent signal SIGHUP: because")
		f.world.SendEvent("web", "got it")
		synctest.Wait()
		require.Equal(t, "Driver: got it", f.events()[len(f.events())-1])
		if !onPlugin(t) { // whose handles do not change by a signal
			local, _, err := f.db.Task("a1", "web")
			require.NoError(t, err)
			require.Contains(t, string(local.Handle), "SIGHUP", "the driver's new handle is durable")
		}
		err := f.r.Signal(ctx, "SIGINTT", "")
		require.Equal(t, abi.InvalidArgument, abi.CodeOf(err))
		f.finish()
		require.ErrorIs(t, f.r.Signal(ctx, "SIGHUP", ""), task.ErrNotRunning)
	})
}

func TestASignalWaitsForNoLongerThanTheRunAndWhoAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, map[string]any{"kill_after": "3s"})
		f.start()
		synctest.Wait()
		over := make(chan struct{})
		f.world.Fail("signal", func() error { <-over; return nil })
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, f.r.Signal(ctx, "HUP", ""), context.DeadlineExceeded)
		require.ErrorIs(t, f.r.Signal(ctx, "HUP", ""), context.DeadlineExceeded)
		close(over)
		f.world.Fail("signal", nil)
		synctest.Wait()
		require.NoError(t, f.r.Restart(task.RestartRequest{}))
		time.Sleep(time.Second)
		require.ErrorIs(t, f.r.Signal(t.Context(), "HUP", ""), task.ErrNotRunning, "it is for the run that ends")
		synctest.Wait()
		require.Equal(t, 2, f.world.Started("web"))
		require.Equal(t, 1, f.world.Count("signal"))
		f.finish()
	})
}

func TestRestartsOnRequest(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, nil)
		f.start()
		synctest.Wait()
		require.NoError(t, f.r.Restart(task.RestartRequest{Reason: "by hand"}))
		synctest.Wait()
		require.Equal(t, []string{
			received, setup, begun, "Restart Signaled: by hand", exit0, "Restarting: Task restarting in 0s", begun,
		}, f.events())
		// One that counts as a failure asks the policy, which allows one, and counted none yet.
		require.NoError(t, f.r.Restart(task.RestartRequest{Reason: "unhealthy", Failure: true}))
		synctest.Wait()
		require.Equal(t, "Restarting: Task restarting in 10s", f.events()[len(f.events())-1])
		require.NoError(t, f.r.Restart(task.RestartRequest{}))
		synctest.Wait()
		require.Equal(t, begun, f.events()[len(f.events())-1], "what waits for its restart starts at once")
		require.NoError(t, f.r.Restart(task.RestartRequest{Reason: "unhealthy", Failure: true}))
		synctest.Wait()
		require.Equal(t, `Not Restarting: Exceeded allowed attempts 1 in interval 1m0s and mode is "fail"`, f.events()[len(f.events())-1])
		f.finish()
		require.ErrorIs(t, f.r.Restart(task.RestartRequest{Force: true}), task.ErrNotRunning)
	})
}

func TestARestartOrSignalBeforeTheStartIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, nil)
		f.cfg.Gate = func() <-chan struct{} { return nil }
		f.start()
		synctest.Wait()
		require.ErrorIs(t, f.r.Restart(task.RestartRequest{}), task.ErrNotRunning)
		require.ErrorIs(t, f.r.Signal(t.Context(), "SIGHUP", ""), task.ErrNotRunning)
		require.NoError(t, f.r.Restart(task.RestartRequest{Force: true}), "it starts anyway")
		synctest.Wait()
		require.Equal(t, []string{received}, f.events())
		f.finish()
	})
}
