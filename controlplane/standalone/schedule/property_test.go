package schedule

import (
	"slices"
	"testing"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/wasmnode/wasmnode/structs"
)

// world is a cluster in which random things happen to two jobs.
type world struct {
	*cluster
	jobs    map[string]*nomad.Job
	stopped map[string]bool
	version uint64
}

func (w *world) register(t *rapid.T) {
	w.version++
	id := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "job")
	kind := "service"
	if id == "b" {
		kind = rapid.SampledFrom([]string{"batch", "system", "sysbatch"}).Draw(t, "type")
	}
	if old := w.jobs[id]; old != nil {
		kind = *old.Type
	}
	w.jobs[id] = testJob(kind, atVersion(w.version), func(j *nomad.Job) {
		j.ID = &id
		g := j.TaskGroups[0]
		if kind == "service" || kind == "batch" {
			g.Count = new(rapid.IntRange(1, 6).Draw(t, "count"))
		}
		task := g.Tasks[0]
		task.User = rapid.SampledFrom([]string{"", "u"}).Draw(t, "user")
		task.Resources.MemoryMB = new(rapid.SampledFrom([]int{100, 300, 600}).Draw(t, "memory"))
		if n := rapid.IntRange(0, 2).Draw(t, "devices"); n > 0 {
			asks(ask(rapid.SampledFrom([]string{"gpu", "nvidia/gpu"}).Draw(t, "device"), uint64(n)))(j)
		}
		if rapid.Bool().Draw(t, "port") {
			staticPorts(80)(j)
		}
		if rapid.Bool().Draw(t, "constraint") {
			constraint("${attr.kernel.name}", "=", "linux")(j)
		}
	})
	w.stopped[id] = rapid.IntRange(0, 5).Draw(t, "stop") == 0
}

func (w *world) changeNode(t *rapid.T) {
	n := w.nodes[rapid.IntRange(0, len(w.nodes)-1).Draw(t, "node")]
	switch rapid.IntRange(0, 4).Draw(t, "what") {
	case 0:
		n.Drivers["mock"] = &structs.DriverInfo{Detected: true, Healthy: rapid.Bool().Draw(t, "healthy")}
	case 1:
		n.Eligibility = rapid.SampledFrom([]string{structs.NodeEligible, structs.NodeIneligible}).Draw(t, "eligibility")
	case 2:
		n.Attributes["kernel.name"] = rapid.SampledFrom([]string{"linux", "plan9"}).Draw(t, "kernel")
	case 4:
		n.Devices = gpus()
		for _, g := range n.Devices {
			for i := range g.Devices {
				g.Devices[i].Health = rapid.SampledFrom([]structs.DeviceHealth{structs.DeviceHealthy, structs.DeviceHealthy, structs.DeviceUnconfirmed}).Draw(t, "health")
			}
		}
	case 3:
		n.Status = rapid.SampledFrom([]structs.NodeStatus{structs.NodeReady, structs.NodeReady, structs.NodeDown}).Draw(t, "status")
	}
}

func (w *world) endSome(t *rapid.T) {
	for _, a := range w.sorted() {
		if !a.ClientStatus.Terminal() && rapid.IntRange(0, 3).Draw(t, "end") == 0 {
			w.end(a.ID, rapid.SampledFrom([]structs.ClientStatus{structs.ClientComplete, structs.ClientFailed}).Draw(t, "how"))
		}
	}
}

// decide schedules every job and checks the decision.
func (w *world) decide(t *rapid.T) {
	for _, id := range []string{"a", "b"} {
		j := w.jobs[id]
		if j == nil {
			continue
		}
		res := w.schedule(j, w.stopped[id])
		for _, a := range res.Place {
			n := w.node(a.NodeID)
			d := n.Drivers["mock"]
			require.True(t, n.Status == structs.NodeReady && n.Eligibility == structs.NodeEligible && d.Detected && d.Healthy,
				"placed on a node that takes nothing")
			for _, d := range a.Resources.Tasks["t"].Devices {
				i := slices.IndexFunc(n.Devices, func(g *structs.DeviceGroup) bool { return g.ID == d.Group() })
				for _, have := range n.Devices[i].Devices {
					require.True(t, !slices.Contains(d.DeviceIDs, have.ID) || have.Health == structs.DeviceHealthy, "an unwell device is given")
				}
			}
			for _, c := range j.Constraints {
				require.True(t, meets(c, n), "placed against a constraint")
			}
		}
		w.check(t, j, res)
		require.False(t, w.schedule(j, w.stopped[id]).Changes(), "deciding again decides the same")
	}
}

func (w *world) node(id string) *structs.Node {
	return w.nodes[slices.IndexFunc(w.nodes, func(n *structs.Node) bool { return n.ID == id })]
}

// check recomputes from nothing what must always be so.
func (w *world) check(t *rapid.T, j *nomad.Job, res *Result) {
	names, perHost := map[string]int{}, map[string]int{}
	live := 0
	for _, a := range w.allocs {
		if a.JobID != *j.ID || a.Terminal() {
			continue
		}
		live++
		names[a.Name]++
		perHost[a.NodeID]++
	}
	if w.stopped[*j.ID] {
		require.Zero(t, live, "a stopped job has no live allocation")
	}
	if PerNode(j) {
		for _, n := range perHost {
			require.Equal(t, 1, n, "one a node")
		}
	} else {
		require.LessOrEqual(t, live, *j.TaskGroups[0].Count)
		for name, n := range names {
			require.Equal(t, 1, n, name)
		}
	}
	if PerNode(j) { // none waits for a node that may run it
		require.True(t, len(res.Failed) > 0 || !res.Waits())
	} else {
		require.Equal(t, len(res.Failed) > 0, res.Waits())
	}
	w.checkRoom(t)
}

// checkRoom checks that no node's memory is promised twice, and no port or device but
// between an allocation and the one that waits for its end.
func (w *world) checkRoom(t *rapid.T) {
	holding := map[string]*Alloc{}
	for id, a := range w.allocs {
		if !a.ClientStatus.Terminal() && w.node(a.NodeID).Status != structs.NodeDown {
			holding[id] = a
		}
	}
	// An allocation waits for all before it on its node, also over one that ended while
	// it waited, but its node knows no allocation on another, nor what that one replaced.
	root := func(a *Alloc) string {
		first := a
		for p := w.allocs[a.PreviousAllocation]; p != nil && p.NodeID == a.NodeID; p = w.allocs[p.PreviousAllocation] {
			if holding[p.ID] != nil {
				first = p
			}
		}
		return first.ID
	}
	memory := map[string]map[string]int{}
	ports := map[string]string{}
	devices := map[string]string{}
	for _, a := range holding {
		r := root(a)
		if memory[a.NodeID] == nil {
			memory[a.NodeID] = map[string]int{}
		}
		memory[a.NodeID][r] = max(memory[a.NodeID][r], a.Resources.Tasks["t"].MemoryMB)
		if len(a.Resources.Ports) > 0 {
			owner := ports[a.NodeID]
			require.True(t, owner == "" || owner == r, "a port is given twice")
			ports[a.NodeID] = r
		}
		for _, d := range given(a) {
			key := a.NodeID + " " + d
			require.True(t, devices[key] == "" || devices[key] == r, "%s is given twice", key)
			devices[key] = r
		}
	}
	for node, chains := range memory {
		sum := 0
		for _, m := range chains {
			sum += m
		}
		require.LessOrEqual(t, sum, w.node(node).Resources.MemoryMB)
	}
}

func TestWhateverHappensTheInvariantsHold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &world{cluster: newCluster(t, gpuNode("n1"), gpuNode("n2")), jobs: map[string]*nomad.Job{}, stopped: map[string]bool{}}
		t.Repeat(map[string]func(*rapid.T){
			"register": w.register,
			"node":     w.changeNode,
			"end":      w.endSome,
			"time":     func(*rapid.T) { w.now = w.now.Add(17 * time.Second) },
			"":         w.decide,
		})
	})
}
