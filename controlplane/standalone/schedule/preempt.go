package schedule

import (
	"cmp"
	"math"
	"slices"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/structs"
)

// MinPreemption is by how much a job's priority must be higher than that of whose
// allocations it preempts, as in Nomad.
const MinPreemption = 10

// room is what an allocation would be given on a node, once others have ended there.
type room struct {
	node      *structs.Node
	resources structs.AllocatedResources
	victims   []victim
}

// victim is an allocation of another job that may be preempted.
type victim struct {
	*structs.Allocation
	priority int
	chain    *chain
}

// preempt finds the node on which the least has to be preempted for an allocation of a
// group, and takes it; false: nothing that may be preempted would make room.
func (s *scheduler) preempt(a *Alloc, g *nomad.TaskGroup, nodes []*structs.Node) bool {
	var best *room
	for _, n := range nodes {
		if r := s.makeRoom(n, a, g); r != nil && (best == nil || s.preferred(r, best) < 0) {
			best = r
		}
	}
	if best == nil {
		return false
	}
	for _, v := range best.victims {
		a.PreemptedAllocations = append(a.PreemptedAllocations, v.ID)
		s.res.Preempted[v.ID] = a.ID
	}
	slices.Sort(a.PreemptedAllocations)
	s.give(a, best.node, best.resources)
	s.res.Desired[*g.Name].Preemptions += uint64(len(best.victims))
	return true
}

// preferred orders ways to make room: that which ends the least important jobs'
// allocations, then the fewest, then where the job has the fewest of its own.
func (s *scheduler) preferred(x, y *room) int {
	return cmp.Or(
		cmp.Compare(highest(x.victims), highest(y.victims)),
		cmp.Compare(len(x.victims), len(y.victims)),
		cmp.Compare(s.cap.ofJob[x.node.ID], s.cap.ofJob[y.node.ID]),
	)
}

func highest(victims []victim) (priority int) {
	for _, v := range victims {
		priority = max(priority, v.priority)
	}
	return priority
}

// makeRoom returns what to preempt on a node for an allocation; nil: nothing would help.
// No allocation is preempted when those of less important jobs are enough, and of those
// that are left, as few as one of several searches finds, each of which takes first what it
// holds for the most helpful.
func (s *scheduler) makeRoom(n *structs.Node, a *Alloc, g *nomad.TaskGroup) (best *room) {
	candidates := s.evictable(n.ID) // first: that gives each a chain
	begin := func() *trial {
		return &trial{scheduler: s, node: n, alloc: a, group: g, claim: s.cap.claim(a.Allocation, n.ID)}
	}
	if candidates = begin().leastImportant(candidates); candidates == nil {
		return nil
	}
	for _, value := range values {
		t := begin()
		t.search(slices.Clone(candidates), value)
		if r := (&room{n, t.resources, t.victims}); best == nil || s.preferred(r, best) < 0 {
			best = r
		}
	}
	return best
}

// values are ways to value a victim by which part of each thing that is short it would give:
// each alone misleads where several things are short.
var values = []func(parts []float64) float64{
	func(parts []float64) (sum float64) {
		for _, p := range parts {
			sum += p
		}
		return sum
	},
	slices.Max[[]float64],
	slices.Min[[]float64],
}

// evictable returns the allocations on a node that the job may preempt: of the least
// important job first, and of one priority the newest first, of which the least is lost.
func (s *scheduler) evictable(nodeID string) (list []victim) {
	for _, v := range s.victimsOn(nodeID) {
		v.chain = s.cap.chains[v.ID]
		if v.chain != nil && s.res.Preempted[v.ID] == "" && v.priority+MinPreemption <= priorityOf(s.Job) {
			list = append(list, v)
		}
	}
	return list
}

// victimsOn returns the allocations of other jobs on a node that are to run, in order. Only
// for this, each of them is looked at.
func (s *scheduler) victimsOn(nodeID string) []victim {
	if on, known := s.victims[nodeID]; known {
		return on
	}
	var rest []*structs.Allocation
	if s.Rest != nil {
		rest = s.Rest(nodeID)
	}
	s.cap.lookAt(nodeID, rest)
	var on []victim
	for _, o := range slices.Concat(s.Others, rest) {
		if o.NodeID == nodeID && !o.Terminal() {
			on = append(on, victim{Allocation: o, priority: priorityOf(o.Job)})
		}
	}
	slices.SortFunc(on, func(x, y victim) int {
		return cmp.Or(cmp.Compare(x.priority, y.priority), cmp.Compare(y.CreateIndex, x.CreateIndex), cmp.Compare(x.ID, y.ID))
	})
	s.victims[nodeID] = on
	return on
}

// trial is a set of victims in the making.
type trial struct {
	*scheduler
	node  *structs.Node
	alloc *Alloc
	group *nomad.TaskGroup

	claim     *claim // on what the victims have too
	victims   []victim
	resources structs.AllocatedResources // of the last fit
}

func (t *trial) fits() bool {
	var exhausted string
	t.resources, exhausted = t.cap.fit(t.node, t.claim, t.alloc.ID, t.group)
	return exhausted == ""
}

func (t *trial) take(v victim) {
	t.claim.add(v.chain)
	t.victims = append(t.victims, v)
}

// leastImportant returns the candidates up to the lowest priority that is enough; nil
// when all are not.
func (t *trial) leastImportant(candidates []victim) []victim {
	claimed := 0
	enough := func(n int) bool {
		for ; claimed < n; claimed++ {
			t.claim.add(candidates[claimed].chain)
		}
		for ; claimed > n; claimed-- {
			t.claim.remove(candidates[claimed-1].chain)
		}
		return t.fits()
	}
	defer func() { enough(0) }()
	var ends []int // of each priority's candidates
	for i := range candidates {
		if i+1 == len(candidates) || candidates[i+1].priority != candidates[i].priority {
			ends = append(ends, i+1)
		}
	}
	i, _ := slices.BinarySearchFunc(ends, true, func(end int, _ bool) int {
		if enough(end) {
			return 1
		}
		return -1
	})
	if i == len(ends) {
		return nil
	}
	return candidates[:ends[i]]
}

// search takes victims until they are enough, and spares those that were not needed.
func (t *trial) search(candidates []victim, value func([]float64) float64) {
	for !t.fits() {
		i := t.mostHelpful(candidates, value)
		t.take(candidates[i])
		candidates = slices.Delete(candidates, i, i+1)
	}
	t.dropNeedless()
	t.fits()
}

// mostHelpful returns the candidate that gives the most of what is still short, the least
// important of equals. Who has a port that is needed has to go whatever else does.
func (t *trial) mostHelpful(candidates []victim, value func([]float64) float64) (best int) {
	short := t.short()
	most := -1.0
	for i, v := range candidates {
		help := 0.0
		if short.portOf(v) {
			help = math.Inf(1)
		} else if parts := short.partsOf(v); len(parts) > 0 {
			help = value(parts)
		}
		if help > most {
			best, most = i, help
		}
	}
	return best
}

// shortage is what is missing for a group on a node.
type shortage struct {
	amounts
	cores   int
	ports   map[int]bool // static ones that others have
	devices []*nomad.RequestedDevice
}

func (t *trial) short() shortage {
	u, n := t.cap.node(t.node.ID), t.node
	asked := amounts{}
	if d := t.group.EphemeralDisk; d != nil {
		asked.disk = structs.Deref(d.SizeMB)
	}
	sh := shortage{ports: map[int]bool{}}
	for _, task := range t.group.Tasks {
		sh.devices = append(sh.devices, devicesOf(task)...)
		if r := task.Resources; r != nil {
			asked.cpu += structs.Deref(r.CPU)
			asked.memory += structs.Deref(r.MemoryMB) + structs.Deref(r.SecretsMB)
			sh.cores += structs.Deref(r.Cores)
		}
	}
	if sh.cores > 0 {
		asked.cpu += sh.cores * (n.Resources.CPUMHz / n.Resources.Cores)
		for core := range n.Resources.Cores {
			if n.ReservedCores.Has(core) {
				continue
			}
			if u.free(coreThing(core), t.claim) {
				sh.cores--
			}
		}
	}
	taken := u.plus(t.claim.taken.most(asked).minus(t.claim.taken))
	sh.amounts = taken.minus(capacityOf(n))
	for _, p := range portsOf(t.group, func(n *nomad.NetworkResource) []nomad.Port { return n.ReservedPorts }) {
		if !p.IgnoreCollision && !u.free(portThing(p.Value), t.claim) {
			sh.ports[p.Value] = true
		}
	}
	return sh
}

// portOf reports whether a victim has a port that is short.
func (sh *shortage) portOf(v victim) bool {
	return slices.ContainsFunc(v.Resources.Ports, func(p structs.AllocatedPort) bool { return sh.ports[p.Value] })
}

// partsOf is which part of each thing that is short a victim would give.
func (sh *shortage) partsOf(v victim) (parts []float64) {
	cores, devices := 0, make([]int, len(sh.devices))
	for _, task := range v.Resources.Tasks {
		cores += len(task.Cores)
		for _, d := range task.Devices {
			for i, ask := range sh.devices {
				if d.Group().Matches(ask.Name) {
					devices[i] += len(d.DeviceIDs)
				}
			}
		}
	}
	part := func(given, short int) {
		if short > 0 {
			parts = append(parts, min(1, float64(given)/float64(short)))
		}
	}
	for i, ask := range sh.devices {
		part(devices[i], int(min(deviceCount(ask), math.MaxInt32)))
	}
	taken := v.chain.taken
	part(cores, sh.cores)
	part(taken.cpu, sh.cpu)
	part(taken.memory, sh.memory)
	part(taken.disk, sh.disk)
	return parts
}

// dropNeedless spares the victims without which the others are enough: the most important
// first, and of those the smallest.
func (t *trial) dropNeedless() {
	size := func(v victim) int { return v.chain.taken.cpu + v.chain.taken.memory }
	slices.SortStableFunc(t.victims, func(x, y victim) int {
		return cmp.Or(cmp.Compare(y.priority, x.priority), cmp.Compare(size(x), size(y)))
	})
	t.victims = slices.DeleteFunc(t.victims, func(v victim) bool {
		t.claim.remove(v.chain)
		needless := t.fits()
		if !needless {
			t.claim.add(v.chain)
		}
		return needless
	})
}
