package task_test

import (
	"bytes"
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/runners/task"
	"github.com/wasmnode/wasmnode/workload"
)

func TestACommandRunsInARunningTaskOnly(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, map[string]any{"run_for": "1h"})
		r := f.build()
		require.ErrorIs(t, r.CanExec(), task.ErrNotRunning, "before it runs")
		f.start()
		synctest.Wait()
		require.NoError(t, f.r.CanExec())
		var stdout bytes.Buffer
		exit, err := f.r.Exec(t.Context(), &workload.ExecSpec{Command: "ls", Stdout: &stdout})
		require.NoError(t, err)
		require.Equal(t, 3, exit.ExitCode)
		require.Equal(t, "ls in web", stdout.String())

		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = f.r.Exec(ctx, &workload.ExecSpec{Command: "hang"})
		require.ErrorIs(t, err, context.Canceled)

		f.finish()
		require.ErrorIs(t, f.r.CanExec(), task.ErrNotRunning, "after it ran")
		_, err = f.r.Exec(t.Context(), &workload.ExecSpec{Command: "ls"})
		require.ErrorIs(t, err, task.ErrNotRunning)
	})
}

// idle is a driver that can do nothing but run tasks.
type idle struct{ task.Driver }

func (idle) Capabilities() *wasmnodev1.DriverCapabilities { return &wasmnodev1.DriverCapabilities{} }

func TestADriverThatRunsNoCommandsAndSendsNoSignals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, nil)
		f.as = func(d task.Driver) task.Driver { return idle{d} }
		f.start()
		synctest.Wait()
		require.Equal(t, abi.Unimplemented, abi.CodeOf(f.r.CanExec()))
		_, err := f.r.Exec(t.Context(), &workload.ExecSpec{Command: "ls"})
		require.ErrorContains(t, err, `driver "mock" does not run commands in its tasks`)
		require.ErrorContains(t, f.r.Signal(t.Context(), "HUP", ""), `driver "mock" does not send signals`)
		require.Equal(t, []string{received, setup, begun}, f.events())
		f.finish()
	})
}

func TestACommandEndsWithTheRunnerNotWithTheKill(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, map[string]any{"run_for": "1h"})
		f.start()
		synctest.Wait()
		done := make(chan error, 1)
		go func() {
			_, err := f.r.Exec(context.Background(), &workload.ExecSpec{Command: "hang"})
			done <- err
		}()
		synctest.Wait()
		require.Empty(t, done)
		f.restartAgent()
		require.ErrorIs(t, <-done, context.Canceled)
		f.finish()
	})
}
