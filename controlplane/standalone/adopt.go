package standalone

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/controlplane/standalone/schedule"
	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/structs/errdefs"
)

// NodeID implements node.ControlPlane. Of several nodes of a name it is the one that is not
// down, then the one that was changed last.
func (f ForNode) NodeID(_ context.Context, name string) (string, error) {
	best := read(f.cp, func(t *tables) (best *structs.Node) {
		for _, n := range t.nodes {
			if n.Name == name && (best == nil || later(n, best)) {
				best = n
			}
		}
		return best
	})
	if best == nil {
		return "", nil
	}
	return best.ID, nil
}

func later(a, b *structs.Node) bool {
	if aDown, bDown := a.Status == structs.NodeDown, b.Status == structs.NodeDown; aDown != bDown {
		return bDown
	}
	return a.ModifyIndex > b.ModifyIndex
}

// Adopt implements node.ControlPlane. A memory that is empty, another one, or older than what
// the node knows has lost something; one that is neither has let go of what it does not have,
// since it lets go of an allocation only when that has ended.
func (f ForNode) Adopt(ctx context.Context, n *structs.Node, known *structs.NodeKnowledge) (*structs.Adoption, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var out *structs.Adoption
	err := f.cp.write(func(t *tx) error {
		a := t.newAdoption(n, known)
		a.run(known)
		out = a.out
		out.Index = t.index
		return nil
	})
	return out, err
}

// Claim implements node.ControlPlane.
func (f ForNode) Claim(ctx context.Context, nodeID string, k structs.KnownAllocation) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return f.cp.write(func(t *tx) error {
		n := t.nodes.get(nodeID)
		switch {
		case n == nil:
			return notFound("node %q not found", nodeID)
		case t.allocs.get(k.ID) != nil:
			return nil
		}
		if why := incomplete(k.Allocation); why != "" {
			return errdefs.New(errdefs.FailedPrecondition, "allocation %s cannot be adopted: %s", k.ID, why)
		}
		a := t.newAdoption(n, &structs.NodeKnowledge{Allocations: []structs.KnownAllocation{k}})
		key := jobKey{k.Namespace, k.JobID}
		spec := a.spec(k.Job)
		switch j := t.jobs.get(key); {
		case j == nil:
			a.rebuildJob(spec, nil, *spec.JobModifyIndex)
		case *j.Stop || *j.JobModifyIndex != *spec.JobModifyIndex:
			c, stop := *k.Job, false
			c.Stop = &stop
			t.newVersion(j, &c, nil)
			spec = t.version(t.jobs.get(key))
		}
		a.insert(k, spec)
		t.evaluate(t.newEval(spec, triggerNode), nil)
		return nil
	})
}

// adoption is the comparison of a control plane's memory with what a node knows.
type adoption struct {
	*tx
	node   *structs.Node
	before uint64 // the memory's index when it was opened
	other  bool   // the node heard another memory last
	behind bool   // the node heard more than this memory has
	specs  map[specKeyOf]*nomad.Job
	stale  map[jobKey]bool // jobs of which something has ended since the memory is from
	out    *structs.Adoption
}

// specKeyOf names a version of a job as a node has it.
type specKeyOf struct {
	jobKey
	index uint64
}

// newAdoption has the indexes go on above all that the node has heard.
func (t *tx) newAdoption(n *structs.Node, known *structs.NodeKnowledge) *adoption {
	a := &adoption{
		tx: t, node: n, before: t.index,
		other: known.ControlPlane != "" && known.ControlPlane != t.cp.id,
		specs: map[specKeyOf]*nomad.Job{}, stale: map[jobKey]bool{},
		out: &structs.Adoption{ControlPlane: t.cp.id, Waiting: map[string]string{}},
	}
	heard := known.Index
	for _, k := range known.Allocations {
		heard = max(heard, k.CreateIndex, k.AllocModifyIndex)
		if k.Job != nil {
			heard = max(heard, structs.Deref(k.Job.JobModifyIndex))
		}
	}
	a.behind = !a.other && heard > t.index
	switch {
	case heard == 0:
	case a.before == 0:
		a.out.Why = "the control plane's memory was empty"
	case a.other:
		a.out.Why = "the control plane's memory is another one than the node knew"
	case a.behind:
		a.out.Why = fmt.Sprintf("the control plane's memory is older than the node's: it ends at index %d, and the node heard of %d", t.index, heard)
	case t.cp.unreadable > 0:
		a.out.Why = "the control plane's memory could not be read in full"
	}
	t.index = max(t.index, heard)
	return a
}

func (a *adoption) run(known *structs.NodeKnowledge) {
	list := slices.SortedFunc(slices.Values(known.Allocations), func(x, y structs.KnownAllocation) int {
		return cmp.Or(cmp.Compare(x.CreateIndex, y.CreateIndex), cmp.Compare(x.ID, y.ID))
	})
	unknown := map[jobKey][]structs.KnownAllocation{}
	there := map[string]bool{}
	for _, k := range list {
		there[k.ID] = true
		why := incomplete(k.Allocation)
		switch mine := a.allocs.get(k.ID); {
		case mine != nil:
			a.compare(mine, k)
		case ended(k) && !a.neverHad(k):
			a.out.Released = append(a.out.Released, k.ID)
		case why != "":
			a.out.Waiting[k.ID] = why
		default:
			key := jobKey{k.Namespace, k.JobID}
			unknown[key] = append(unknown[key], k)
		}
	}
	a.introduceFor(unknown)
	a.restoreStanding(known.Standing)
	for _, key := range slices.SortedFunc(maps.Keys(unknown), compareKeys) {
		a.adoptJob(key, unknown[key])
	}
	for _, id := range slices.Concat(known.Unreadable, known.Found) {
		there[id] = true
	}
	if a.behind {
		a.endMissing(there)
	} else {
		a.doubtMissing(there)
	}
	a.tell()
}

func compareKeys(x, y jobKey) int {
	return cmp.Or(cmp.Compare(x.namespace, y.namespace), cmp.Compare(x.id, y.id))
}

// incomplete is why an allocation cannot be adopted; empty: it can.
func incomplete(k *structs.Allocation) string {
	j := k.Job
	switch {
	case j == nil || j.ID == nil || j.Namespace == nil || j.Type == nil || j.JobModifyIndex == nil || j.Version == nil || j.CreateIndex == nil:
		return "its job is not stored with it in full"
	case k.Group() == nil:
		return fmt.Sprintf("its job has no group %q", k.TaskGroup)
	}
	return ""
}

// ended reports whether an allocation has ended, as its node knows.
func ended(k structs.KnownAllocation) bool {
	return k.State != nil && k.State.ClientStatus.Terminal() || k.State == nil && k.ClientStatus.Terminal()
}

// neverHad reports whether the memory does not have an allocation because it never did, or
// has lost it, and not because it let go of it.
func (a *adoption) neverHad(k structs.KnownAllocation) bool {
	return a.other || a.cp.unreadable > 0 || k.CreateIndex > a.before
}

// introduceFor makes the node known on which there is something to adopt, or which has heard
// of more than the memory has: then the index is stored with it.
func (a *adoption) introduceFor(unknown map[jobKey][]structs.KnownAllocation) {
	if (len(unknown) > 0 || a.index > a.before) && a.nodes.get(a.node.ID) == nil {
		c := a.node.Copy()
		a.introduce(c)
		a.putNode(c)
	}
}

// restoreStanding takes over what had been decided about the node, where the memory has lost
// that. A drain goes on with what is adopted.
func (a *adoption) restoreStanding(told *structs.NodeStanding) {
	n := a.nodes.get(a.node.ID)
	if told == nil || n == nil || !a.behind && n.CreateIndex <= a.before || reflect.DeepEqual(standingOf(n), told) {
		return
	}
	c := n.Copy()
	c.Eligibility, c.Drain, c.LastDrain = told.Eligibility, told.Drain, told.LastDrain.Copy()
	a.putNode(c)
}

// compare takes over what the node knows better of an allocation that is known here: what
// it is doing, and, of a memory that is older, what was decided since.
func (a *adoption) compare(mine *schedule.Alloc, k structs.KnownAllocation) {
	key := jobKey{mine.Namespace, mine.JobID}
	if a.behind && k.AllocModifyIndex > mine.AllocModifyIndex && incomplete(k.Allocation) == "" {
		a.stale[key] = a.stale[key] || k.ServerTerminal()
		spec := a.spec(k.Job)
		if j := a.jobs.get(key); j != nil && *spec.JobModifyIndex > *j.JobModifyIndex {
			a.rebuildJob(spec, j, j.since)
		}
		mine = a.changeAlloc(mine, false, func(m *structs.Allocation) {
			m.Job = spec
			m.DesiredStatus, m.DesiredDescription, m.NoShutdownDelay = k.DesiredStatus, k.DesiredDescription, k.NoShutdownDelay
			m.AllocModifyIndex, m.DeploymentID = k.AllocModifyIndex, k.DeploymentID
		})
	}
	// How it has ended is reported as any end is, with what follows from it.
	if s := k.State; s != nil && !s.ClientStatus.Terminal() && !mine.ClientStatus.Terminal() && !sameState(mine.Allocation, s) {
		a.changeAlloc(mine, false, func(m *structs.Allocation) { merge(m, s.Copy()) })
	}
}

// adoptJob adopts the allocations of a job that are not known here, or has them wait.
func (a *adoption) adoptJob(key jobKey, list []structs.KnownAllocation) {
	newest, since, live, stopped := list[0].Job, *list[0].Job.JobModifyIndex, false, false
	never := false
	for _, k := range list {
		if *k.Job.JobModifyIndex > *newest.JobModifyIndex {
			newest = k.Job
		}
		since = min(since, *k.Job.JobModifyIndex)
		live = live || !ended(k) && !k.ServerTerminal()
		stopped = stopped || k.ServerTerminal()
		never = never || a.neverHad(k)
	}
	j := a.jobs.get(key)
	if why := a.ambiguity(key, j, newest, live, never); why != "" {
		for _, k := range list {
			a.out.Waiting[k.ID] = why
		}
		return
	}
	spec := a.spec(newest)
	rebuilt := j == nil || *spec.JobModifyIndex > *j.JobModifyIndex
	if rebuilt {
		if j != nil {
			since = j.since
		}
		a.rebuildJob(spec, j, since)
		a.out.Jobs = append(a.out.Jobs, key.id)
	}
	for _, k := range list {
		a.insert(k, a.spec(k.Job))
	}
	j = a.jobs.get(key)
	switch {
	case live:
		a.evaluate(a.newEval(j.Job, triggerNode), nil)
	case rebuilt && !*j.Stop && (stopped || !finite(j.Job)):
		// Nothing of it ran: it is not started because its end was forgotten.
		a.stopJob(j)
	}
	a.refreshStatus(key)
}

func finite(j *nomad.Job) bool {
	return *j.Type == nomad.JobTypeBatch || *j.Type == nomad.JobTypeSysbatch
}

// ambiguity is why a person has to decide whether a job's allocations are wanted; empty:
// it is clear.
func (a *adoption) ambiguity(key jobKey, j *job, newest *nomad.Job, live, never bool) string {
	switch {
	case j == nil && !never:
		return fmt.Sprintf("the control plane does not know job %q any more: it was purged, or lost", key.id)
	case j == nil:
		return ""
	case *j.Stop && live && (!a.behind || *newest.JobModifyIndex <= *j.JobModifyIndex):
		return fmt.Sprintf("job %q is stopped, and the control plane did not know of this allocation", key.id)
	case a.behind && *newest.JobModifyIndex > *j.JobModifyIndex:
		return ""
	}
	for _, index := range j.versions {
		sp := a.tx.specs.get(index)
		if sp == nil {
			continue
		}
		if sameJob(sp.Job, newest) && (index == *newest.JobModifyIndex || index == j.versions[0]) {
			return ""
		}
	}
	return fmt.Sprintf("the control plane knows job %q in another version (%d), which has this allocation not", key.id, *j.Version)
}

// spec is a version of a job as the memory has it, which it gets if it has it not.
func (a *adoption) spec(j *nomad.Job) *nomad.Job {
	index := *j.JobModifyIndex
	of := specKeyOf{keyOf(j), index}
	if known := a.specs[of]; known != nil {
		return known
	}
	taken := a.tx.specs.get(index)
	if taken != nil && keyOf(taken.Job) == of.jobKey {
		if sameJob(taken.Job, j) {
			a.specs[of] = taken.Job
			return taken.Job
		}
	}
	if cur := a.jobs.get(of.jobKey); cur != nil && a.other {
		if sameJob(cur.Job, j) {
			a.specs[of] = a.version(cur)
			return a.specs[of]
		}
	}
	c := *j
	if taken != nil { // another memory's index
		index = a.versionIndex()
	}
	c.JobModifyIndex = &index
	a.tx.specs.put(index, &spec{Job: &c})
	a.specs[of] = &c
	return &c
}

// rebuildJob makes a version the current one of its job, which may not be known yet.
func (a *adoption) rebuildJob(version *nomad.Job, existing *job, since uint64) {
	c := *version
	status, description, index, stop := statusPending, "", a.at(), false
	row := &job{since: since, versions: []uint64{*version.JobModifyIndex}}
	if existing != nil {
		row.versions = append(row.versions, existing.versions...)
		row.versions = row.versions[:min(len(row.versions), maxVersions)]
		status, c.CreateIndex = *existing.Status, existing.CreateIndex
	}
	c.Status, c.StatusDescription, c.ModifyIndex = &status, &description, &index
	if c.Stop == nil {
		c.Stop = &stop
	}
	row.Job = &c
	a.putJob(row)
	if a.namespace(*c.Namespace) == nil { // as it brings its job along
		a.putNamespace(&nomad.Namespace{Name: *c.Namespace})
	}
}

// insert stores an allocation as its node knows it.
func (a *adoption) insert(k structs.KnownAllocation, version *nomad.Job) {
	c := k.Copy()
	c.Job, c.NodeID = version, a.node.ID
	if k.State != nil {
		merge(c, k.State.Copy())
	}
	adopted := &schedule.Alloc{Allocation: c}
	a.putAlloc(adopted, false)
	a.touchNode(adopted)
	a.out.Adopted = append(a.out.Adopted, c.ID)
}

// endMissing ends what an older memory wants on the node and the node does not have: it has
// ended since. A job of which nothing else runs is not started again for that.
func (a *adoption) endMissing(there map[string]bool) {
	for _, m := range a.missing(there, notEnded) {
		a.stale[jobKey{m.Namespace, m.JobID}] = true
		a.changeAlloc(m, false, func(m *structs.Allocation) {
			m.ClientStatus, m.ClientDescription = structs.ClientLost, "it has ended on the node since the control plane's memory is from"
		})
	}
	for _, key := range slices.SortedFunc(maps.Keys(a.stale), compareKeys) {
		j := a.jobs.get(key)
		if !a.stale[key] || j == nil || *j.Stop || slices.ContainsFunc(a.jobAllocs(key), func(m *schedule.Alloc) bool { return !m.Terminal() }) {
			continue
		}
		a.stopJob(j)
		a.out.Stopped = append(a.out.Stopped, key.id)
		a.refreshStatus(key)
	}
}

// doubtMissing has what the node knows nothing of, as far as it is known here, be started
// again: it does not run.
func (a *adoption) doubtMissing(there map[string]bool) {
	running := func(m *schedule.Alloc) bool { return m.ClientStatus == structs.ClientRunning }
	for _, m := range a.missing(there, running) {
		a.changeAlloc(m, false, func(m *structs.Allocation) {
			m.ClientStatus = structs.ClientPending
			for _, s := range m.TaskStates {
				if s.State == structs.TaskRunning {
					s.Enter(structs.TaskPending, a.now)
				}
			}
		})
	}
}

// missing are those of the node's allocations that it does not have and that count.
func (a *adoption) missing(there map[string]bool, counts func(*schedule.Alloc) bool) (list []*schedule.Alloc) {
	for _, m := range a.allocsByNode.in(a.node.ID) {
		if !there[m.ID] && counts(m) {
			list = append(list, m)
		}
	}
	return list
}

// tell records an adoption among the node's events.
func (a *adoption) tell() {
	n := a.nodes.get(a.node.ID)
	if n == nil || a.out.Why == "" {
		return
	}
	c := n.Copy()
	c.Events = mergeEvents(c.Events, []structs.NodeEvent{{Time: time.Now().UTC(), Subsystem: "Cluster", Message: a.out.String()}})
	a.putNode(c)
}
