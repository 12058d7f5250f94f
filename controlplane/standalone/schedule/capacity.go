package schedule

import (
	"fmt"
	"hash/fnv"
	"slices"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/structs"
)

// amounts is what can be added and compared.
type amounts struct{ cpu, memory, disk int }

func (a amounts) plus(b amounts) amounts {
	return amounts{a.cpu + b.cpu, a.memory + b.memory, a.disk + b.disk}
}

func (a amounts) minus(b amounts) amounts {
	return amounts{a.cpu - b.cpu, a.memory - b.memory, a.disk - b.disk}
}

func (a amounts) most(b amounts) amounts {
	return amounts{max(a.cpu, b.cpu), max(a.memory, b.memory), max(a.disk, b.disk)}
}

// use is what is taken of one node. Ports, cores and devices are owned by chains: several
// may own a port that they agreed to share.
type use struct {
	amounts // of the rest too
	owners  map[thing][]*chain
	rest    *Taken // by allocations of other jobs that have no chain here; nil: by none
}

// capacity is what is taken of every node. An allocation takes until it has ended,
// not only until it is told to stop. One that waits for others on its node, which it
// replaces or preempted, starts when they have ended, so that all of them (a chain) take,
// of each thing, what those take together or what it takes, whichever is more. A chain
// never goes over another node: a node knows its own allocations only, and so cannot wait
// for what one elsewhere replaced.
type capacity struct {
	nodes  map[string]*use
	chains map[string]*chain // by allocation ID
	ofJob  map[string]int    // the job's live allocations, by node ID
	// preempted are the allocations that made room for another: what they held is not
	// their own job's any more.
	preempted     map[string]bool
	oversubscribe bool
}

// chain is what an allocation and all that it waits for on its node take together.
type chain struct {
	into  *chain // of the allocation that waits for all of this one, if any
	node  string
	taken amounts
}

// last is the chain that a chain has become part of.
func (ch *chain) last() *chain {
	for ch.into != nil {
		ch = ch.into
	}
	return ch
}

// claim is what an allocation may have on a node though it is taken: it waits for those
// that took it.
type claim struct {
	chains map[*chain]bool
	taken  amounts // by all of them
}

func (cl *claim) add(ch *chain) {
	if cl.chains == nil {
		cl.chains = map[*chain]bool{}
	}
	if !cl.chains[ch] {
		cl.chains[ch] = true
		cl.taken = cl.taken.plus(ch.taken)
	}
}

func (cl *claim) remove(ch *chain) {
	if cl.chains[ch] {
		delete(cl.chains, ch)
		cl.taken = cl.taken.minus(ch.taken)
	}
}

// join makes a claim's chains part of one.
func (cl *claim) join(ch *chain) *chain {
	for part := range cl.chains {
		part.into = ch
	}
	return ch
}

func newCapacity(in Input) *capacity {
	c := &capacity{nodes: map[string]*use{}, chains: map[string]*chain{}, ofJob: map[string]int{}, preempted: map[string]bool{}, oversubscribe: in.Oversubscribe}
	c.standOn(in)
	all := make(map[string]*structs.Allocation, len(in.Others)+len(in.Allocs))
	for _, a := range in.Others {
		all[a.ID] = a
	}
	for _, a := range in.Allocs {
		all[a.ID] = a.Allocation
		if !a.Terminal() {
			c.ofJob[a.NodeID]++
		}
	}
	up := map[string]bool{}
	for _, n := range in.Nodes {
		up[n.ID] = n.Status != structs.NodeDown
	}
	seen := make(map[string]bool, len(all))
	var know func(a *structs.Allocation)
	know = func(a *structs.Allocation) {
		if a == nil || seen[a.ID] {
			return
		}
		seen[a.ID] = true
		for id := range a.WaitsFor {
			know(all[id])
		}
		c.know(a, up[a.NodeID])
	}
	for _, a := range all {
		know(a)
	}
	return c
}

// standOn starts from the totals that the input has, without the job's own allocations: these
// are looked at one by one.
func (c *capacity) standOn(in Input) {
	for id, taken := range in.Taken {
		c.node(id).rest = NewTaken(taken)
	}
	for _, a := range in.Allocs {
		if u := c.nodes[a.NodeID]; u != nil && InTotal(a.Allocation) {
			u.rest.Remove(a.Allocation)
		}
	}
	for _, u := range c.nodes {
		u.amounts = u.rest.total()
	}
}

// lookAt gives each of the allocations a chain that only the total of their node has had,
// which are all.
func (c *capacity) lookAt(nodeID string, rest []*structs.Allocation) {
	u := c.node(nodeID)
	if u.rest == nil {
		return
	}
	u.amounts, u.rest = u.minus(u.rest.total()), nil
	for _, a := range rest {
		c.add(a)
	}
}

// know takes what an allocation holds, once that is done for all that it waits for.
func (c *capacity) know(a *structs.Allocation, up bool) {
	c.preempted[a.ID] = a.PreemptedByAllocation != ""
	if !a.ClientStatus.Terminal() && up {
		c.add(a)
		return
	}
	// If it ended while it still waited itself, its successor waits for the same ones.
	if cl := c.claim(a, a.NodeID); len(cl.chains) > 0 {
		c.chains[a.ID] = cl.join(&chain{node: a.NodeID, taken: cl.taken})
	}
}

func (c *capacity) node(id string) *use {
	u := c.nodes[id]
	if u == nil {
		u = &use{owners: map[thing][]*chain{}}
		c.nodes[id] = u
	}
	return u
}

// claim returns what an allocation would be the heir of on a node. What was preempted
// has one heir, for which it was, and not its own successor too. What runs has waited.
func (c *capacity) claim(a *structs.Allocation, nodeID string) *claim {
	cl := &claim{}
	if a.ClientStatus == structs.ClientRunning {
		return cl
	}
	for id := range a.WaitsFor {
		if id == a.PreviousAllocation && c.preempted[id] {
			continue
		}
		if ch := c.chains[id]; ch != nil && ch.node == nodeID {
			cl.add(ch.last())
		}
	}
	return cl
}

// add takes what an allocation was given.
func (c *capacity) add(a *structs.Allocation) {
	u, cl := c.node(a.NodeID), c.claim(a, a.NodeID)
	ch := cl.join(&chain{node: a.NodeID, taken: cl.taken.most(amountsOf(a.Resources))})
	u.amounts = u.plus(ch.taken.minus(cl.taken))
	c.chains[a.ID] = ch
	for what := range thingsOf(&a.Resources) {
		u.owners[what] = append(u.owners[what], ch)
	}
}

func amountsOf(r structs.AllocatedResources) amounts {
	t := amounts{disk: r.DiskMB}
	for _, task := range r.Tasks {
		t.cpu += task.CPUMHz
		t.memory += task.MemoryMB
	}
	return t
}

// with is what is taken of a node when an allocation has that too.
func (c *capacity) with(n *structs.Node, cl *claim, r structs.AllocatedResources) amounts {
	return c.node(n.ID).plus(cl.taken.most(amountsOf(r)).minus(cl.taken))
}

// fit returns what an allocation of the group would be given on the node, or the
// dimension that is exhausted, with Nomad's names.
func (c *capacity) fit(n *structs.Node, cl *claim, allocID string, g *nomad.TaskGroup) (r structs.AllocatedResources, dimension string) {
	u := c.node(n.ID)
	r.Tasks = make(map[string]*structs.TaskResources, len(g.Tasks))
	if g.EphemeralDisk != nil {
		r.DiskMB = structs.Deref(g.EphemeralDisk.SizeMB)
	}
	if dimension = u.assignTasks(n, cl, g, &r); dimension != "" {
		return r, dimension
	}
	for _, t := range r.Tasks {
		if !c.oversubscribe {
			t.MemoryMaxMB = 0
		}
	}
	has := capacityOf(n)
	needs := c.with(n, cl, r)
	switch {
	case needs.cpu > has.cpu:
		return r, "cpu"
	case needs.memory > has.memory:
		return r, "memory"
	case needs.disk > has.disk:
		return r, "disk"
	}
	if dimension = u.assignDevices(n, cl, g, &r); dimension != "" {
		return r, dimension
	}
	return r, u.assignPorts(n, cl, allocID, g, &r)
}

// capacityOf is what a node has for allocations.
func capacityOf(n *structs.Node) amounts {
	return amounts{n.Resources.CPUMHz, n.Resources.MemoryMB, n.Resources.DiskMB}.
		minus(amounts{n.Reserved.CPUMHz, n.Reserved.MemoryMB, n.Reserved.DiskMB})
}

// assignTasks fills in each task's share; cores are the lowest free ones.
func (u *use) assignTasks(n *structs.Node, cl *claim, g *nomad.TaskGroup, r *structs.AllocatedResources) (dimension string) {
	core := 0
	for _, t := range g.Tasks {
		given := &structs.TaskResources{}
		r.Tasks[t.Name] = given
		if t.Resources == nil {
			continue
		}
		given.CPUMHz = structs.Deref(t.Resources.CPU)
		secrets := structs.Deref(t.Resources.SecretsMB) // they are in memory, beside what the task uses
		given.MemoryMB = structs.Deref(t.Resources.MemoryMB) + secrets
		if given.MemoryMaxMB = structs.Deref(t.Resources.MemoryMaxMB); given.MemoryMaxMB > 0 {
			given.MemoryMaxMB += secrets
		}
		for range structs.Deref(t.Resources.Cores) {
			for core < n.Resources.Cores && (n.ReservedCores.Has(core) || !u.free(coreThing(core), cl)) {
				core++
			}
			if core >= n.Resources.Cores {
				return "cores"
			}
			given.Cores = append(given.Cores, core)
			given.CPUMHz += n.Resources.CPUMHz / n.Resources.Cores
			core++
		}
	}
	return ""
}

// free reports whether no chain that is not claimed owns a thing.
func (u *use) free(what thing, cl *claim) bool {
	return !u.rest.has(what) && !slices.ContainsFunc(u.owners[what], func(ch *chain) bool { return !cl.chains[ch.last()] })
}

// taken reports whether any has a thing, claimed or not.
func (u *use) taken(what thing) bool { return u.rest.has(what) || len(u.owners[what]) > 0 }

// assignPorts fills in the group's ports: the static ones first, so that no dynamic one
// takes their number.
func (u *use) assignPorts(n *structs.Node, cl *claim, allocID string, g *nomad.TaskGroup, r *structs.AllocatedResources) (dimension string) {
	given := map[int]bool{}
	reserved := func(p nomad.Port, value int) bool {
		return n.ReservedPorts.Has(value) || n.HostNetwork(p.HostNetwork).ReservedPorts.Has(value)
	}
	give := func(p nomad.Port, value int) {
		given[value] = true
		to := p.To
		if to < 0 {
			to = value
		}
		r.Ports = append(r.Ports, structs.AllocatedPort{Label: p.Label, HostIP: n.HostNetwork(p.HostNetwork).Address, Value: value, To: to})
	}
	for _, p := range portsOf(g, func(n *nomad.NetworkResource) []nomad.Port { return n.ReservedPorts }) {
		if taken := given[p.Value] || reserved(p, p.Value) || !u.free(portThing(p.Value), cl); taken && !p.IgnoreCollision {
			return fmt.Sprintf("network: reserved port collision %s=%d", p.Label, p.Value)
		}
		give(p, p.Value)
	}
	// Where the search starts depends on the allocation, so that a port that was
	// just let go is not the next one's.
	h := fnv.New32a()
	h.Write([]byte(allocID))
	const ports = structs.MaxDynamicPort - structs.MinDynamicPort + 1
	at := int(h.Sum32() % ports)
	for _, p := range portsOf(g, func(n *nomad.NetworkResource) []nomad.Port { return n.DynamicPorts }) {
		found := false
		for range ports {
			value := structs.MinDynamicPort + at
			at = (at + 1) % ports
			if !u.taken(portThing(value)) && !given[value] && !reserved(p, value) {
				give(p, value)
				found = true
				break
			}
		}
		if !found {
			return "network: dynamic port selection failed"
		}
	}
	return ""
}

// missingNetworks returns which of the host networks that a group's ports name a node has
// not, with Nomad's text.
func missingNetworks(n *structs.Node, g *nomad.TaskGroup) (why []string) {
	for _, p := range portsOf(g, func(r *nomad.NetworkResource) []nomad.Port { return slices.Concat(r.ReservedPorts, r.DynamicPorts) }) {
		if n.HostNetwork(p.HostNetwork) == nil {
			why = append(why, fmt.Sprintf("missing host network %q for port %q", p.HostNetwork, p.Label))
		}
	}
	return why
}

// missingMode returns why a node has no networks of a mode, beginning with Nomad's text;
// empty: it has.
func missingMode(n *structs.Node, mode string) string {
	if mode == "" || mode == "host" {
		return ""
	}
	lacks, known := n.NetworkModes[mode]
	switch {
	case !known:
		return "missing network"
	case lacks != "":
		return "missing network: " + lacks
	}
	return ""
}

// portsOf returns the ports of one kind of the group and of its tasks.
func portsOf(g *nomad.TaskGroup, kind func(*nomad.NetworkResource) []nomad.Port) (ports []nomad.Port) {
	for _, n := range g.Networks {
		ports = append(ports, kind(n)...)
	}
	for _, t := range g.Tasks {
		if t.Resources != nil {
			for _, n := range t.Resources.Networks {
				ports = append(ports, kind(n)...)
			}
		}
	}
	return ports
}
