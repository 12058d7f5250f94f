package state_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/state/statetest"
	"github.com/wasmnode/wasmnode/structs"
)

// TestAnOlderAgentsFileIsRead opens what an agent of schema 1 left that had neither
// processes nor devices and was killed: a job that ran, and one that had failed. A later
// schema has to read it, too.
func TestAnOlderAgentsFileIsRead(t *testing.T) {
	db := open(t, statetest.Unpacked(t, "schema-1.db.gz"))
	defer func() { require.NoError(t, db.Close()) }()
	node, err := db.Node()
	require.NoError(t, err)
	require.Equal(t, "83a74b31-9245-4cee-a4fb-ed0632dfd5e8", node.ID)
	require.NotEmpty(t, node.SecretID)

	allocations, unreadable, err := db.Allocations()
	require.NoError(t, err)
	require.Empty(t, unreadable)
	require.NotEmpty(t, allocations)
	statuses := map[string]structs.ClientStatus{}
	for _, a := range allocations {
		s, err := db.AllocationState(a.ID)
		require.NoError(t, err)
		statuses[a.JobID] = s.ClientStatus
		local, task, err := db.Task(a.ID, "task")
		require.NoError(t, err)
		require.Equal(t, "mock_driver", local.Driver)
		require.Equal(t, a.JobID == "once", task.Failed)
		require.NotEmpty(t, task.Events)
		if a.JobID == "web" {
			require.Equal(t, map[string]string{"color": "blue"}, a.Job.TaskGroups[0].Tasks[0].Meta)
			var handle wasmnodev1.TaskHandle
			require.NoError(t, handle.UnmarshalVT(local.Handle))
			require.NotEmpty(t, handle.DriverState, "the driver finds its task by it")
		}
	}
	require.Equal(t, map[string]structs.ClientStatus{"web": structs.ClientRunning, "once": structs.ClientFailed}, statuses)

	devices, err := db.Devices()
	require.NoError(t, err)
	require.Nil(t, devices, "it did not know of any")
}
