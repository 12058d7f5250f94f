package standalone

import (
	"cmp"
	"slices"
	"time"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/controlplane/standalone/schedule"
	"github.com/wasmnode/wasmnode/structs"
)

// The subsystem of a node's events about drains, and what tells that one was ended by its
// deadline, with Nomad's names.
const (
	subsystemDrain  = "Drain"
	deadlineReached = "deadline_reached"
)

// SetDrain begins to empty a node, changes how, or ends that. A node that is being emptied
// takes no new allocations, nor does it afterwards, until somebody says so. An unknown
// node is errdefs.NotFound.
func (cp *ControlPlane) SetDrain(req *structs.DrainRequest) (*structs.NodeChange, error) {
	return cp.changeNode(req.NodeID, func(t *tx, n *structs.Node) (changed, eligible bool, err error) {
		if req.Drain == nil {
			was := n.Eligibility
			changed = t.endDrain(n, req)
			return changed, was != n.Eligibility, nil
		}
		t.beginDrain(n, req)
		return true, false, nil
	})
}

// changeNode changes a copy of a node, which is stored if it is said to be another. When it
// is said to take allocations again, what waits for that has its chance.
func (cp *ControlPlane) changeNode(id string, change func(*tx, *structs.Node) (changed, eligible bool, err error)) (*structs.NodeChange, error) {
	out := &structs.NodeChange{}
	err := cp.write(func(t *tx) error {
		n := t.nodes.get(id)
		if n == nil {
			return notFound("node %q not found", id)
		}
		c := n.Copy()
		changed, eligible, err := change(t, c)
		if err != nil {
			return err
		}
		if changed {
			t.putNode(c)
		}
		out.NodeModifyIndex = t.nodes.get(id).ModifyIndex
		if eligible {
			t.unblock(true)
			out.EvalIDs = t.evaluateNodes()
			if len(out.EvalIDs) > 0 {
				out.EvalCreateIndex = t.evals.get(out.EvalIDs[0]).CreateIndex
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// beginDrain has a node drained as asked; one that is being drained already goes on with
// the new bounds.
func (t *tx) beginDrain(n *structs.Node, req *structs.DrainRequest) {
	now, message := t.now.UTC(), "Node drain strategy set"
	d := *req.Drain
	d.StartedAt, d.ForceDeadline = now, time.Time{}
	if n.Drain != nil {
		d.StartedAt, message = n.Drain.StartedAt, "Node drain strategy updated"
	}
	if d.Deadline > 0 {
		d.ForceDeadline = now.Add(d.Deadline)
	}
	n.Drain, n.Eligibility = &d, structs.NodeIneligible
	n.LastDrain = &structs.LastDrain{StartedAt: d.StartedAt, UpdatedAt: now, Status: structs.DrainDraining, AccessorID: req.AccessorID, Meta: req.Meta}
	t.nodeEvent(n, subsystemDrain, message, nil)
}

// endDrain ends a drain that a person does not want any more, and reports whether that, or
// the node's eligibility, is a change.
func (t *tx) endDrain(n *structs.Node, req *structs.DrainRequest) (changed bool) {
	if n.Drain != nil {
		changed = true
		n.Drain = nil
		last := n.LastDrain.Copy()
		last.Status, last.UpdatedAt, last.AccessorID = structs.DrainCanceled, t.now.UTC(), req.AccessorID
		if len(req.Meta) > 0 {
			last.Meta = req.Meta
		}
		n.LastDrain = last
		t.nodeEvent(n, subsystemDrain, "Node drain disabled", nil)
	}
	if req.MarkEligible && n.Eligibility != structs.NodeEligible {
		changed = true
		t.markEligibility(n, structs.NodeEligible)
	}
	return changed
}

// completeDrain ends the drain of a node that is as empty as it is to be.
func (t *tx) completeDrain(n *structs.Node, atDeadline bool) {
	c := n.Copy()
	c.Drain = nil
	c.LastDrain = n.LastDrain.Copy()
	c.LastDrain.Status, c.LastDrain.UpdatedAt = structs.DrainComplete, t.now.UTC()
	var details map[string]string
	if atDeadline {
		details = map[string]string{deadlineReached: "true"}
	}
	t.nodeEvent(c, subsystemDrain, "Node drain complete", details)
	t.putNode(c)
}

func (t *tx) nodeEvent(n *structs.Node, subsystem, message string, details map[string]string) {
	n.Events = mergeEvents(n.Events, []structs.NodeEvent{{Time: t.now.UTC(), Subsystem: subsystem, Message: message, Details: details}})
}

// drainNodes takes the steps of each drain for which something may have changed: those that leave
// may allow others to, which would otherwise wait for whatever is stored next.
func (t *tx) drainNodes() error {
	for left := true; left; {
		left = false
		for _, n := range t.draining() {
			left = t.drainNode(n) || left
		}
	}
	return nil
}

func (t *tx) draining() (nodes []*structs.Node) {
	t.nodes.all(func(_ string, n *structs.Node) {
		if n.Drain != nil {
			nodes = append(nodes, n)
		}
	})
	return nodes
}

// drainNode has as many allocations of services leave as their groups allow at once, and says
// whether any did, leaves batch jobs to their end, and sends those of the system jobs away when
// all others have ended. At the deadline all go.
func (t *tx) drainNode(n *structs.Node) (left bool) {
	var services, batch, system []*schedule.Alloc
	waits := false
	for _, a := range t.liveByNode.in(n.ID) {
		switch *a.Job.Type {
		case nomad.JobTypeSystem, nomad.JobTypeSysbatch:
			system = append(system, a)
		case nomad.JobTypeBatch:
			batch, waits = append(batch, a), true
		default:
			services, waits = append(services, a), true
		}
	}
	if n.Drain.IgnoreSystemJobs {
		system = nil
	}
	switch {
	case n.Drain.Over(t.now):
		t.migrate(slices.Concat(services, batch, system))
		t.completeDrain(n, true)
	case !waits:
		t.migrate(system)
		t.completeDrain(n, false)
	default:
		leaving := t.mayLeave(services)
		t.migrate(leaving)
		return len(leaving) > 0
	}
	return false
}

// mayLeave picks those of a node's service allocations that their groups can do without:
// so many that count less max_parallel stay, or come up elsewhere, of those whose health
// is decided.
func (t *tx) mayLeave(on []*schedule.Alloc) (picked []*schedule.Alloc) {
	type group struct {
		job  jobKey
		name string
	}
	of := map[group][]*schedule.Alloc{}
	for _, a := range on {
		if !a.Terminal() && !a.Migrate {
			key := group{jobOf(a), a.TaskGroup}
			of[key] = append(of[key], a)
		}
	}
	for key, candidates := range of {
		j := t.jobs.get(key.job)
		if j == nil || j.LookupTaskGroup(key.name) == nil {
			continue // it is being stopped
		}
		g := j.LookupTaskGroup(key.name)
		parallel := 1
		if g.Migrate != nil {
			parallel = structs.Deref(g.Migrate.MaxParallel)
		}
		n := t.decided(key.job, key.name) - (*g.Count - parallel)
		slices.SortFunc(candidates, func(a, b *schedule.Alloc) int {
			return cmp.Or(cmp.Compare(a.CreateIndex, b.CreateIndex), cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID))
		})
		picked = append(picked, candidates[:min(max(0, n), len(candidates))]...)
	}
	return picked
}

// decided counts a group's allocations that are to run and whose health is known: as with
// Nomad, one that is known to be unwell does not hold a drain up.
func (t *tx) decided(key jobKey, group string) (n int) {
	for _, a := range t.jobAllocs(key) {
		if a.TaskGroup == group && !a.Terminal() && a.DeploymentStatus != nil && a.DeploymentStatus.Healthy != nil {
			n++
		}
	}
	return n
}

// migrate has allocations leave their node, and their jobs evaluated, the most important
// first.
func (t *tx) migrate(list []*schedule.Alloc) {
	jobs := map[jobKey]*nomad.Job{}
	for _, a := range list {
		if a.Terminal() {
			continue
		}
		if !a.Migrate {
			t.changeAlloc(a, false, func(a *structs.Allocation) { a.Migrate = true })
		}
		jobs[jobOf(a)] = a.Job
	}
	keys := make([]jobKey, 0, len(jobs))
	for key := range jobs {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b jobKey) int {
		return cmp.Or(cmp.Compare(structs.Deref(jobs[b].Priority), structs.Deref(jobs[a].Priority)), compareKeys(a, b))
	})
	for _, key := range keys {
		t.evaluate(t.newEval(jobs[key], triggerDrain), jobs[key])
	}
}

// standingOf is what a node is told of itself.
func standingOf(n *structs.Node) *structs.NodeStanding {
	return &structs.NodeStanding{Eligibility: n.Eligibility, Drain: n.Drain, LastDrain: n.LastDrain}
}

// drainDeadline is when the first drain that has a deadline reaches it; false: none has.
func (cp *ControlPlane) drainDeadline() (first time.Time, ok bool) {
	for _, n := range cp.data.nodes {
		if n.Drain != nil && !n.Drain.ForceDeadline.IsZero() && (!ok || n.Drain.ForceDeadline.Before(first)) {
			first, ok = n.Drain.ForceDeadline, true
		}
	}
	return first, ok
}
