package standalone

import (
	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/controlplane/standalone/schedule"
	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/structs/errdefs"
)

// PurgeNode forgets a node that is down; what ran there is lost. Any other is
// errdefs.FailedPrecondition: what runs on it would be left to nobody. An unknown one is
// errdefs.NotFound.
func (cp *ControlPlane) PurgeNode(id string) (*structs.NodeChange, error) {
	out := &structs.NodeChange{}
	err := cp.write(func(t *tx) error {
		n := t.nodes.get(id)
		if n == nil {
			return notFound("node %q not found", id)
		}
		if n.Status != structs.NodeDown {
			return errdefs.New(errdefs.FailedPrecondition, "node %q is %s: only a node that is down is purged, and this one is emptied by draining it", id, n.Status)
		}
		on := t.liveByNode.in(id)
		t.deleteNode(id)
		t.deleteVolumesOf(id)
		out.NodeModifyIndex = t.at()
		t.evaluateOn(out, on, func(a *schedule.Alloc) { t.markStoppingLost(a, id) })
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// EvaluateNode has the jobs evaluated that run on a node or could, as those of the system
// types. An unknown node is errdefs.NotFound.
func (cp *ControlPlane) EvaluateNode(id string) (*structs.NodeChange, error) {
	out := &structs.NodeChange{}
	err := cp.write(func(t *tx) error {
		n := t.nodes.get(id)
		if n == nil {
			return notFound("node %q not found", id)
		}
		out.NodeModifyIndex = n.ModifyIndex
		on := t.liveByNode.in(id)
		for _, kind := range []string{nomad.JobTypeSystem, nomad.JobTypeSysbatch} {
			for _, j := range t.jobsByType.in(kind) {
				on = append(on, &schedule.Alloc{Allocation: &structs.Allocation{Namespace: *j.Namespace, JobID: *j.ID, Job: j.Job}})
			}
		}
		t.evaluateOn(out, on, func(*schedule.Alloc) {})
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// evaluateOn has the jobs of allocations evaluated because of their node, each once and after
// something is done with one of its allocations, and tells the evaluations.
func (t *tx) evaluateOn(out *structs.NodeChange, list []*schedule.Alloc, before func(*schedule.Alloc)) {
	seen := map[jobKey]bool{}
	for _, a := range list {
		if seen[jobOf(a)] {
			continue
		}
		seen[jobOf(a)] = true
		before(a)
		e := t.newEval(a.Job, triggerNode)
		t.evaluate(e, a.Job)
		out.EvalIDs = append(out.EvalIDs, e.ID)
		if out.EvalCreateIndex == 0 {
			out.EvalCreateIndex = e.CreateIndex
		}
	}
}
