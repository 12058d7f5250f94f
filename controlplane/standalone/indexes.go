package standalone

import (
	"maps"
	"slices"
	"time"

	"github.com/wasmnode/wasmnode/controlplane/standalone/schedule"
	"github.com/wasmnode/wasmnode/structs"
)

// committedIndexes are the indexes of the committed tables. They change with these.
type committedIndexes struct {
	allocsByJob  groups[jobKey, string, *schedule.Alloc]
	allocsByNode groups[string, string, *schedule.Alloc]
	allocsByEval groups[string, string, *schedule.Alloc] // by the evaluation that decided last
	liveByNode   groups[string, string, *schedule.Alloc] // that have not ended
	taken        map[string]*schedule.Taken              // by node, by those of them that can be added up
	waiting      groups[string, string, *schedule.Alloc] // by node, the others
	evalsByJob   groups[jobKey, string, *structs.Evaluation]
	// Open evaluations are the pending and the blocked ones.
	openByJob        groups[jobKey, string, *structs.Evaluation]
	openByStatus     groups[structs.EvaluationStatus, string, *structs.Evaluation]
	pendingEvals     *timeline[string]
	jobsByType       groups[string, jobKey, *job] // that are not stopped, and run something themselves
	deploymentsByJob groups[jobKey, string, *structs.Deployment]
	deadlines        *timeline[string] // of deployments
	children         groups[siblings, jobKey, *job]
	dispatched       groups[dispatchToken, jobKey, *job]
	launches         *timeline[jobKey]
	variableSizes    *variableSizes
	variablesByPath  *ordered[*variableRow]
	locks            *timeline[variableKey]
	servicesByName   groups[serviceKey, string, *structs.ServiceRegistration]
	servicesByAlloc  groups[string, string, *structs.ServiceRegistration]
}

func newIndexes() committedIndexes {
	return committedIndexes{
		allocsByJob:      groups[jobKey, string, *schedule.Alloc]{},
		allocsByNode:     groups[string, string, *schedule.Alloc]{},
		allocsByEval:     groups[string, string, *schedule.Alloc]{},
		liveByNode:       groups[string, string, *schedule.Alloc]{},
		taken:            map[string]*schedule.Taken{},
		waiting:          groups[string, string, *schedule.Alloc]{},
		evalsByJob:       groups[jobKey, string, *structs.Evaluation]{},
		openByJob:        groups[jobKey, string, *structs.Evaluation]{},
		openByStatus:     groups[structs.EvaluationStatus, string, *structs.Evaluation]{},
		pendingEvals:     newTimeline[string](),
		jobsByType:       groups[string, jobKey, *job]{},
		deploymentsByJob: groups[jobKey, string, *structs.Deployment]{},
		deadlines:        newTimeline[string](),
		children:         groups[siblings, jobKey, *job]{},
		dispatched:       groups[dispatchToken, jobKey, *job]{},
		launches:         newTimeline[jobKey](),
		variableSizes:    &variableSizes{},
		variablesByPath:  &ordered[*variableRow]{compare: func(a, b *variableRow) int { return a.key().compare(b.key()) }},
		locks:            newTimeline[variableKey](),
		servicesByName:   groups[serviceKey, string, *structs.ServiceRegistration]{},
		servicesByAlloc:  groups[string, string, *structs.ServiceRegistration]{},
	}
}

// indexes are the committed ones as a transaction sees them.
type indexes struct {
	allocsByJob      *grouped[jobKey, string, *schedule.Alloc]
	allocsByNode     *grouped[string, string, *schedule.Alloc]
	allocsByEval     *grouped[string, string, *schedule.Alloc]
	liveByNode       *grouped[string, string, *schedule.Alloc]
	taken            *totals
	waiting          *grouped[string, string, *schedule.Alloc]
	evalsByJob       *grouped[jobKey, string, *structs.Evaluation]
	openByJob        *grouped[jobKey, string, *structs.Evaluation]
	openByStatus     *grouped[structs.EvaluationStatus, string, *structs.Evaluation]
	jobsByType       *grouped[string, jobKey, *job]
	deploymentsByJob *grouped[jobKey, string, *structs.Deployment]
	children         *grouped[siblings, jobKey, *job]
	dispatched       *grouped[dispatchToken, jobKey, *job]
	variableSizes    *variableSizes
	servicesByAlloc  *grouped[string, string, *structs.ServiceRegistration]
}

// follow has the indexes follow a transaction's tables.
func (t *tx) follow(data *tables) {
	t.allocsByJob = groupBy(&t.allocs, data.allocsByJob, func(a *schedule.Alloc) (jobKey, bool) { return jobOf(a), true })
	t.allocsByNode = groupBy(&t.allocs, data.allocsByNode, func(a *schedule.Alloc) (string, bool) { return a.NodeID, true })
	t.allocsByEval = groupBy(&t.allocs, data.allocsByEval, func(a *schedule.Alloc) (string, bool) { return a.EvalID, true })
	t.liveByNode = groupBy(&t.allocs, data.liveByNode, func(a *schedule.Alloc) (string, bool) { return a.NodeID, notEnded(a) })
	t.taken = addUp(&t.allocs, data.taken)
	t.waiting = groupBy(&t.allocs, data.waiting, func(a *schedule.Alloc) (string, bool) {
		return a.NodeID, notEnded(a) && !schedule.InTotal(a.Allocation)
	})
	t.evalsByJob = groupBy(&t.evals, data.evalsByJob, func(e *structs.Evaluation) (jobKey, bool) { return evaluated(e), true })
	t.openByJob = groupBy(&t.evals, data.openByJob, func(e *structs.Evaluation) (jobKey, bool) { return evaluated(e), isOpen(e) })
	t.openByStatus = groupBy(&t.evals, data.openByStatus, func(e *structs.Evaluation) (structs.EvaluationStatus, bool) {
		return e.Status, isOpen(e)
	})
	timeBy(&t.evals, data.pendingEvals, whenPending)
	t.deploymentsByJob = groupBy(&t.deployments, data.deploymentsByJob, func(d *structs.Deployment) (jobKey, bool) { return deployed(d), true })
	timeBy(&t.deployments, data.deadlines, deadline)
	t.jobsByType = groupBy(&t.jobs, data.jobsByType, func(j *job) (string, bool) { return *j.Type, !*j.Stop && !isParent(j.Job) })
	t.children = groupBy(&t.jobs, data.children, siblingsOf)
	t.dispatched = groupBy(&t.jobs, data.dispatched, tokenOf)
	timeBy(&t.parents, data.launches, whenLaunched)
	own := *data.variableSizes
	t.variableSizes = &own
	t.variables.indexes = append(t.variables.indexes, sizedVariables{t.variableSizes, data.variableSizes})
	orderBy(&t.variables, data.variablesByPath)
	timeBy(&t.variables, data.locks, whenFree)
	t.servicesByAlloc = groupBy(&t.services, data.servicesByAlloc, func(s *structs.ServiceRegistration) (string, bool) { return s.AllocID, true })
	groupBy(&t.services, data.servicesByName, func(s *structs.ServiceRegistration) (serviceKey, bool) {
		return serviceKey{s.Namespace, s.ServiceName}, true
	})
}

// reindex fills the indexes from rows that were read from the file.
func (cp *ControlPlane) reindex() {
	t := cp.begin()
	t.jobs.reindex()
	t.parents.reindex()
	t.allocs.reindex()
	t.evals.reindex()
	t.deployments.reindex()
	for _, key := range slices.SortedFunc(maps.Keys(t.variables.base), variableKey.compare) { // so that each comes last
		t.variables.commit(key, true)
	}
	t.services.reindex()
}

func (c *changes[K, V]) reindex() {
	for key := range c.base {
		c.commit(key, true)
	}
}

func jobOf(a *schedule.Alloc) jobKey { return jobKey{a.Namespace, a.JobID} }

func deployed(d *structs.Deployment) jobKey { return jobKey{d.Namespace, d.JobID} }

func evaluated(e *structs.Evaluation) jobKey { return jobKey{e.Namespace, e.JobID} }

func isOpen(e *structs.Evaluation) bool {
	return e.Status == structs.EvaluationPending || e.Status == structs.EvaluationBlocked
}

// whenPending returns when an evaluation is due; false: it never is.
func whenPending(e *structs.Evaluation) (at time.Time, ok bool) {
	if e == nil || e.Status != structs.EvaluationPending {
		return time.Time{}, false
	}
	return e.WaitUntil, true
}
