package standalone

import (
	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/controlplane/standalone/schedule"
	"github.com/wasmnode/wasmnode/structs"
)

// journal is what a transaction changes, in order: the events of a commit are made of it,
// and of nothing else. Of a row that one operation changes several times, the last counts.
type journal struct {
	entries []*journalEntry
	latest  map[journalKey]*journalEntry
}

type journalKey struct {
	index uint64
	table string
	row   any
}

// journalEntry is a row's change; nil: it was, or is, not there.
type journalEntry struct {
	index         uint64
	before, after any
}

func (j *journal) note(key journalKey, before, after any) {
	if e := j.latest[key]; e != nil {
		e.after = after
		return
	}
	if j.latest == nil {
		j.latest = map[journalKey]*journalEntry{}
	}
	e := &journalEntry{key.index, before, after}
	j.latest[key] = e
	j.entries = append(j.entries, e)
}

// noteChanges has the changes of the tables noted that events are told of.
func (t *tx) noteChanges() {
	noting(t, TableJobs, &t.jobs)
	noting(t, TableAllocations, &t.allocs)
	noting(t, TableEvaluations, &t.evals)
	noting(t, TableNodes, &t.nodes)
	noting(t, TableDeployments, &t.deployments)
	noting(t, TableNodePools, &t.pools)
	noting(t, TableACLTokens, &t.tokens)
	noting(t, TableACLPolicies, &t.policies)
	noting(t, TableACLRoles, &t.roles)
	noting(t, TableServices, &t.services)
	noting(t, TableHostVolumes, &t.volumes)
}

func noting[K comparable, V any](t *tx, table string, c *changes[K, *V]) {
	c.noted = func(key K, before, after *V) {
		t.journal.note(journalKey{t.at(), table, key}, before, after)
	}
}

// batches are the events of a transaction, by index.
func (j *journal) batches() (list []*structs.ChangeBatch) {
	for _, entry := range j.entries {
		e := eventOf(entry)
		if e == nil {
			continue
		}
		e.Index = entry.index
		if len(list) == 0 || list[len(list)-1].Index != e.Index {
			list = append(list, &structs.ChangeBatch{Index: e.Index})
		}
		last := list[len(list)-1]
		last.Events = append(last.Events, e)
	}
	return list
}

// eventOf tells a row's change with Nomad's words; nil: Nomad does not tell it.
func eventOf(e *journalEntry) *structs.ChangeEvent {
	switch after := e.after.(type) {
	case *job:
		return jobEvent(e.before.(*job), after)
	case *schedule.Alloc:
		return allocEvent(e.before.(*schedule.Alloc), after)
	case *structs.Evaluation:
		return evalEvent(after)
	case *structs.Node:
		return nodeEvent(e.before.(*structs.Node), after)
	case *structs.Deployment:
		return deploymentEvent(e.before.(*structs.Deployment), after)
	case *nomad.NodePool:
		return poolEvent(e.before.(*nomad.NodePool), after)
	case *structs.ACLToken:
		return tokenEvent(e.before.(*structs.ACLToken), after)
	case *structs.ACLPolicy:
		return policyEvent(e.before.(*structs.ACLPolicy), after)
	case *structs.ACLRole:
		return roleEvent(e.before.(*structs.ACLRole), after)
	case *structs.ServiceRegistration:
		return serviceEvent(e.before.(*structs.ServiceRegistration), after)
	case *structs.NodeVolume:
		return volumeEvent(e.before.(*structs.NodeVolume), after)
	}
	return nil
}

func jobEvent(before, after *job) *structs.ChangeEvent {
	j := after
	if j == nil {
		j = before
	}
	if j == nil {
		return nil
	}
	e := &structs.ChangeEvent{Topic: "Job", Key: *j.ID, Namespace: *j.Namespace, Object: j.Job, Deleted: after == nil}
	switch {
	case after == nil, *after.Stop && (before == nil || !*before.Stop):
		e.Type = "JobDeregistered"
	case before == nil || *before.JobModifyIndex != *after.JobModifyIndex:
		e.Type = "JobRegistered"
	case *after.Status == statusRunning:
		e.Type = "PlanResult" // something was placed
	case *after.Status == statusDead:
		e.Type = "AllocationUpdated" // the last has ended
	default:
		e.Type = "EvaluationUpdated"
	}
	return e
}

func allocEvent(before, after *schedule.Alloc) *structs.ChangeEvent {
	if after == nil {
		return nil // it was collected
	}
	e := &structs.ChangeEvent{
		Topic: "Allocation", Type: "AllocationUpdated", Key: after.ID, Namespace: after.Namespace,
		FilterKeys: filterKeys(after.JobID, after.DeploymentID), Object: after.Allocation,
	}
	switch {
	case before == nil, before.EvalID != after.EvalID, before.NextAllocation != after.NextAllocation,
		before.PreemptedByAllocation != after.PreemptedByAllocation:
		e.Type = "PlanResult"
	case before.DesiredStatus != after.DesiredStatus && after.DesiredDescription != stoppedByRequest:
		e.Type = "PlanResult"
	case before.AllocModifyIndex != after.AllocModifyIndex:
		e.Type = "AllocationUpdateDesiredStatus"
	}
	return e
}

func evalEvent(after *structs.Evaluation) *structs.ChangeEvent {
	if after == nil {
		return nil // it was collected
	}
	return &structs.ChangeEvent{
		Topic: "Evaluation", Type: "EvaluationUpdated", Key: after.ID, Namespace: after.Namespace,
		FilterKeys: filterKeys(after.JobID, after.DeploymentID), Object: after,
	}
}

func deploymentEvent(before, after *structs.Deployment) *structs.ChangeEvent {
	if after == nil {
		return nil // it was collected
	}
	e := &structs.ChangeEvent{
		Topic: "Deployment", Type: "PlanResult", Key: after.ID, Namespace: after.Namespace,
		FilterKeys: filterKeys(after.JobID), Object: after,
	}
	switch {
	case before == nil: // it was made with what was placed first
	case promotions(after) > promotions(before):
		e.Type = "DeploymentPromotion"
	case before.Status != after.Status || before.StatusDescription != after.StatusDescription:
		e.Type = "DeploymentStatusUpdate"
	case judged(before) != judged(after):
		e.Type = "DeploymentAllocHealth"
	}
	return e
}

func promotions(d *structs.Deployment) (n int) {
	for _, g := range d.TaskGroups {
		if g.Promoted {
			n++
		}
	}
	return n
}

// judged counts the allocations of which it is known whether they are healthy.
func judged(d *structs.Deployment) (n int) {
	for _, g := range d.TaskGroups {
		n += g.HealthyAllocs + g.UnhealthyAllocs
	}
	return n
}

func nodeEvent(before, after *structs.Node) *structs.ChangeEvent {
	n := after
	if n == nil {
		n = before
	}
	if n == nil {
		return nil
	}
	e := &structs.ChangeEvent{Topic: "Node", Type: "NodeRegistration", Key: n.ID, Object: n, Deleted: after == nil}
	switch {
	case after == nil:
		e.Type = "NodeDeregistration"
	case before == nil:
	case before.Drain != after.Drain:
		e.Type = "NodeDrain"
	case before.Eligibility != after.Eligibility:
		e.Type = "NodeEligibility"
	case onlyTold(before, after):
		e.Type = "NodeStreamEvent"
	}
	return e
}

func poolEvent(before, after *nomad.NodePool) *structs.ChangeEvent {
	switch {
	case after != nil:
		return &structs.ChangeEvent{Topic: "NodePool", Type: "NodePoolUpserted", Key: after.Name, Object: after}
	case before != nil:
		return &structs.ChangeEvent{Topic: "NodePool", Type: "NodePoolDeleted", Key: before.Name, Object: before, Deleted: true}
	}
	return nil
}

func tokenEvent(before, after *structs.ACLToken) *structs.ChangeEvent {
	switch {
	case after != nil:
		return &structs.ChangeEvent{Topic: structs.TopicACLToken, Type: "ACLTokenUpserted", Key: after.AccessorID, Object: after}
	case before != nil:
		return &structs.ChangeEvent{Topic: structs.TopicACLToken, Type: "ACLTokenDeleted", Key: before.AccessorID, Object: before, Deleted: true}
	}
	return nil
}

func policyEvent(before, after *structs.ACLPolicy) *structs.ChangeEvent {
	switch {
	case after != nil:
		return &structs.ChangeEvent{Topic: structs.TopicACLPolicy, Type: "ACLPolicyUpserted", Key: after.Name, Object: after}
	case before != nil:
		return &structs.ChangeEvent{Topic: structs.TopicACLPolicy, Type: "ACLPolicyDeleted", Key: before.Name, Object: before, Deleted: true}
	}
	return nil
}

func roleEvent(before, after *structs.ACLRole) *structs.ChangeEvent {
	switch {
	case after != nil:
		return &structs.ChangeEvent{Topic: structs.TopicACLRole, Type: "ACLRoleUpserted", Key: after.ID, Object: after}
	case before != nil:
		return &structs.ChangeEvent{Topic: structs.TopicACLRole, Type: "ACLRoleDeleted", Key: before.ID, Object: before, Deleted: true}
	}
	return nil
}

func serviceEvent(before, after *structs.ServiceRegistration) *structs.ChangeEvent {
	s, what := after, "ServiceRegistration"
	if s == nil {
		s, what = before, "ServiceDeregistration"
	}
	if s == nil {
		return nil
	}
	return &structs.ChangeEvent{
		Topic: "Service", Type: what, Key: s.ID, Namespace: s.Namespace,
		FilterKeys: filterKeys(s.JobID, s.ServiceName), Object: s, Deleted: after == nil,
	}
}

func volumeEvent(before, after *structs.NodeVolume) *structs.ChangeEvent {
	row, what := after, "HostVolumeRegistered"
	switch {
	case before == nil && after == nil:
		return nil
	case after == nil:
		row, what = before, "HostVolumeDeleted"
	case before != nil && before.Volume == after.Volume:
		return nil // it is about to be removed
	}
	v := row.Volume
	return &structs.ChangeEvent{
		Topic: "HostVolume", Type: what, Key: v.ID, Namespace: v.Namespace,
		FilterKeys: filterKeys(v.ID, v.Name, v.PluginID), Object: v, Deleted: after == nil,
	}
}

// onlyTold reports whether nothing has changed of a node but what it tells of itself.
func onlyTold(before, after *structs.Node) bool {
	told := *after
	told.Events, told.ModifyIndex = before.Events, before.ModifyIndex
	return sameNode(before, &told)
}

// filterKeys are those that are not empty.
func filterKeys(keys ...string) (list []string) {
	for _, k := range keys {
		if k != "" {
			list = append(list, k)
		}
	}
	return list
}
