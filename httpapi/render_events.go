package httpapi

import (
	"strconv"
	"time"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/structs"
)

// taskEvent renders an event. What its details say stands once more in the fields that
// Nomad had before it had details: scripts read them.
func taskEvent(e *structs.TaskEvent) *nomad.TaskEvent {
	number := func(key string) int64 {
		n, _ := strconv.ParseInt(e.Details[key], 10, 64) // of none it is 0
		return n
	}
	timeout, _ := time.ParseDuration(e.Details["kill_timeout"])
	return &nomad.TaskEvent{
		Type:             e.Type,
		Time:             e.Time,
		Message:          e.Message,
		DisplayMessage:   e.DisplayMessage,
		Details:          e.Details,
		FailsTask:        e.FailsTask,
		RestartReason:    e.Details["restart_reason"],
		StartDelay:       number("start_delay"),
		ExitCode:         int(number("exit_code")),
		Signal:           int(number("signal")),
		KillReason:       e.Details["kill_reason"],
		KillTimeout:      timeout,
		KillError:        e.Details["kill_error"],
		FailedSibling:    e.Details["failed_sibling"],
		TaskSignal:       e.Details["task_signal"],
		TaskSignalReason: e.Details["task_signal_reason"],
	}
}
