package structs_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/structs"
)

func TestATaskEventHasTheExitOfTheTask(t *testing.T) {
	for want, exit := range map[string]structs.ExitResult{
		"Exit Code: 0":               {},
		"Exit Code: 143, Signal: 15": {ExitCode: 143, Signal: 15},
		"Exit Code: 137, Signal: 9, Exit Message: \"OOM Killed\"": {ExitCode: 137, Signal: 9, OOMKilled: true},
		"Exit Code: 137, Exit Message: \"64 MiB of 64 MiB\"":      {ExitCode: 137, OOMKilled: true, Err: "64 MiB of 64 MiB"},
	} {
		e := structs.NewTaskEvent(structs.EventTerminated).WithExit(&exit)
		(&structs.TaskState{}).Append(e)
		require.Equal(t, want, e.DisplayMessage)
		require.Equal(t, &exit, e.Exit())
	}
}
