package httpapi

import (
	"errors"
	"testing"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/structs"
)

// TestEventsHaveTheFieldsOfOldScripts compares all but what every event has.
func TestEventsHaveTheFieldsOfOldScripts(t *testing.T) {
	event := func() *structs.TaskEvent { return structs.NewTaskEvent("x") }
	for name, c := range map[string]struct {
		event *structs.TaskEvent
		want  nomad.TaskEvent
	}{
		"nothing":  {event(), nomad.TaskEvent{}},
		"exit":     {event().WithExit(&structs.ExitResult{ExitCode: 137, Signal: 9}), nomad.TaskEvent{ExitCode: 137, Signal: 9}},
		"kill":     {event().WithKillTimeout(5 * time.Second).WithKillReason("why"), nomad.TaskEvent{KillTimeout: 5 * time.Second, KillReason: "why"}},
		"failed":   {event().WithKillError(errors.New("no")), nomad.TaskEvent{KillError: "no"}},
		"restart":  {event().WithRestart("why", time.Second), nomad.TaskEvent{RestartReason: "why", StartDelay: int64(time.Second)}},
		"no start": {event().WithRestart("why", 0).Fails(), nomad.TaskEvent{RestartReason: "why", FailsTask: true}},
		"sibling":  {event().WithFailedSibling("b"), nomad.TaskEvent{FailedSibling: "b"}},
		"signal":   {event().WithSignal("SIGHUP", "why"), nomad.TaskEvent{TaskSignal: "SIGHUP", TaskSignalReason: "why"}},
		"message":  {event().WithMessage("text"), nomad.TaskEvent{Message: "text"}},
	} {
		t.Run(name, func(t *testing.T) {
			c.want.Type, c.want.Time, c.want.DisplayMessage, c.want.Details = c.event.Type, c.event.Time, c.event.DisplayMessage, c.event.Details
			require.Equal(t, &c.want, taskEvent(c.event))
		})
	}
}
