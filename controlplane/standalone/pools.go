package standalone

import (
	"maps"
	"regexp"
	"slices"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/structs/errdefs"
)

// The bounds of a node pool.
const (
	maxPoolDescription = 256 // bytes
	maxPoolMeta        = 512 // names
)

var poolName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,128}$`)

// builtInPools are there without anybody's doing, and stay as they are.
var builtInPools = map[string]*nomad.NodePool{
	nomad.NodePoolAll:     {Name: nomad.NodePoolAll, Description: "Node pool with all nodes in the cluster.", CreateIndex: 1, ModifyIndex: 1},
	nomad.NodePoolDefault: {Name: nomad.NodePoolDefault, Description: "Default node pool.", CreateIndex: 1, ModifyIndex: 1},
}

// NodePools returns all node pools, in no order.
func (cp *ControlPlane) NodePools() []*nomad.NodePool {
	return read(cp, func(t *tables) []*nomad.NodePool {
		return append(slices.Collect(maps.Values(builtInPools)), slices.Collect(maps.Values(t.pools))...)
	})
}

// NodePool returns a node pool by its name.
func (cp *ControlPlane) NodePool(name string) *nomad.NodePool {
	if p := builtInPools[name]; p != nil {
		return p
	}
	return read(cp, func(t *tables) *nomad.NodePool { return t.pools[name] })
}

// PutNodePool makes a node pool, or takes its place. Its indexes do not count. What it cannot
// be is errdefs.InvalidArgument.
func (cp *ControlPlane) PutNodePool(p nomad.NodePool) error {
	switch {
	case builtInPools[p.Name] != nil:
		return invalid("the node pool %q is built in and stays as it is", p.Name)
	case !poolName.MatchString(p.Name):
		return invalid("invalid name %q of a node pool: 1 to 128 letters, digits, - and _", p.Name)
	case len(p.Description) > maxPoolDescription:
		return invalid("the description of node pool %q has %d bytes; at most %d", p.Name, len(p.Description), maxPoolDescription)
	case len(p.Meta) > maxPoolMeta:
		return invalid("the metadata of node pool %q has %d names; at most %d", p.Name, len(p.Meta), maxPoolMeta)
	case p.NodeIdentityTTL != 0:
		return invalid("node_identity_ttl of node pool %q: nodes are given no identities here", p.Name)
	case p.SchedulerConfiguration != nil:
		return invalid("Feature \"Node Pools Governance\" is unlicensed: scheduler_config of node pool %q", p.Name)
	}
	return cp.write(func(t *tx) error {
		t.putPool(&p)
		return nil
	})
}

func (t *tx) putPool(p *nomad.NodePool) {
	t.touched[TableNodePools] = t.at()
	p.CreateIndex, p.ModifyIndex = t.at(), t.at()
	if old := t.pools.get(p.Name); old != nil {
		p.CreateIndex = old.CreateIndex
	}
	t.pools.put(p.Name, p)
}

// hasPool reports whether there is a node pool of that name.
func (t *tx) hasPool(name string) bool { return builtInPools[name] != nil || t.pools.get(name) != nil }

// DeleteNodePool removes a node pool that has neither nodes nor jobs that are not dead, else
// it is errdefs.FailedPrecondition. An unknown one is errdefs.NotFound.
func (cp *ControlPlane) DeleteNodePool(name string) error {
	return cp.write(func(t *tx) error {
		used := ""
		t.nodes.all(func(id string, n *structs.Node) {
			if n.Pool == name {
				used = "node " + id
			}
		})
		t.jobs.all(func(key jobKey, j *job) {
			if *j.NodePool == name && *j.Status != statusDead {
				used = "job " + key.id
			}
		})
		switch {
		case builtInPools[name] != nil:
			return invalid("the node pool %q is built in and stays as it is", name)
		case t.pools.get(name) == nil:
			return notFound("node pool %q not found", name)
		case used != "":
			return errdefs.New(errdefs.FailedPrecondition, "node pool %q is used by %s", name, used)
		}
		t.touched[TableNodePools] = t.at()
		t.pools.delete(name)
		return nil
	})
}

// loadPool takes a stored node pool.
func (cp *ControlPlane) loadPool(name string, p *nomad.NodePool) error {
	if err := sameID(name, p.Name); err != nil {
		return err
	}
	cp.data.pools[name] = p
	cp.sawIndex(p.ModifyIndex)
	return nil
}
