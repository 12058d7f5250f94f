package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/structs/errdefs"
)

// batches runs batch jobs to their ends, one after the other, and returns their
// allocations.
func (w *world) batches(n int) (ids []string) {
	for i := range n {
		job := fmt.Sprintf("b%02d", i)
		w.run(job, "batch")
		id := w.awaitStatus(job, structs.ClientRunning).ID
		w.machine.end(id, 0)
		w.awaitStatus(job, structs.ClientComplete)
		ids = append(ids, id)
	}
	w.awaitGarbage(n)
	return ids
}

// awaitGarbage waits until so many allocations may be destroyed.
func (w *world) awaitGarbage(n int) {
	require.Eventually(w.t, func() bool { return len(w.node.collectable()) == n }, 30*time.Second, time.Millisecond)
}

// look returns when the garbage loop has looked once more: it takes the second wake-up
// when it is done with the first.
func (w *world) look() {
	for range 2 {
		w.node.ended.Set()
		require.Eventually(w.t, func() bool { return len(w.node.ended.C()) == 0 }, 30*time.Second, time.Millisecond, "the garbage loop does not look")
	}
}

// awaitOver waits until an allocation may be destroyed: nothing of it runs any more,
// and the control plane knows that.
func (w *world) awaitOver(id string) {
	r, err := w.node.runner(id)
	require.NoError(w.t, err)
	require.Eventually(w.t, func() bool { return hasEnded(r) && w.node.report.endKnown(id) }, 30*time.Second, time.Millisecond)
}

// kept is the allocations that have a directory.
func (w *world) kept() (ids []string) {
	entries, err := os.ReadDir(filepath.Join(w.dir, "alloc"))
	require.NoError(w.t, err)
	for _, e := range entries {
		ids = append(ids, e.Name())
	}
	return ids
}

func TestEndedAllocationsAreKeptUpToTheLimit(t *testing.T) {
	w := newWorld(t)
	w.gc.MaxAllocs = 2
	w.start()
	w.run("stays", "service")
	stays := w.awaitStatus("stays", structs.ClientRunning).ID
	newest := ""
	for _, id := range []string{"b1", "b2", "b3", "b4"} {
		w.run(id, "batch")
		newest = w.awaitStatus(id, structs.ClientRunning).ID
		w.machine.end(newest, 0)
		w.awaitStatus(id, structs.ClientComplete)
		w.awaitOver(newest)
	}
	require.Eventually(t, func() bool { return len(w.kept()) == 2 }, 30*time.Second, time.Millisecond)
	require.ElementsMatch(t, []string{stays, newest}, w.kept(), "the running one and the newest ended one")
	for _, id := range []string{"b1", "b2", "b3", "b4"} {
		a := w.awaitStatus(id, structs.ClientComplete)
		require.Equal(t, 1, w.machine.started(a.ID), "what was forgotten is not run again")
	}
	w.awaitGarbage(1)
	w.node.CollectGarbage(t.Context())
	require.Equal(t, []string{stays}, w.kept())
	w.awaitStatus("stays", structs.ClientRunning)
}

// keepAtMost changes how many allocations are kept, under a node that runs.
func (w *world) keepAtMost(n int) {
	w.node.mu.Lock()
	defer w.node.mu.Unlock()
	w.node.cfg.GC.MaxAllocs = n
}

func TestD5_NoMoreAllocationsAreDestroyedThanTheLimitAsks(t *testing.T) {
	w := newWorld(t)
	w.start()
	ids := w.batches(10)
	w.keepAtMost(8)
	w.look()
	require.ElementsMatch(t, ids[2:], w.kept(), "the two oldest suffice")
	// What is on its way out is not counted, so no second victim goes for it.
	w.node.mu.Lock()
	w.node.cfg.GC.MaxAllocs = 7
	w.node.runners[ids[5]].destroying = true
	w.node.mu.Unlock()
	w.look()
	require.ElementsMatch(t, ids[2:], w.kept())
	w.node.mu.Lock()
	w.node.cfg.GC.MaxAllocs = 8
	w.node.runners[ids[5]].destroying = false
	w.node.mu.Unlock()
}

// TestTheOldestAreDestroyedAfterARestartToo: what ended before is taken up when its plugin is
// there, which may be later for the oldest than for the newest.
func TestTheOldestAreDestroyedAfterARestartToo(t *testing.T) {
	w := newWorld(t)
	w.start()
	ids := w.batches(3)
	w.end()
	w.gc.MaxAllocs = 2
	loaded := make(chan struct{})
	w.readyFor = func(ctx context.Context, a *structs.Allocation) error {
		if a.ID == ids[2] {
			return nil
		}
		select {
		case <-loaded:
		case <-ctx.Done():
		}
		return nil
	}
	w.start()
	w.awaitOver(ids[2])
	w.look()
	require.ElementsMatch(t, ids, w.kept(), "the newest is not destroyed in place of the oldest")
	close(loaded)
	require.Eventually(t, func() bool { return len(w.kept()) == 2 }, 30*time.Second, time.Millisecond)
	require.ElementsMatch(t, ids[1:], w.kept())
}

func TestD5_NoMoreAllocationsAreDestroyedThanTheDiskNeeds(t *testing.T) {
	for name, use := range map[string]func(float64) diskUse{
		"disk":   func(u float64) diskUse { return diskUse{percent: u} },
		"inodes": func(u float64) diskUse { return diskUse{inodePercent: u} },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.gc = GC{DiskPercent: 50, InodePercent: 50}
			var perAlloc atomic.Int64
			w.disk = func(context.Context, string) (diskUse, error) {
				return use(float64(perAlloc.Load() * int64(len(w.kept())))), nil
			}
			w.start()
			ids := w.batches(8)
			perAlloc.Store(10)
			w.look()
			require.ElementsMatch(t, ids[3:], w.kept(), "five fill it to the threshold and not over")
			perAlloc.Store(100)
			w.look()
			require.Empty(t, w.kept())
		})
	}
}

func TestADiskThatFillsUpIsNoticedWithoutAnEnd(t *testing.T) {
	w := newWorld(t)
	w.gc.Interval = 10 * time.Millisecond
	var full atomic.Bool
	w.disk = func(context.Context, string) (diskUse, error) {
		if full.Load() {
			return diskUse{percent: 99}, nil
		}
		return diskUse{}, nil
	}
	w.start()
	w.batches(1)
	full.Store(true)
	require.Eventually(t, func() bool { return len(w.kept()) == 0 }, 30*time.Second, time.Millisecond)
}

func TestADiskThatCannotBeMeasuredCostsNoAllocation(t *testing.T) {
	w := newWorld(t)
	w.disk = func(context.Context, string) (diskUse, error) { return diskUse{}, errors.New("no") }
	w.start()
	ids := w.batches(2)
	w.look()
	require.ElementsMatch(t, ids, w.kept())
	use, err := measureDisk(t.Context(), w.dir)
	require.NoError(t, err)
	require.Positive(t, use.percent)
	_, err = measureDisk(t.Context(), filepath.Join(w.dir, "none"))
	require.Error(t, err)
}

func TestNothingThatRunsIsCollected(t *testing.T) {
	w := newWorld(t)
	w.gc.MaxAllocs = 1
	w.disk = func(context.Context, string) (diskUse, error) { return diskUse{percent: 100, inodePercent: 100}, nil }
	w.start()
	release := w.machine.hold()
	defer release()
	w.run("two", "batch", func(j *nomad.Job) {
		g := j.TaskGroups[0]
		sibling := *g.Tasks[0]
		sibling.Name = "sibling"
		g.Tasks = append(g.Tasks, &sibling)
	})
	a := w.awaitStatus("two", structs.ClientRunning)
	w.await("both tasks run", func() bool { // a task that is being started is not stopped, but destroyed
		tasks := w.embedded.Allocation(a.ID).TaskStates
		return tasks["t"].State == structs.TaskRunning && tasks["sibling"].State == structs.TaskRunning
	})
	w.machine.endOne(a.ID, 1)
	w.awaitStatus("two", structs.ClientFailed)
	w.node.CollectGarbage(t.Context())
	w.look()
	require.Equal(t, 1, w.machine.running(), "the allocation has failed; the other task is still being killed")
	require.Equal(t, []string{a.ID}, w.kept())
	require.ErrorIs(t, w.node.CollectAllocation(t.Context(), a.ID), errdefs.FailedPrecondition)
	release()
	require.Eventually(t, func() bool { return len(w.kept()) == 0 }, 30*time.Second, time.Millisecond)
}

func TestOneAllocationIsCollectedOnDemand(t *testing.T) {
	w := newWorld(t)
	w.start()
	ids := w.batches(3)
	require.NoError(t, w.node.CollectAllocation(t.Context(), ids[1]))
	require.ElementsMatch(t, []string{ids[0], ids[2]}, w.kept())
	require.ErrorIs(t, w.node.CollectAllocation(t.Context(), "none"), errdefs.NotFound)
}

func TestOnlySoManyAreDestroyedAtOnce(t *testing.T) {
	w := newWorld(t)
	w.gc.Parallel = 3
	w.start()
	w.batches(9)
	var most atomic.Int64
	stop := make(chan struct{})
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		for {
			w.node.mu.Lock()
			going := int64(0)
			for _, e := range w.node.runners {
				if e.destroying && !e.runner.IsDestroyed() {
					going++
				}
			}
			w.node.mu.Unlock()
			most.Store(max(most.Load(), going))
			select {
			case <-stop:
				return
			default:
			}
		}
	}()
	w.node.CollectGarbage(t.Context())
	close(stop)
	<-watched
	require.Empty(t, w.kept())
	require.LessOrEqual(t, most.Load(), int64(3))
	require.Empty(t, w.node.destroying)
}

func TestWhatAPendingAllocationMayTakeOverIsKept(t *testing.T) {
	w := newWorld(t)
	w.start()
	w.run("s", "service", user("1"))
	first := w.awaitStatus("s", structs.ClientRunning)
	release := w.machine.hold()
	defer release()
	w.run("s", "service", user("2"))
	second := w.awaitStatus("s", structs.ClientPending)
	w.await("the second waits", func() bool {
		s := w.embedded.Allocation(second.ID).TaskStates["t"]
		return s != nil && len(s.Events) > 1 // it is told what it waits for once its directory is there
	})
	w.run("s", "service", user("3"))
	w.await("the second ends", func() bool { return w.embedded.Allocation(second.ID).ClientStatus.Terminal() })
	third := w.awaitStatus("s", structs.ClientPending)
	require.Eventually(t, func() bool { _, err := w.node.runner(third.ID); return err == nil }, 30*time.Second, time.Millisecond)
	w.node.CollectGarbage(t.Context())
	require.Contains(t, w.kept(), first.ID)
	require.Contains(t, w.kept(), second.ID)
	release()
	w.awaitStatus("s", structs.ClientRunning)
	w.awaitGarbage(2)
	w.node.CollectGarbage(t.Context())
	require.Equal(t, []string{third.ID}, w.kept())
}

func TestAnAllocationEndsWhenItsLastTaskDoesWhicheverAgentSawIt(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	s := &structs.AllocationState{TaskStates: map[string]*structs.TaskState{
		"first": {FinishedAt: at}, "last": {FinishedAt: at.Add(time.Hour)}, "never": {},
	}}
	require.Equal(t, at.Add(time.Hour), endOf(s))
	require.WithinDuration(t, time.Now(), endOf(&structs.AllocationState{}), time.Minute)
}
