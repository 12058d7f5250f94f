package node

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/structs/errdefs"
	"github.com/wasmnode/wasmnode/workload"
)

func TestTaskStatisticsAreThereWithoutASwitch(t *testing.T) {
	w := newWorld(t)
	w.start()
	w.run("s", "service")
	a := w.awaitStatus("s", structs.ClientRunning)
	for _, task := range []string{"", "t"} {
		usage, err := w.node.AllocationUsage(t.Context(), a.ID, task)
		require.NoError(t, err)
		require.EqualValues(t, 4096, *usage.Tasks["t"].MemoryRSS)
		require.Len(t, usage.Tasks, 1)
	}
	_, err := w.node.AllocationUsage(t.Context(), a.ID, "none")
	require.ErrorIs(t, err, errdefs.NotFound)
}

func TestAnOperationOnWhatHasEndedIsRefused(t *testing.T) {
	w := newWorld(t)
	w.start()
	id := w.batches(1)[0]
	require.ErrorIs(t, w.node.RestartAllocation(t.Context(), id, "", true), errdefs.FailedPrecondition)
	require.ErrorIs(t, w.node.SignalAllocation(t.Context(), id, "", "HUP"), errdefs.FailedPrecondition)
	require.ErrorIs(t, w.node.SignalAllocation(t.Context(), id, "", "NONE"), errdefs.InvalidArgument)
}

func TestEventsOfRestartsHaveNomadsTexts(t *testing.T) {
	w := newWorld(t)
	w.start()
	w.run("s", "service")
	id := w.awaitStatus("s", structs.ClientRunning).ID
	restart := func(task string, all bool) func() error {
		return func() error { return w.node.RestartAllocation(t.Context(), id, task, all) }
	}
	for text, do := range map[string]func() error{
		"User requested task to restart":          restart("t", false),
		"User requested running tasks to restart": restart("", false),
		"User requested all tasks to restart":     restart("", true),
	} {
		require.Eventually(t, func() bool { // a restart that is asked for during another one is the same
			events := w.awaitStatus("s", structs.ClientRunning).TaskStates["t"].Events
			return events[len(events)-1].Type == structs.EventStarted
		}, 10*time.Second, 10*time.Millisecond, text)
		require.Eventually(t, func() bool { return do() == nil }, 10*time.Second, 10*time.Millisecond, text)
		require.Eventually(t, func() bool {
			return slices.ContainsFunc(w.awaitStatus("s", structs.ClientRunning).TaskStates["t"].Events, func(e *structs.TaskEvent) bool {
				return e.DisplayMessage == text
			})
		}, 10*time.Second, 10*time.Millisecond, text)
	}
}

func TestCommandsRunInTasksUnlessTheOperatorDisablesExec(t *testing.T) {
	w := newWorld(t)
	w.start()
	w.run("s", "service")
	id := w.awaitStatus("s", structs.ClientRunning).ID
	var stdout bytes.Buffer
	exit, err := w.node.Exec(t.Context(), id, "t", &workload.ExecSpec{Command: "ls", Stdout: &stdout})
	require.NoError(t, err)
	require.Equal(t, 3, exit.ExitCode)
	require.Equal(t, "ls", stdout.String())
	require.ErrorIs(t, w.node.CanExec(id, "none"), errdefs.NotFound)
	require.ErrorIs(t, w.node.CanExec("none", "t"), errdefs.NotFound)
	require.ErrorIs(t, w.node.CanExec(w.batches(1)[0], "t"), errdefs.FailedPrecondition)

	w.node.cfg.NoExec = true
	_, err = w.node.Exec(t.Context(), id, "t", &workload.ExecSpec{Command: "ls"})
	require.ErrorIs(t, err, errdefs.PermissionDenied)
	require.ErrorContains(t, err, "disable_remote_exec")
}
