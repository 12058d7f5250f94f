package node

import (
	"context"
	"path/filepath"
	"sync/atomic"
	"testing"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/internal/plugintest"
	"github.com/wasmnode/wasmnode/state"
	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/structs/errdefs"
)

// newPluginWorld is a world as in production: a store on disk, and the mock driver in the
// sandbox in the machine's place.
func newPluginWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	db, err := state.Open(filepath.Join(t.TempDir(), "node.db"), state.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	w.db, w.driver, w.drivers = db, "mock_driver", plugintest.Dispense(t)
	return w
}

// runFor has a job's tasks run for that long.
func runFor(d string) func(*nomad.Job) {
	return func(j *nomad.Job) { j.TaskGroups[0].Tasks[0].Config = map[string]any{"run_for": d} }
}

// ended runs batch jobs to their ends, one after the other, and returns their allocations.
func (w *world) ended(jobs ...string) (ids []string) {
	for i, job := range jobs {
		w.run(job, "batch", runFor("1ms"))
		ids = append(ids, w.awaitStatus(job, structs.ClientComplete).ID)
		w.awaitGarbage(i + 1)
	}
	return ids
}

func TestWhatEndedOnAPluginIsCollected(t *testing.T) {
	t.Run("the oldest first, and no more than the limit asks", func(t *testing.T) {
		w := newPluginWorld(t)
		w.start()
		ids := w.ended("b1", "b2", "b3", "b4")
		w.keepAtMost(2)
		w.look()
		require.ElementsMatch(t, ids[2:], w.kept())
	})
	t.Run("no more than the disk needs", func(t *testing.T) {
		w := newPluginWorld(t)
		w.gc = GC{DiskPercent: 50, InodePercent: 50}
		var perAlloc, perFile atomic.Int64
		w.disk = func(context.Context, string) (diskUse, error) {
			n := int64(len(w.kept()))
			return diskUse{percent: float64(n * perAlloc.Load()), inodePercent: float64(n * perFile.Load())}, nil
		}
		w.start()
		ids := w.ended("b1", "b2", "b3", "b4")
		w.look()
		require.ElementsMatch(t, ids, w.kept(), "there is room")
		perAlloc.Store(20)
		w.look()
		require.ElementsMatch(t, ids[2:], w.kept())
		perFile.Store(30)
		w.look()
		require.ElementsMatch(t, ids[3:], w.kept())
	})
	t.Run("one on demand, all on demand, and never one that runs", func(t *testing.T) {
		w := newPluginWorld(t)
		w.start()
		w.run("stays", "service", runFor("1h"))
		stays := w.awaitStatus("stays", structs.ClientRunning).ID
		ids := w.ended("b1", "b2", "b3")
		require.NoError(t, w.node.CollectAllocation(t.Context(), ids[1]))
		require.ElementsMatch(t, []string{stays, ids[0], ids[2]}, w.kept())
		require.ErrorIs(t, w.node.CollectAllocation(t.Context(), stays), errdefs.FailedPrecondition)
		w.node.CollectGarbage(t.Context())
		require.Equal(t, []string{stays}, w.kept())
		w.awaitStatus("stays", structs.ClientRunning)
		_, err := w.embedded.DeregisterJob(&structs.JobStop{Namespace: "default", JobID: "stays"})
		require.NoError(t, err)
		w.awaitGarbage(1)
		w.node.CollectGarbage(t.Context())
		require.Empty(t, w.kept())
	})
}

func TestGarbageIsOrderedByItsEndNotItsStart(t *testing.T) {
	w := newPluginWorld(t)
	w.start()
	w.run("long", "batch", runFor("1h"))
	long := w.awaitStatus("long", structs.ClientRunning).ID
	w.ended("b1", "b2")
	_, err := w.embedded.DeregisterJob(&structs.JobStop{Namespace: "default", JobID: "long"})
	require.NoError(t, err)
	w.awaitGarbage(3)
	w.keepAtMost(1)
	w.look()
	require.Equal(t, []string{long}, w.kept())
}
