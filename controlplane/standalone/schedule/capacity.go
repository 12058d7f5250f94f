package schedule

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"slices"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/structs"
)

// The range that dynamic ports are taken from, as in Nomad.
const (
	MinDynamicPort = 20000
	MaxDynamicPort = 32000
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

// use is what is taken of one node. Ports, cores and devices are owned by a chain.
type use struct {
	amounts
	ports   map[int]string
	cores   map[int]string
	devices map[deviceKey]string
}

// capacity is what is taken of every node. An allocation takes until it has ended,
// not only until it is told to stop. A successor on the same node waits for the end of
// all before it there, so that they (a chain) take, of each thing, as much as the
// largest of them. A chain never goes over another node: a node knows its own
// allocations only, and so cannot wait for what one elsewhere replaced.
type capacity struct {
	nodes  map[string]*use
	chains map[string]*chain // by allocation ID
	ofJob  map[string]int    // the job's live allocations, by node ID
}

// chain is what an allocation and its live predecessors on its node take together.
type chain struct {
	root  string
	node  string
	taken amounts
}

func newCapacity(in Input) *capacity {
	c := &capacity{nodes: map[string]*use{}, chains: map[string]*chain{}, ofJob: map[string]int{}}
	all := slices.Clone(in.Others)
	for _, a := range in.Allocs {
		all = append(all, a.Allocation)
		if !a.Terminal() {
			c.ofJob[a.NodeID]++
		}
	}
	up := map[string]bool{}
	for _, n := range in.Nodes {
		up[n.ID] = n.Status != structs.NodeDown
	}
	// Predecessors come before their successors.
	slices.SortStableFunc(all, func(a, b *structs.Allocation) int { return cmp.Compare(a.CreateIndex, b.CreateIndex) })
	for _, a := range all {
		previous := c.chains[a.PreviousAllocation]
		switch {
		case !a.ClientStatus.Terminal() && up[a.NodeID]:
			c.add(a)
		case previous != nil && previous.node == a.NodeID:
			// It ended while it still waited for its own predecessor; its successor
			// waits for that one.
			c.chains[a.ID] = previous
		}
	}
	return c
}

func (c *capacity) node(id string) *use {
	u := c.nodes[id]
	if u == nil {
		u = &use{ports: map[int]string{}, cores: map[int]string{}, devices: map[deviceKey]string{}}
		c.nodes[id] = u
	}
	return u
}

// chainOf returns the chain that an allocation on a node would join; a new one when
// it replaces no allocation there.
func (c *capacity) chainOf(a *structs.Allocation, nodeID string) *chain {
	if previous := c.chains[a.PreviousAllocation]; previous != nil && previous.node == nodeID {
		return previous
	}
	return &chain{root: a.ID, node: nodeID}
}

// add takes what an allocation was given.
func (c *capacity) add(a *structs.Allocation) {
	u, ch := c.node(a.NodeID), c.chainOf(a, a.NodeID)
	taken := ch.taken.most(amountsOf(a.Resources))
	u.amounts = u.plus(taken.minus(ch.taken))
	ch.taken = taken
	c.chains[a.ID] = ch
	for _, p := range a.Resources.Ports {
		u.ports[p.Value] = ch.root
	}
	for _, t := range a.Resources.Tasks {
		for _, core := range t.Cores {
			u.cores[core] = ch.root
		}
		for _, d := range t.Devices {
			for _, key := range keysOf(d) {
				u.devices[key] = ch.root
			}
		}
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

// fit returns what an allocation of the group would be given on the node, or the
// dimension that is exhausted, with Nomad's names.
func (c *capacity) fit(n *structs.Node, a *Alloc, g *nomad.TaskGroup) (r structs.AllocatedResources, dimension string) {
	u, ch := c.node(n.ID), c.chainOf(a.Allocation, n.ID)
	r.Tasks = make(map[string]*structs.TaskResources, len(g.Tasks))
	if g.EphemeralDisk != nil {
		r.DiskMB = structs.Deref(g.EphemeralDisk.SizeMB)
	}
	if dimension = u.assignTasks(n, ch, g, &r); dimension != "" {
		return r, dimension
	}
	has := amounts{n.Resources.CPUMHz, n.Resources.MemoryMB, n.Resources.DiskMB}.
		minus(amounts{n.Reserved.CPUMHz, n.Reserved.MemoryMB, n.Reserved.DiskMB})
	needs := u.plus(ch.taken.most(amountsOf(r)).minus(ch.taken))
	switch {
	case needs.cpu > has.cpu:
		return r, "cpu"
	case needs.memory > has.memory:
		return r, "memory"
	case needs.disk > has.disk:
		return r, "disk"
	}
	if dimension = u.assignDevices(n, ch, g, &r); dimension != "" {
		return r, dimension
	}
	return r, u.assignPorts(n, ch, a.ID, g, &r)
}

// assignTasks fills in each task's share; cores are the lowest free ones.
func (u *use) assignTasks(n *structs.Node, ch *chain, g *nomad.TaskGroup, r *structs.AllocatedResources) (dimension string) {
	core := n.Reserved.Cores
	for _, t := range g.Tasks {
		given := &structs.TaskResources{}
		r.Tasks[t.Name] = given
		if t.Resources == nil {
			continue
		}
		given.CPUMHz = structs.Deref(t.Resources.CPU)
		given.MemoryMB = structs.Deref(t.Resources.MemoryMB)
		given.MemoryMaxMB = structs.Deref(t.Resources.MemoryMaxMB)
		for range structs.Deref(t.Resources.Cores) {
			for core < n.Resources.Cores && !free(u.cores, core, ch) {
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

// free reports whether no allocation outside of the chain owns a port, core or device.
func free[K comparable](owners map[K]string, what K, ch *chain) bool {
	owner, taken := owners[what]
	return !taken || owner == ch.root
}

// assignPorts fills in the group's ports: the static ones first, so that no dynamic one
// takes their number.
func (u *use) assignPorts(n *structs.Node, ch *chain, allocID string, g *nomad.TaskGroup, r *structs.AllocatedResources) (dimension string) {
	ip := n.Attributes["unique.network.ip-address"]
	given := map[int]bool{}
	give := func(p nomad.Port, value int) {
		given[value] = true
		to := p.To
		if to < 0 {
			to = value
		}
		r.Ports = append(r.Ports, structs.AllocatedPort{Label: p.Label, HostIP: ip, Value: value, To: to})
	}
	for _, p := range portsOf(g, func(n *nomad.NetworkResource) []nomad.Port { return n.ReservedPorts }) {
		if given[p.Value] && !p.IgnoreCollision || !free(u.ports, p.Value, ch) && !p.IgnoreCollision {
			return fmt.Sprintf("network: reserved port collision %s=%d", p.Label, p.Value)
		}
		give(p, p.Value)
	}
	// Where the search starts depends on the allocation, so that a port that was
	// just let go is not the next one's.
	h := fnv.New32a()
	h.Write([]byte(allocID))
	const ports = MaxDynamicPort - MinDynamicPort + 1
	at := int(h.Sum32() % ports)
	for _, p := range portsOf(g, func(n *nomad.NetworkResource) []nomad.Port { return n.DynamicPorts }) {
		found := false
		for range ports {
			value := MinDynamicPort + at
			at = (at + 1) % ports
			if _, taken := u.ports[value]; !taken && !given[value] {
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
