package schedule

import (
	"math"
	"math/rand"
	"slices"
	"testing"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/wasmnode/wasmnode/structs"
)

// crowd is a cluster in which random jobs of random importance want more than there is.
type crowd struct {
	*cluster
	jobs    map[string]*nomad.Job
	stopped map[string]bool
	version uint64
}

func (w *crowd) register(t *rapid.T) {
	w.version++
	id := rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f"}).Draw(t, "job")
	kind := rapid.SampledFrom([]string{"service", "service", "batch", "system", "sysbatch"}).Draw(t, "type")
	if old := w.jobs[id]; old != nil {
		kind = *old.Type
	}
	w.jobs[id] = testJob(kind, named(id), atVersion(w.version), priority(rapid.SampledFrom([]int{1, 10, 15, 20, 50, 90, 100}).Draw(t, "priority")), func(j *nomad.Job) {
		if g := j.TaskGroups[0]; !PerNode(j) {
			g.Count = new(rapid.IntRange(0, 4).Draw(t, "count"))
		}
		uses(rapid.SampledFrom([]int{0, 100, 250, 400, 600}).Draw(t, "cpu"), rapid.SampledFrom([]int{10, 100, 300, 600}).Draw(t, "memory"))(j)
		usesDisk(rapid.SampledFrom([]int{10, 10, 200, 500}).Draw(t, "disk"))(j)
		j.TaskGroups[0].Tasks[0].User = rapid.SampledFrom([]string{"", "u"}).Draw(t, "user")
		if n := rapid.IntRange(-2, 2).Draw(t, "cores"); n > 0 {
			usesCores(n)(j)
		}
		if n := rapid.IntRange(-2, 2).Draw(t, "devices"); n > 0 {
			asks(ask("nvidia/gpu", uint64(n)))(j)
		}
		if port := rapid.SampledFrom([]int{0, 0, 80, 81}).Draw(t, "port"); port > 0 {
			staticPorts(port)(j)
		}
	})
	w.stopped[id] = rapid.IntRange(0, 5).Draw(t, "stop") == 0
}

// endSome ends allocations: what is to stop and what waits as well as what runs.
func (w *crowd) endSome(t *rapid.T) {
	for _, a := range w.sorted() {
		if !a.ClientStatus.Terminal() && rapid.IntRange(0, 2).Draw(t, "end") == 0 && (a.ServerTerminal() || rapid.IntRange(0, 3).Draw(t, "itself") == 0) {
			w.end(a.ID, rapid.SampledFrom([]structs.ClientStatus{structs.ClientComplete, structs.ClientFailed}).Draw(t, "how"))
		}
	}
	w.checkRoom(t)
}

// startSome has allocations run that have nothing to wait for any more.
func (w *crowd) startSome(t *rapid.T) {
	for _, a := range w.sorted() {
		if !a.Terminal() && w.runs(a) && rapid.Bool().Draw(t, "start") {
			w.change(a.ID).ClientStatus = structs.ClientRunning
		}
	}
}

func (w *crowd) changeNode(t *rapid.T) {
	n := w.nodes[rapid.IntRange(0, len(w.nodes)-1).Draw(t, "node")]
	n.Status = rapid.SampledFrom([]structs.NodeStatus{structs.NodeReady, structs.NodeReady, structs.NodeDown}).Draw(t, "status")
	if n.Status == structs.NodeDown {
		// As the control plane does: what was stopping there is lost.
		for _, a := range w.sorted() {
			if a.NodeID == n.ID && a.ServerTerminal() && !a.ClientStatus.Terminal() {
				w.end(a.ID, structs.ClientLost)
			}
		}
	}
}

// decide schedules every job, in a random order, and checks each decision.
func (w *crowd) decide(t *rapid.T) {
	ids := rapid.Permutation([]string{"a", "b", "c", "d", "e", "f"}).Draw(t, "order")
	for _, id := range ids {
		if w.jobs[id] != nil {
			w.preempt = rapid.Bool().Draw(t, "preempt")
			w.decideFor(t, w.jobs[id])
		}
	}
}

func (w *crowd) decideFor(t *rapid.T, j *nomad.Job) (changed bool) {
	stopped := w.stopped[*j.ID]
	in := w.input(j, stopped)
	shuffled := in
	shuffled.Others = slices.Clone(in.Others)
	rand.New(rand.NewSource(int64(w.version))).Shuffle(len(shuffled.Others), func(i, k int) {
		shuffled.Others[i], shuffled.Others[k] = shuffled.Others[k], shuffled.Others[i]
	})
	ids := w.ids
	other := Schedule(shuffled)
	w.ids = ids
	before := w.live()
	res := w.schedule(j, stopped)
	// The other has looked at each allocation, and this one at totals.
	require.Equal(t, other.Preempted, res.Preempted, "deterministic")
	require.Equal(t, other.Failed, res.Failed, "deterministic")
	require.Equal(t, len(other.Place), len(res.Place), "deterministic")
	for i, a := range res.Place {
		require.Equal(t, other.Place[i].NodeID, a.NodeID, "deterministic")
		require.Equal(t, other.Place[i].Resources, a.Resources, "deterministic")
	}
	w.checkVictims(t, j, in, before, res)
	w.checkRest(t, j, in, res)
	w.checkRoom(t)
	require.False(t, w.schedule(j, stopped).Changes(), "deciding again decides the same")
	return res.Changes()
}

// checkRest checks that what finds no room for itself is told the same when it is asked for
// what is left.
func (w *crowd) checkRest(t *rapid.T, j *nomad.Job, in Input, res *Result) {
	told := res.Failed["g"]
	if told == nil || len(in.Allocs) > 0 || told.NodesExhausted != len(w.nodes) {
		return
	}
	var all []*structs.Allocation
	for _, a := range w.sorted() {
		all = append(all, a.Allocation)
	}
	room := Input{Nodes: w.nodes, Others: all}
	require.True(t, NewRoom(room).StillLacks(j.TaskGroups[0], told))
	require.Equal(t, NewRoom(room).Lowest, NewRoom(room.withTotals()).Lowest)
	require.True(t, NewRoom(room.withTotals()).StillLacks(j.TaskGroups[0], told))
}

func (w *crowd) live() map[string]bool {
	live := map[string]bool{}
	for id, a := range w.allocs {
		live[id] = !a.Terminal()
	}
	return live
}

// checkVictims checks that only what may be preempted was, and only what had to be.
func (w *crowd) checkVictims(t *rapid.T, j *nomad.Job, in Input, live map[string]bool, res *Result) {
	listed := map[string]string{}
	for _, a := range res.Place {
		for _, id := range a.PreemptedAllocations {
			require.Empty(t, listed[id], "preempted for two")
			listed[id] = a.ID
			require.Equal(t, a.NodeID, w.allocs[id].NodeID, "preempted elsewhere")
		}
	}
	require.Equal(t, listed, res.Preempted)
	for id := range res.Preempted {
		require.True(t, in.Preempt, "not enabled")
		victim := w.allocs[id]
		require.True(t, live[id], "it was ending already")
		require.NotEqual(t, *j.ID, victim.JobID, "of the same job")
		require.LessOrEqual(t, *victim.Job.Priority, *j.Priority-MinPreemption)
	}
	if len(res.Preempted) == 0 {
		return
	}
	ids := w.ids
	in.Preempt = false
	without := Schedule(in)
	w.ids = ids
	require.Less(t, len(without.Place), len(res.Place), "there was room")
	if len(res.Place) == 1 && len(res.Stop) == 0 {
		w.checkFewest(t, in, res.Place[0])
	}
}

// checkFewest compares what was preempted for the only allocation of a decision with all
// that could have been.
func (w *crowd) checkFewest(t require.TestingT, in Input, a *Alloc) {
	s := newScheduler(in)
	candidates := s.evictable(a.NodeID)
	if len(candidates) > 10 {
		return
	}
	bare := &Alloc{Allocation: a.Copy()}
	bare.PreemptedAllocations = nil
	fewest, ceiling := math.MaxInt, math.MaxInt
	without := func(spared func(i int) bool) *trial {
		tr := &trial{scheduler: s, node: w.node(a.NodeID), alloc: bare, group: in.Job.TaskGroups[0], claim: s.cap.claim(bare.Allocation, a.NodeID)}
		for i, v := range candidates {
			if !spared(i) {
				tr.take(v)
			}
		}
		return tr
	}
	for set := range 1 << len(candidates) {
		tr := without(func(i int) bool { return set&(1<<i) == 0 })
		if !tr.fits() {
			continue
		}
		if top := highest(tr.victims); top < ceiling {
			ceiling, fewest = top, len(tr.victims)
		} else if top == ceiling {
			fewest = min(fewest, len(tr.victims))
		}
	}
	for k, needless := range candidates {
		if !slices.Contains(a.PreemptedAllocations, needless.ID) {
			continue
		}
		others := without(func(i int) bool { return i == k || !slices.Contains(a.PreemptedAllocations, candidates[i].ID) })
		require.False(t, others.fits(), "the others are enough")
	}
	top := 0
	for _, id := range a.PreemptedAllocations {
		top = max(top, *w.allocs[id].Job.Priority)
	}
	require.Equal(t, ceiling, top, "a more important one than needed")
	require.LessOrEqual(t, len(a.PreemptedAllocations), fewest+1, "more than needed")
}

func (w *crowd) node(id string) *structs.Node {
	return w.nodes[slices.IndexFunc(w.nodes, func(n *structs.Node) bool { return n.ID == id })]
}

// runs reports whether an allocation may have started: it has not ended, and all have that
// it waits for on its node, and that those which ended waited for.
func (w *crowd) runs(a *Alloc) bool {
	seen := map[string]bool{}
	var ended func(a *Alloc) bool
	ended = func(of *Alloc) bool {
		for id := range of.WaitsFor {
			p := w.allocs[id]
			if p == nil || p.NodeID != of.NodeID || seen[id] {
				continue
			}
			seen[id] = true
			if !p.ClientStatus.Terminal() || !ended(p) {
				return false
			}
		}
		return true
	}
	return !a.ClientStatus.Terminal() && w.node(a.NodeID).Status != structs.NodeDown && ended(a)
}

// checkRoom adds up what may run on each node now.
func (w *crowd) checkRoom(t *rapid.T) {
	for _, n := range w.nodes {
		var taken amounts
		owner := map[any]string{}
		own := func(what any, a *Alloc) {
			require.Empty(t, owner[what], "%v is given twice", what)
			owner[what] = a.ID
		}
		for _, a := range w.sorted() {
			if a.NodeID != n.ID || !w.runs(a) {
				continue
			}
			taken = taken.plus(amountsOf(a.Resources))
			for _, p := range a.Resources.Ports {
				own(p.Value, a)
			}
			for _, core := range a.Resources.Tasks["t"].Cores {
				own([1]int{core}, a)
			}
			for _, d := range given(a) {
				own(d, a)
			}
		}
		has := capacityOf(n)
		require.LessOrEqual(t, taken.cpu, has.cpu)
		require.LessOrEqual(t, taken.memory, has.memory)
		require.LessOrEqual(t, taken.disk, has.disk)
	}
}

// settle lets all end that is to end, until nothing changes any more.
func (w *crowd) settle(t *rapid.T) {
	w.preempt = true
	for round := 0; ; round++ {
		require.Less(t, round, 20, "it does not converge")
		changed := false
		for _, a := range w.sorted() {
			if a.ServerTerminal() && !a.ClientStatus.Terminal() {
				w.end(a.ID, structs.ClientComplete)
				changed = true
			}
		}
		w.checkRoom(t)
		for _, id := range []string{"a", "b", "c", "d", "e", "f"} {
			if j := w.jobs[id]; j != nil {
				changed = w.decideFor(t, j) || changed
			}
		}
		if !changed {
			break
		}
	}
	for _, a := range w.allocs {
		require.False(t, w.stopped[a.JobID] && !a.ClientStatus.Terminal(), "a stopped job has left something")
	}
}

func TestWhoeverIsPreemptedNothingIsPromisedTwice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &crowd{cluster: newCluster(t, gpuNode("n1"), gpuNode("n2")), jobs: map[string]*nomad.Job{}, stopped: map[string]bool{}}
		t.Repeat(map[string]func(*rapid.T){
			"register": w.register,
			"node":     w.changeNode,
			"start":    w.startSome,
			"end":      w.endSome,
			"settle":   w.settle,
			"":         w.decide,
		})
		w.settle(t)
	})
}
