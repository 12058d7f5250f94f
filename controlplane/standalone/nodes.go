package standalone

import (
	"cmp"
	"context"
	"maps"
	"reflect"
	"slices"
	"time"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/controlplane/standalone/schedule"
	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/structs/errdefs"
)

// ForNode is the control plane as a node sees it: it implements node.ControlPlane.
// A node registers before it asks for anything; an unknown one is errdefs.NotFound.
type ForNode struct{ cp *ControlPlane }

// ForNode returns the side that a node talks to.
func (cp *ControlPlane) ForNode() ForNode { return ForNode{cp} }

// Register makes a node known, or its changes. The registration lasts for ever (ttl
// 0): the node is in the same process. A node that comes under a known name with a
// new ID has lost its identity: the old one is down from then on and what ran there
// is lost.
func (f ForNode) Register(ctx context.Context, n *structs.Node) (ttl time.Duration, err error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if n.ID == "" || n.Name == "" {
		return 0, invalid("a node needs an ID and a name")
	}
	return 0, f.cp.write(func(t *tx) error {
		old := t.nodes.get(n.ID)
		c := n.Copy()
		if n.Pool != "" && !t.hasPool(n.Pool) {
			t.putPool(&nomad.NodePool{Name: n.Pool})
		}
		if old == nil {
			t.introduce(c)
		} else {
			c.CreateIndex, c.ModifyIndex, c.Eligibility = old.CreateIndex, old.ModifyIndex, old.Eligibility
			c.Drain, c.LastDrain, c.StatusUpdated = old.Drain, old.LastDrain, old.StatusUpdated
			c.Events = mergeEvents(old.Events, c.Events)
			if sameNode(old, c) {
				return nil
			}
		}
		t.putNode(c)
		t.nodeChanged()
		return nil
	})
}

// introduce makes a node ready to be stored that was not known.
func (t *tx) introduce(n *structs.Node) {
	t.replaceNode(n)
	n.CreateIndex, n.ModifyIndex = 0, 0
	n.Eligibility = cmp.Or(n.Eligibility, structs.NodeEligible)
	n.Events = mergeEvents(n.Events, []structs.NodeEvent{{Time: t.now.UTC(), Subsystem: "Cluster", Message: "Node registered"}})
	t.touchedNodes[n.ID] = nil // which has it told that there is nothing
}

// replaceNode takes other nodes of the same name down.
func (t *tx) replaceNode(n *structs.Node) {
	t.nodes.all(func(id string, other *structs.Node) {
		if other.Name != n.Name || other.Status == structs.NodeDown {
			return
		}
		c := other.Copy()
		c.Status = structs.NodeDown
		c.Events = mergeEvents(c.Events, []structs.NodeEvent{{
			Time: t.now.UTC(), Subsystem: "Cluster",
			Message: "Node replaced by one of the same name", Details: map[string]string{"node": n.ID},
		}})
		t.putNode(c)
		jobs := map[jobKey]*schedule.Alloc{}
		for _, a := range t.liveByNode.in(id) {
			jobs[jobOf(a)] = a
		}
		for _, a := range jobs {
			t.markStoppingLost(a, id)
			t.evaluate(t.newEval(a.Job, triggerNode), a.Job)
		}
	})
}

// markStoppingLost ends what was stopping on a node that is gone: the scheduler looks
// only at what is to run.
func (t *tx) markStoppingLost(of *schedule.Alloc, nodeID string) {
	for _, a := range t.jobAllocs(jobOf(of)) {
		if a.NodeID == nodeID && a.ServerTerminal() && !a.ClientStatus.Terminal() {
			t.changeAlloc(a, true, func(a *structs.Allocation) { a.ClientStatus = structs.ClientLost })
		}
	}
}

// nodeChanged gives every job that a node's change can help another chance.
func (t *tx) nodeChanged() {
	t.unblock(true)
	t.evaluateNodes()
}

// sameNode reports whether a node has not changed. When a driver was looked at does
// not count.
func sameNode(a, b *structs.Node) bool {
	if len(a.Drivers) != len(b.Drivers) {
		return false
	}
	for name, d := range a.Drivers {
		if o := b.Drivers[name]; o == nil || d == nil || !d.Same(o) {
			return false
		}
	}
	x, y := *a, *b
	x.Drivers, y.Drivers = nil, nil
	if !maps.Equal(x.Attributes, y.Attributes) || !maps.Equal(x.Meta, y.Meta) {
		return false
	}
	x.Attributes, y.Attributes, x.Meta, y.Meta = nil, nil, nil, nil
	return reflect.DeepEqual(x, y)
}

// mergeEvents returns both lists' events, each once, in the order of their times, and
// of these the newest that a node keeps.
func mergeEvents(a, b []structs.NodeEvent) []structs.NodeEvent {
	type identity struct {
		at                 int64
		subsystem, message string
	}
	seen := map[identity]bool{}
	var all []structs.NodeEvent
	for _, e := range slices.Concat(a, b) {
		e.Time = e.Time.UTC().Round(0)
		id := identity{e.Time.UnixNano(), e.Subsystem, e.Message}
		if !seen[id] {
			seen[id] = true
			all = append(all, e)
		}
	}
	slices.SortStableFunc(all, func(a, b structs.NodeEvent) int { return a.Time.Compare(b.Time) })
	return all[max(0, len(all)-structs.MaxNodeEvents):]
}

// Heartbeat reports that a node is alive.
func (f ForNode) Heartbeat(ctx context.Context, nodeID string) (ttl time.Duration, err error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if f.cp.Node(nodeID) == nil {
		return 0, notFound("node %q not found", nodeID)
	}
	return 0, nil
}

// Allocations implements node.ControlPlane: an ended allocation is the node's to know as
// long as it is kept. When ctx is done before anything changed, nothing has.
func (f ForNode) Allocations(ctx context.Context, nodeID string, minIndex uint64) (*structs.Assignments, error) {
	cp := f.cp
	for {
		cp.mu.RLock()
		if cp.data.nodes[nodeID] == nil {
			cp.mu.RUnlock()
			return nil, notFound("node %q not found", nodeID)
		}
		log, changed, standing := cp.nodeLogs[nodeID], cp.tables[TableAllocations].changed, cp.tables[TableNodes].changed
		if log.index > minIndex || ctx.Err() != nil {
			list := cp.data.assignments(nodeID, log, minIndex)
			cp.mu.RUnlock()
			sortAllocations(list.Changed)
			return list, nil
		}
		cp.mu.RUnlock()
		select {
		case <-changed:
		case <-standing:
		case <-ctx.Done():
		case <-cp.stop:
			return nil, errClosed
		}
	}
}

// assignments returns what changed for a node above an index.
func (t *tables) assignments(nodeID string, log *nodeLog, minIndex uint64) *structs.Assignments {
	out := &structs.Assignments{Index: log.index, Standing: standingOf(t.nodes[nodeID])}
	ids, ok := log.since(minIndex)
	if !ok {
		out.All = true
		for _, a := range t.allocsByNode[nodeID] {
			out.Changed = append(out.Changed, a.Allocation)
		}
	}
	for _, id := range ids {
		if a := t.allocs[id]; a != nil {
			out.Changed = append(out.Changed, a.Allocation)
		} else {
			out.Gone = append(out.Gone, id)
		}
	}
	return out
}

// UpdateAllocations takes what a node's allocations have become. What is unknown, on
// another node, or unchanged is left out. An allocation that has ended stays so.
func (f ForNode) UpdateAllocations(ctx context.Context, nodeID string, states []*structs.AllocationState) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return f.cp.write(func(t *tx) error {
		if t.nodes.get(nodeID) == nil {
			return notFound("node %q not found", nodeID)
		}
		failed := map[jobKey]*schedule.Alloc{}
		changed := map[jobKey]bool{}
		decided := map[jobKey]bool{} // of what the health was
		ended := false
		for _, state := range states {
			a := t.allocs.get(state.ID)
			if a == nil || a.NodeID != nodeID || sameState(a.Allocation, state) {
				continue
			}
			was, before := a.ClientStatus, partOf(a)
			if was.Terminal() && !state.ClientStatus.Terminal() {
				continue
			}
			a = t.changeAlloc(a, false, func(a *structs.Allocation) { merge(a, state.Copy()) })
			key := jobOf(a)
			changed[key] = true
			if after := partOf(a); after.healthy > before.healthy || after.unhealthy > before.unhealthy {
				decided[key] = true
			}
			if !was.Terminal() && a.ClientStatus.Terminal() {
				ended = true
				if !a.ServerTerminal() && (a.ClientStatus != structs.ClientComplete || *a.Job.Type == "service") {
					failed[key] = a
				}
			}
		}
		for key := range decided {
			if t.watchDeployment(key) {
				delete(failed, key)
				delete(changed, key)
			}
		}
		for key, a := range failed {
			t.evaluate(t.newEval(a.Job, triggerFailure), a.Job)
			delete(changed, key)
		}
		for key := range changed {
			t.refreshStatus(key)
		}
		if ended {
			t.unblock(false)
		}
		return nil
	})
}

// merge takes over what a node owns of an allocation. An ended allocation keeps how
// it ended.
func merge(a *structs.Allocation, state *structs.AllocationState) {
	if !a.ClientStatus.Terminal() {
		a.ClientStatus, a.ClientDescription = state.ClientStatus, state.ClientDescription
	}
	a.TaskStates = state.TaskStates
	a.DeploymentStatus = mergeHealth(a, state.DeploymentStatus)
	if state.Network != nil { // an end without one does not tell that there was none
		a.Network = state.Network
	}
}

// mergeHealth returns an allocation's health when its node reports one. What it has decided
// for another deployment does not count in this one, where the first decision stays. Which
// is a canary is the control plane's to say.
func mergeHealth(a *structs.Allocation, reported *structs.DeploymentStatus) *structs.DeploymentStatus {
	mine := a.DeploymentStatus
	switch {
	case a.DeploymentID == "":
		return reported
	case reported == nil || reported.Healthy == nil || reported.DeploymentID != a.DeploymentID,
		mine != nil && mine.Healthy != nil:
		return mine
	}
	c := reported.Copy()
	c.Canary = mine != nil && mine.Canary
	return c
}

func sameState(a *structs.Allocation, s *structs.AllocationState) bool {
	return a.ClientStatus == s.ClientStatus && a.ClientDescription == s.ClientDescription &&
		reflect.DeepEqual(a.TaskStates, s.TaskStates) && reflect.DeepEqual(a.DeploymentStatus, mergeHealth(a, s.DeploymentStatus)) &&
		(s.Network == nil || reflect.DeepEqual(a.Network, s.Network))
}

// SetEligibility sets whether a node takes new allocations: "eligible" or
// "ineligible", else errdefs.InvalidArgument. One that is being drained cannot be eligible:
// errdefs.FailedPrecondition. An unknown node is errdefs.NotFound.
func (cp *ControlPlane) SetEligibility(nodeID, eligibility string) (*structs.NodeChange, error) {
	if eligibility != structs.NodeEligible && eligibility != structs.NodeIneligible {
		return nil, invalid("invalid scheduling eligibility %q: %q or %q",
			eligibility, structs.NodeEligible, structs.NodeIneligible)
	}
	return cp.changeNode(nodeID, func(t *tx, n *structs.Node) (changed, eligible bool, err error) {
		switch {
		case n.Eligibility == eligibility:
			return false, false, nil
		case n.Drain != nil:
			return false, false, errdefs.New(errdefs.FailedPrecondition, "node %q is being drained: end that first", n.ID)
		}
		t.markEligibility(n, eligibility)
		return true, eligibility == structs.NodeEligible, nil
	})
}

func (t *tx) markEligibility(n *structs.Node, eligibility string) {
	n.Eligibility = eligibility
	t.nodeEvent(n, "Cluster", "Node marked as "+eligibility+" for scheduling", nil)
}
