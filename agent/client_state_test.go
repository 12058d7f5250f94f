package agent

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/state"
	"github.com/wasmnode/wasmnode/structs"
)

func TestWhatANodeKeepsIsReadWithoutAnAgent(t *testing.T) {
	dir := t.TempDir()
	_, err := ReadClientState(dir)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.NoFileExists(t, filepath.Join(dir, clientFile), "reading makes none")

	db, err := state.Open(filepath.Join(dir, clientFile), state.Options{})
	require.NoError(t, err)
	require.NoError(t, db.PutNode(&state.NodeIdentity{ID: "node", SecretID: "the node's secret"}))
	require.NoError(t, db.PutSeen(&state.Seen{Index: 7}))
	a := runningAllocs(1)[0]
	a.DesiredStatus = structs.DesiredRun
	require.NoError(t, db.PutAllocation(a))
	require.NoError(t, db.PutAllocationState(&structs.AllocationState{ID: a.ID, ClientStatus: structs.ClientFailed}))
	require.NoError(t, db.PutTask(a.ID, "web", &state.TaskLocal{
		TaskID: "run", Driver: "exec", PluginDigest: "d", Config: []byte("a secret of the task"), Handle: []byte("a secret of the driver"), RunComplete: true,
	}, &structs.TaskState{State: structs.TaskDead, Failed: true}))
	require.NoError(t, db.Close())

	kept, err := ReadClientState(dir)
	require.NoError(t, err)
	require.Equal(t, &ClientState{NodeID: "node", Index: 7, Unreadable: map[string]string{}, Allocations: map[string]ClientAllocation{a.ID: {
		Namespace: "default", JobID: "job", TaskGroup: "g", DesiredStatus: structs.DesiredRun, ClientStatus: structs.ClientFailed,
		Tasks: map[string]ClientTask{"web": {
			ID: "run", Driver: "exec", PluginDigest: "d", Handle: true, Complete: true, State: &structs.TaskState{State: structs.TaskDead, Failed: true},
		}},
	}}}, kept)
	text, err := json.Marshal(kept)
	require.NoError(t, err)
	require.NotContains(t, string(text), "secret")
}

func TestTelemetryIsAsItIsConfigured(t *testing.T) {
	a := &agent{}
	a.cfg.Name = "named"
	host, err := os.Hostname()
	require.NoError(t, err)
	require.Equal(t, host, a.shownMetrics().Host)
	require.True(t, a.shownMetrics().HideRest)
	a.cfg.Telemetry.FilterDefault, a.cfg.Telemetry.HideDispatched, a.cfg.Telemetry.PrefixFilter = true, true, []string{"-nomad"}
	a.cfg.Telemetry.UseNodeName = true
	o := a.shownMetrics()
	require.Equal(t, "named", o.Host)
	require.False(t, o.HideRest)
	require.True(t, o.HideDispatched)
	require.Equal(t, []string{"-nomad"}, o.Filter)
	a.cfg.Telemetry.DisableHostname = true
	require.Empty(t, a.shownMetrics().Host)
}
