package standalone

import (
	"math"
	"path/filepath"
	"testing"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/structs"
)

// changed are the events of what has changed since an index.
func changed(t *testing.T, cp *ControlPlane, index uint64) (list []*structs.ChangeEvent) {
	t.Helper()
	for _, b := range cp.ChangesSince(index).Batches {
		require.Greater(t, b.Index, index)
		index = b.Index // ascending
		for _, e := range b.Events {
			require.Equal(t, b.Index, e.Index)
			list = append(list, e)
		}
	}
	return list
}

func TestWhatHasChangedIsToldAsItIsNow(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "server.db")
	cp := open(t, dir)
	registerNode(t, cp, testNode())
	run(t, cp, testJob("web", "service", func(j *nomad.Job) { j.Update = &nomad.UpdateStrategy{MaxParallel: new(0)} }))
	placed := cp.ChangesSince(math.MaxUint64)
	require.Empty(t, placed.Batches)
	require.ElementsMatch(t, []string{"Node NodeRegistration", "Job JobRegistered web", "Allocation PlanResult", "Evaluation EvaluationUpdated"}, words(changed(t, cp, 0)))

	a := wanted(cp, "web")[0]
	report(t, cp, a, structs.ClientRunning)
	report(t, cp, cp.Allocation(a.ID), structs.ClientFailed)
	require.NoError(t, cp.PutNodePool(nomad.NodePool{Name: "pool"}))
	require.NoError(t, cp.PutNodePool(nomad.NodePool{Name: "gone"}))
	require.NoError(t, cp.DeleteNodePool("gone"))
	since := cp.ChangesSince(placed.Index)
	require.Equal(t, cp.EventsFrom(math.MaxUint64), since.Next)
	var own *structs.ChangeEvent
	for _, e := range changed(t, cp, placed.Index) {
		if e.Key == a.ID {
			own = e
		}
		require.NotEqual(t, "gone", e.Key)
	}
	require.NotNil(t, own)
	require.Equal(t, "AllocationUpdated", own.Type)
	require.Equal(t, structs.ClientFailed, own.Object.(*structs.Allocation).ClientStatus)
	require.Contains(t, words(changed(t, cp, placed.Index)), "NodePool NodePoolUpserted")

	before := words(changed(t, cp, placed.Index))
	require.NoError(t, cp.Close())
	cp = open(t, dir)
	require.ElementsMatch(t, before, words(changed(t, cp, placed.Index)), "also after a restart, whose buffer of events is empty")
	require.Empty(t, changed(t, cp, since.Index))
}
