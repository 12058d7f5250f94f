package node

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/controlplane/standalone"
	"github.com/wasmnode/wasmnode/state"
	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/structs/errdefs"
)

// newFileWorld is a world whose control plane is in a file.
func newFileWorld(t *testing.T) *world {
	w := newWorld(t)
	w.reopen(filepath.Join(t.TempDir(), "server.db"))
	return w
}

// reopen goes on with the control plane in a file.
func (w *world) reopen(path string) {
	s, err := standalone.Open(standalone.Options{Path: path})
	require.NoError(w.t, err)
	w.t.Cleanup(func() { require.NoError(w.t, s.Close()) })
	w.embedded, w.plane, w.serverDB = s, s.ForNode(), path
}

// away ends the node and the control plane, changes the control plane's file, and starts
// both again.
func (w *world) away(change func(path string)) {
	w.end()
	require.NoError(w.t, w.embedded.Close())
	change(w.serverDB)
	w.reopen(w.serverDB)
	w.start()
}

func (w *world) copyTo(path string) {
	require.NoError(w.t, w.embedded.Close())
	from, err := os.Open(w.serverDB)
	require.NoError(w.t, err)
	defer from.Close()
	to, err := os.Create(path)
	require.NoError(w.t, err)
	defer to.Close()
	_, err = io.Copy(to, from)
	require.NoError(w.t, err)
}

// lose removes the file and the copies that are kept of it.
func lose(t *testing.T) func(string) {
	return func(path string) {
		all, err := filepath.Glob(path + "*")
		require.NoError(t, err)
		for _, path := range all {
			require.NoError(t, os.Remove(path))
		}
	}
}

func replaceBy(t *testing.T, older string) func(string) {
	return func(path string) { require.NoError(t, os.Rename(older, path)) }
}

func TestAControlPlaneThatIsLostAdoptsWhatRuns(t *testing.T) {
	w := newFileWorld(t)
	w.start()
	w.run("s", "service")
	w.run("once", "batch")
	w.run("stopped", "service")
	s, once := w.awaitStatus("s", structs.ClientRunning), w.awaitStatus("once", structs.ClientRunning)
	w.machine.end(once.ID, 0)
	w.awaitStatus("once", structs.ClientComplete)
	stopped := w.awaitStatus("stopped", structs.ClientRunning)
	_, err := w.embedded.DeregisterJob(&structs.JobStop{Namespace: "default", JobID: "stopped"})
	require.NoError(t, err)
	w.awaitStatus("stopped", structs.ClientComplete)
	id := w.node.ID()

	w.away(lose(t))
	require.Equal(t, id, w.node.ID())
	require.Contains(t, w.node.Adoption().String(), "the control plane's memory was empty; rebuilt from what the node knows: 3 jobs, 3 allocations")
	require.Equal(t, s.ID, w.awaitStatus("s", structs.ClientRunning).ID)
	require.Equal(t, structs.ClientComplete, w.embedded.Allocation(once.ID).ClientStatus)
	require.Equal(t, "running", *w.embedded.Job("default", "s").Status)
	require.Equal(t, "dead", *w.embedded.Job("default", "once").Status)
	require.True(t, *w.embedded.Job("default", "stopped").Stop, "it is not started because its end was forgotten")
	require.DirExists(t, filepath.Join(w.dir, "alloc", stopped.ID))
	events := w.embedded.Node(id).Events
	require.Condition(t, func() bool {
		for _, e := range events {
			if e.Message == w.node.Adoption().String() {
				return true
			}
		}
		return false
	}, "%v", events)

	// From now on it is as any other, also after the next start.
	w.away(func(string) {})
	require.Empty(t, w.node.Adoption().Why)
	require.Empty(t, w.node.Adoption().Adopted)
	require.Equal(t, 1, w.machine.started(s.ID))
	require.Equal(t, 1, w.machine.started(once.ID))
	require.Equal(t, 1, w.machine.started(stopped.ID))
	_, err = w.embedded.DeregisterJob(&structs.JobStop{Namespace: "default", JobID: "s"})
	require.NoError(t, err)
	w.awaitStatus("s", structs.ClientComplete)
	require.Zero(t, w.machine.running())
	require.Empty(t, w.unclaimed())
}

func TestJobsThatAreStoppedTogetherKeepTheirVersionsApart(t *testing.T) {
	w := newFileWorld(t)
	w.start()
	ids := []string{"a", "b", "c"}
	for _, id := range ids {
		w.run(id, "service", user(id))
		w.awaitStatus(id, structs.ClientRunning)
		_, err := w.embedded.DeregisterJob(&structs.JobStop{Namespace: "default", JobID: id})
		require.NoError(t, err)
		w.awaitStatus(id, structs.ClientComplete)
	}
	for _, change := range []func(string){lose(t), func(string) {}} {
		w.away(change)
		require.Zero(t, w.embedded.Unreadable())
		for _, id := range ids {
			j := w.embedded.Job("default", id)
			require.NotNil(t, j, id)
			require.True(t, *j.Stop)
			require.Equal(t, id, j.TaskGroups[0].Tasks[0].Env["VERSION"])
		}
	}
}

func TestAnOlderControlPlaneLearnsWhatWasDecidedSince(t *testing.T) {
	w := newFileWorld(t)
	w.start()
	w.run("kept", "service")
	w.run("changed", "service", user("1"))
	w.run("stopped", "service")
	w.run("gone", "service")
	kept := w.awaitStatus("kept", structs.ClientRunning)
	for _, id := range []string{"changed", "stopped", "gone"} {
		w.awaitStatus(id, structs.ClientRunning)
	}
	older := filepath.Join(t.TempDir(), "copy.db")
	w.away(func(string) { w.copyTo(older) })

	w.run("changed", "service", user("2"))
	w.run("new", "service")
	w.await("changed runs anew", func() bool {
		list := w.embedded.JobAllocations("default", "changed")
		return len(list) == 2 && list[1].ClientStatus == structs.ClientRunning && list[0].ClientStatus.Terminal()
	})
	changed, added := w.awaitStatus("changed", structs.ClientRunning), w.awaitStatus("new", structs.ClientRunning)
	for _, id := range []string{"stopped", "gone"} {
		_, err := w.embedded.DeregisterJob(&structs.JobStop{Namespace: "default", JobID: id, Purge: id == "gone"})
		require.NoError(t, err)
		w.awaitStatus(id, structs.ClientComplete)
	}
	gone := w.embedded.JobAllocations("default", "gone")[0]
	require.Eventually(t, func() bool { return w.node.CollectAllocation(t.Context(), gone.ID) == nil }, 30*time.Second, time.Millisecond)

	w.away(replaceBy(t, older))
	got := w.node.Adoption()
	require.Contains(t, got.Why, "older than the node's")
	require.ElementsMatch(t, []string{"gone", "stopped"}, got.Stopped)
	require.Empty(t, w.unclaimed())
	require.Equal(t, 3, w.machine.running())
	for _, a := range []*structs.Allocation{kept, changed, added} {
		require.Equal(t, a.ID, w.awaitStatus(a.JobID, structs.ClientRunning).ID)
		require.Equal(t, 1, w.machine.started(a.ID))
	}
	require.EqualValues(t, 1, *w.embedded.Job("default", "changed").Version)
	require.Equal(t, 1, w.machine.started(gone.ID))

	// Decisions reach the node: their indexes go on above what it has heard.
	_, err := w.embedded.DeregisterJob(&structs.JobStop{Namespace: "default", JobID: "kept"})
	require.NoError(t, err)
	w.awaitStatus("kept", structs.ClientComplete)
	w.run("changed", "service", user("3"))
	w.await("changed runs a third version", func() bool {
		list := w.embedded.JobAllocations("default", "changed")
		return list[len(list)-1].ClientStatus == structs.ClientRunning && len(list) == 3
	})
}

// TestWhatWasDecidedAboutTheNodeOutlivesTheControlPlane has the control plane lose that the
// node takes no allocations, or is being drained, which a batch job holds up.
func TestWhatWasDecidedAboutTheNodeOutlivesTheControlPlane(t *testing.T) {
	for name, draining := range map[string]bool{"draining": true, "ineligible": false} {
		t.Run(name, func(t *testing.T) {
			w := newFileWorld(t)
			w.start()
			w.run("once", "batch")
			once := w.awaitStatus("once", structs.ClientRunning)
			older := filepath.Join(t.TempDir(), "copy.db")
			w.away(func(string) { w.copyTo(older) })
			var err error
			if draining {
				_, err = w.embedded.SetDrain(&structs.DrainRequest{NodeID: w.node.ID(), Drain: &structs.Drain{}, Meta: map[string]string{"why": "kernel"}})
			} else {
				_, err = w.embedded.SetEligibility(w.node.ID(), structs.NodeIneligible)
			}
			require.NoError(t, err)
			decided := w.embedded.Node(w.node.ID())
			require.Eventually(t, func() bool {
				seen, err := w.node.seen()
				return err == nil && seen.Standing != nil && seen.Standing.Eligibility == structs.NodeIneligible
			}, 30*time.Second, time.Millisecond, "the node knows")
			for _, change := range []func(string){replaceBy(t, older), lose(t), func(string) {}} {
				w.away(change)
				n := w.embedded.Node(decided.ID)
				require.Equal(t, decided.Eligibility, n.Eligibility)
				require.Equal(t, decided.Drain, n.Drain)
				require.Equal(t, decided.LastDrain, n.LastDrain)
				require.Equal(t, once.ID, w.awaitStatus("once", structs.ClientRunning).ID)
			}
			if draining {
				w.machine.end(once.ID, 0)
				w.await("the drain ends", func() bool { return w.embedded.Node(decided.ID).Drain == nil })
				require.Equal(t, structs.DrainComplete, w.embedded.Node(decided.ID).LastDrain.Status)
			}
		})
	}
}

func TestWhatTheControlPlaneLetGoOfIsNotAdopted(t *testing.T) {
	w := newFileWorld(t)
	w.start()
	w.run("b", "batch")
	a := w.awaitStatus("b", structs.ClientRunning)
	w.machine.end(a.ID, 0)
	w.awaitStatus("b", structs.ClientComplete)
	w.end() // before the node hears that it is forgotten
	_, err := w.embedded.DeregisterJob(&structs.JobStop{Namespace: "default", JobID: "b", Purge: true})
	require.NoError(t, err)
	w.embedded.CollectGarbage()
	require.Nil(t, w.embedded.Allocation(a.ID))
	w.start()
	require.Equal(t, []string{a.ID}, w.node.Adoption().Released)
	require.Eventually(t, func() bool { _, err := w.node.runner(a.ID); return err != nil }, 30*time.Second, time.Millisecond)
	require.Empty(t, w.embedded.Allocations())
}

// otherWorld has a job of another control plane's in the file of this one.
func otherWorld(t *testing.T) (w *world, mine *structs.Allocation) {
	w = newFileWorld(t)
	w.start()
	w.run("web", "service", user("mine"))
	mine = w.awaitStatus("web", structs.ClientRunning)
	path := filepath.Join(t.TempDir(), "other.db")
	other, err := standalone.Open(standalone.Options{Path: path})
	require.NoError(t, err)
	was := w.embedded
	w.embedded = other
	for range 30 { // its index is above all that the node has heard
		w.run("web", "service", user("theirs"))
		w.run("web", "service", user("theirs, too"))
	}
	w.embedded = was
	require.NoError(t, other.Close())
	w.away(replaceBy(t, path))
	return w, mine
}

func TestAJobThatTwoControlPlanesKnowWaitsForADecision(t *testing.T) {
	for _, adopt := range []bool{true, false} {
		w, mine := otherWorld(t)
		require.Equal(t, []string{mine.ID}, w.unclaimed())
		require.Contains(t, w.node.Unclaimed(t.Context())[0].Reason, `knows job "web" in another version`)
		require.Equal(t, 1, w.machine.started(mine.ID))
		dir := filepath.Join(w.dir, "alloc", mine.ID)
		require.DirExists(t, dir)
		w.away(func(string) {}) // it waits for as long as it takes
		require.Equal(t, []string{mine.ID}, w.unclaimed())
		if !adopt { // also when it has ended
			w.machine.end(mine.ID, 0)
			w.away(func(string) {})
			w.node.CollectGarbage(t.Context())
			require.Equal(t, []string{mine.ID}, w.unclaimed())
			require.DirExists(t, dir)
		}
		if !adopt {
			require.NoError(t, w.node.Discard(t.Context(), mine.ID))
			require.NoDirExists(t, dir)
			require.Empty(t, w.unclaimed())
			require.ErrorIs(t, w.node.Adopt(t.Context(), mine.ID), errdefs.NotFound)
			continue
		}
		require.NoError(t, w.node.Adopt(t.Context(), mine.ID))
		w.await("it is the job's", func() bool {
			a := w.embedded.Allocation(mine.ID)
			return a != nil && a.ClientStatus == structs.ClientRunning && len(w.unclaimed()) == 0
		})
		require.Equal(t, "mine", w.embedded.Job("default", "web").TaskGroups[0].Tasks[0].Env["VERSION"])
		require.Equal(t, 1, w.machine.started(mine.ID))
	}
}

func TestANodeThatLostItsDatabaseIsTheSame(t *testing.T) {
	w := newWorld(t)
	w.start()
	require.False(t, w.node.Forgets())
	w.run("s", "service")
	a := w.awaitStatus("s", structs.ClientRunning)
	id := w.node.ID()
	local, _, err := w.db.Task(a.ID, "t")
	require.NoError(t, err)
	w.end()

	w.db = state.NewMem()
	w.left = &leftWorkloads{left: []string{local.TaskID}}
	w.start()
	require.Equal(t, id, w.node.ID())
	require.True(t, w.node.Forgets())
	require.Equal(t, a.ID, w.awaitStatus("s", structs.ClientRunning).ID)
	require.Eventually(t, func() bool {
		r, err := w.node.runner(a.ID)
		return err == nil && r.AllocState().ClientStatus == structs.ClientRunning
	}, 30*time.Second, time.Millisecond, "its task is taken back")
	require.Equal(t, 1, w.machine.started(a.ID))
	require.Empty(t, w.unclaimed())
}

// forgetfulPlane does not know of an allocation that it has told of.
type forgetfulPlane struct {
	ControlPlane
	lost atomic.Pointer[string]
}

func (p *forgetfulPlane) Allocations(ctx context.Context, nodeID string, min uint64) (*structs.Assignments, error) {
	news, err := p.ControlPlane.Allocations(ctx, nodeID, min)
	id := p.lost.Load()
	if err != nil || id == nil {
		return news, err
	}
	if news, err = p.ControlPlane.Allocations(ctx, nodeID, 0); err != nil {
		return nil, err
	}
	some := *news
	some.Changed = slices.DeleteFunc(slices.Clone(news.Changed), func(a *structs.Allocation) bool { return a.ID == *id })
	return &some, nil
}

func TestWhatRunsAndIsNotKnownAnyMoreRunsOnUntilItIsDecidedOn(t *testing.T) {
	w := newWorld(t)
	plane := &forgetfulPlane{ControlPlane: w.plane}
	w.plane = plane
	w.start()
	w.run("s", "service")
	a := w.awaitStatus("s", structs.ClientRunning)
	plane.lost.Store(&a.ID)
	w.run("news", "service")
	w.await("it waits for a decision", func() bool { return slices.Equal(w.unclaimed(), []string{a.ID}) })
	require.Contains(t, w.node.Unclaimed(t.Context())[0].Reason, "the control plane does not know of it, and it has not ended")
	w.awaitStatus("news", structs.ClientRunning)
	require.Equal(t, 2, w.machine.running())
	require.DirExists(t, filepath.Join(w.dir, "alloc", a.ID))
	plane.lost.Store(nil)
	w.run("more-news", "service")
	_, err := w.embedded.DeregisterJob(&structs.JobStop{Namespace: "default", JobID: "s"})
	require.NoError(t, err)
	w.awaitStatus("s", structs.ClientComplete)
	require.Empty(t, w.unclaimed(), "it is known again")
	require.Equal(t, 1, w.machine.started(a.ID))
}

func TestAnAllocationHasOneRunner(t *testing.T) {
	w := newWorld(t)
	w.start()
	w.run("s", "service")
	a := w.awaitStatus("s", structs.ClientRunning)
	has, err := w.node.runner(a.ID)
	require.NoError(t, err)
	second, err := w.node.newRunner(a, nil)
	require.NoError(t, err)
	require.False(t, w.node.addRunner(a.ID, second))
	still, err := w.node.runner(a.ID)
	require.NoError(t, err)
	require.Same(t, has, still)
}
