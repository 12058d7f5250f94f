package standalone

import (
	"cmp"
	"slices"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/controlplane/standalone/schedule"
	"github.com/wasmnode/wasmnode/structs"
)

// read returns what find finds in one consistent view.
func read[T any](cp *ControlPlane, find func(*tables) T) T {
	cp.mu.RLock()
	defer cp.mu.RUnlock()
	return find(&cp.data)
}

// Jobs returns all jobs, in no order.
func (cp *ControlPlane) Jobs() []*nomad.Job {
	return read(cp, func(t *tables) (list []*nomad.Job) {
		for _, j := range t.jobs {
			list = append(list, j.Job)
		}
		return list
	})
}

// Job returns a job's current version.
func (cp *ControlPlane) Job(namespace, id string) *nomad.Job {
	return read(cp, func(t *tables) *nomad.Job {
		if j := t.jobs[jobKey{namespace, id}]; j != nil {
			return j.Job
		}
		return nil
	})
}

// JobVersions returns a job's kept versions, newest first.
func (cp *ControlPlane) JobVersions(namespace, id string) []*nomad.Job {
	return read(cp, func(t *tables) (list []*nomad.Job) {
		j := t.jobs[jobKey{namespace, id}]
		if j == nil {
			return nil
		}
		list = append(list, j.Job)
		for _, index := range j.versions[1:] {
			if sp := t.specs[index]; sp != nil {
				list = append(list, sp.Job)
			}
		}
		return list
	})
}

// ChildStatuses returns the status of each job that was launched or dispatched of one and is
// stored, those that have not ended first.
func (cp *ControlPlane) ChildStatuses(namespace, id string) []string {
	return read(cp, func(t *tables) (list []string) {
		for _, status := range []string{statusPending, statusRunning, statusDead} {
			list = append(list, slices.Repeat([]string{status}, len(t.children[siblings{jobKey{namespace, id}, status}]))...)
		}
		return list
	})
}

// JobSubmission returns the source that a version was submitted with, nil when there
// was none or the version is not kept.
func (cp *ControlPlane) JobSubmission(namespace, id string, version uint64) *nomad.JobSubmission {
	return read(cp, func(t *tables) *nomad.JobSubmission {
		j := t.jobs[jobKey{namespace, id}]
		if j == nil {
			return nil
		}
		for _, index := range j.versions {
			if sp := t.specs[index]; sp != nil && *sp.Version == version {
				return sp.submission
			}
		}
		return nil
	})
}

// JobSummary counts a job's allocations by group, with zeros for an unknown job.
func (cp *ControlPlane) JobSummary(namespace, id string) *structs.JobSummary {
	return read(cp, func(t *tables) *structs.JobSummary {
		key := jobKey{namespace, id}
		sum := &structs.JobSummary{
			JobID:     id,
			Namespace: namespace,
			Groups:    map[string]structs.GroupSummary{},
		}
		j := t.jobs[key]
		if j != nil {
			sum.CreateIndex, sum.ModifyIndex = *j.CreateIndex, *j.ModifyIndex
			sum.Children = t.countChildren(key)
			for _, g := range j.TaskGroups {
				sum.Groups[*g.Name] = structs.GroupSummary{}
			}
		}
		for _, a := range t.allocsByJob[key] {
			if j != nil && *a.Job.CreateIndex != *j.CreateIndex {
				continue // of an earlier job of that ID, which was purged
			}
			g := sum.Groups[a.TaskGroup]
			switch a.ClientStatus {
			case structs.ClientPending:
				g.Starting++
			case structs.ClientRunning:
				g.Running++
			case structs.ClientComplete:
				g.Complete++
			case structs.ClientFailed:
				g.Failed++
			case structs.ClientLost:
				g.Lost++
			}
			sum.Groups[a.TaskGroup] = g
			sum.ModifyIndex = max(sum.ModifyIndex, a.ModifyIndex)
		}
		for _, e := range t.openByJob[key] {
			if e.Status == structs.EvaluationBlocked {
				for name, n := range e.QueuedAllocations {
					g := sum.Groups[name]
					g.Queued = n
					sum.Groups[name] = g
				}
			}
		}
		return sum
	})
}

// JobAllocations returns a job's allocations, oldest first; also those of a job that
// was purged, as long as they are kept.
func (cp *ControlPlane) JobAllocations(namespace, id string) []*structs.Allocation {
	return read(cp, func(t *tables) []*structs.Allocation { return oldestFirst(t.allocsByJob[jobKey{namespace, id}]) })
}

// NodeAllocations returns a node's allocations, oldest first.
func (cp *ControlPlane) NodeAllocations(id string) []*structs.Allocation {
	return read(cp, func(t *tables) []*structs.Allocation { return oldestFirst(t.allocsByNode[id]) })
}

// EvaluationAllocations returns the allocations that an evaluation placed or changed and that
// no other has changed since, oldest first.
func (cp *ControlPlane) EvaluationAllocations(id string) []*structs.Allocation {
	return read(cp, func(t *tables) []*structs.Allocation { return oldestFirst(t.allocsByEval[id]) })
}

// JobEvaluations returns a job's evaluations, newest first.
func (cp *ControlPlane) JobEvaluations(namespace, id string) []*structs.Evaluation {
	return read(cp, func(t *tables) (list []*structs.Evaluation) {
		for _, e := range t.evalsByJob[jobKey{namespace, id}] {
			list = append(list, e)
		}
		slices.SortFunc(list, func(a, b *structs.Evaluation) int {
			return cmp.Or(cmp.Compare(b.CreateIndex, a.CreateIndex), cmp.Compare(a.ID, b.ID))
		})
		return list
	})
}

// Allocations returns all allocations, oldest first.
func (cp *ControlPlane) Allocations() []*structs.Allocation {
	return read(cp, func(t *tables) []*structs.Allocation { return oldestFirst(t.allocs) })
}

func oldestFirst(rows map[string]*schedule.Alloc) []*structs.Allocation {
	list := make([]*structs.Allocation, 0, len(rows))
	for _, a := range rows {
		list = append(list, a.Allocation)
	}
	sortAllocations(list)
	return list
}

func sortAllocations(list []*structs.Allocation) {
	slices.SortFunc(list, func(a, b *structs.Allocation) int {
		return cmp.Or(cmp.Compare(a.CreateIndex, b.CreateIndex), cmp.Compare(a.ID, b.ID))
	})
}

// Allocation returns an allocation by its full ID.
func (cp *ControlPlane) Allocation(id string) *structs.Allocation {
	return read(cp, func(t *tables) *structs.Allocation {
		if a := t.allocs[id]; a != nil {
			return a.Allocation
		}
		return nil
	})
}

// Evaluations returns all evaluations, in no order.
func (cp *ControlPlane) Evaluations() []*structs.Evaluation {
	return read(cp, func(t *tables) []*structs.Evaluation {
		list := make([]*structs.Evaluation, 0, len(t.evals))
		for _, e := range t.evals {
			list = append(list, e)
		}
		return list
	})
}

// Evaluation returns an evaluation by its full ID.
func (cp *ControlPlane) Evaluation(id string) *structs.Evaluation {
	return read(cp, func(t *tables) *structs.Evaluation { return t.evals[id] })
}

// Nodes returns all nodes, in no order.
func (cp *ControlPlane) Nodes() []*structs.Node {
	return read(cp, func(t *tables) []*structs.Node {
		list := make([]*structs.Node, 0, len(t.nodes))
		for _, n := range t.nodes {
			list = append(list, n)
		}
		return list
	})
}

// Node returns a node by its full ID.
func (cp *ControlPlane) Node(id string) *structs.Node {
	return read(cp, func(t *tables) *structs.Node { return t.nodes[id] })
}
