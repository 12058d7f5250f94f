package agent

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/structs"
)

func TestWhatBecomesOfTasksIsLoggedOnce(t *testing.T) {
	var out bytes.Buffer
	logger := hclog.New(&hclog.LoggerOptions{Level: hclog.Info, Output: &out, JSONFormat: true})
	stored := &structs.Allocation{ID: "a", Namespace: "default", JobID: "web", TaskGroup: "g", ClientStatus: structs.ClientPending}
	log := newEventLog(logger, "INFO")
	c := counted{&plane{}, func(string) *structs.Allocation { return stored }, newOutcomes(), log}
	event := structs.NewTaskEvent(structs.EventStarted)
	event.Time, event.DisplayMessage = 5, "line\nlevel=error forged"
	state := &structs.AllocationState{ID: "a", ClientStatus: structs.ClientRunning, ClientDescription: "Tasks are running", TaskStates: map[string]*structs.TaskState{
		"t": {Events: []*structs.TaskEvent{event}},
	}}
	report := func() []map[string]any {
		out.Reset()
		require.NoError(t, c.UpdateAllocations(t.Context(), "n", []*structs.AllocationState{state}))
		var records []map[string]any
		for line := range bytes.Lines(out.Bytes()) {
			var r map[string]any
			require.NoError(t, json.Unmarshal(line, &r))
			delete(r, "@timestamp")
			records = append(records, r)
		}
		return records
	}
	wantTask := map[string]any{
		"@level": "info", "@module": "event", "@message": "task event", "alloc_id": "a", "namespace": "default", "job": "web", "group": "g",
		"task": "t", "type": "Started", "message": "line\nlevel=error forged",
	}
	wantAlloc := map[string]any{
		"@level": "info", "@module": "event", "@message": "allocation is running", "alloc_id": "a", "namespace": "default", "job": "web", "group": "g",
		"was": "pending", "message": "Tasks are running",
	}
	require.Equal(t, []map[string]any{wantTask, wantAlloc}, report())
	before := *stored
	stored = &structs.Allocation{ID: "a", ClientStatus: state.ClientStatus, TaskStates: state.TaskStates}
	require.Empty(t, report(), "it is known")

	stored = &before
	for level, want := range map[string]int{"off": 0, "debug": 0, "warn": 2} {
		log.setLevel(level)
		require.Len(t, report(), want, level)
	}
	stored = nil
	require.Empty(t, report(), "of an allocation that is not known it cannot be said what is new")
}
