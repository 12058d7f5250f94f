package standalone

import (
	"cmp"
	"context"
	"maps"
	"reflect"
	"slices"
	"time"

	nomad "github.com/hashicorp/nomad/api"

	"go.opentelemetry.io/otel/attribute"

	"github.com/wasmnode/wasmnode/controlplane/standalone/schedule"
	"github.com/wasmnode/wasmnode/structs"
)

// Why an evaluation was made, with Nomad's names.
const (
	triggerRegister   = "job-register"
	triggerDeregister = "job-deregister"
	triggerAllocStop  = "alloc-stop"
	triggerFailure    = "alloc-failure"
	triggerReschedule = "alloc-reschedule"
	triggerNode       = "node-update"
	triggerQueued     = "queued-allocs"
	triggerDrain      = "node-drain"
	triggerDeployment = "deployment-watcher"
	triggerPeriodic   = "periodic-job"
	triggerScaling    = "job-scaling"
	triggerPreemption = "preemption"
)

// maxNap is how long it sleeps when something is: the clock that says when may be set, and
// the machine may sleep, too.
const maxNap = time.Minute

// maxIdle is how long the writer sleeps when nothing is due.
const maxIdle = time.Hour

// newEval returns an evaluation that is not stored yet.
func (t *tx) newEval(j *nomad.Job, trigger string) *structs.Evaluation {
	return &structs.Evaluation{
		ID:          t.cp.newID(),
		Priority:    structs.Deref(j.Priority),
		Type:        structs.Deref(j.Type),
		TriggeredBy: trigger,
		Namespace:   *j.Namespace,
		JobID:       *j.ID,
		Status:      structs.EvaluationPending,
	}
}

// evaluate has the scheduler decide for a job, applies its decision, and completes
// and stores the evaluation. last is the job's last version, for one that was purged. While
// evaluations are paused it only stores the evaluation.
func (t *tx) evaluate(e *structs.Evaluation, last *nomad.Job) {
	t.cancelDeployments(evaluated(e))
	if t.scheduler.PauseEvalBroker {
		t.putEval(e)
		t.refreshStatus(evaluated(e))
		return
	}
	_, end := t.cp.traces.Begin(context.Background(), e.ID, "evaluate", attribute.String("job", e.JobID),
		attribute.String("namespace", e.Namespace), attribute.String("triggered_by", e.TriggeredBy))
	res := t.schedule(e, last)
	t.apply(e, res)
	end(nil)
	e.Status, e.StatusDescription = structs.EvaluationComplete, ""
	e.SnapshotIndex = t.cp.index
	t.describe(e, res)
	t.updateBlocked(e, res)
	t.followUp(e, res)
	t.putEval(e)
	t.refreshStatus(evaluated(e))
	t.evaluatePreempted(e, res)
}

// schedule asks the scheduler about an evaluation's job. What a person stops of a job that runs on
// every node comes back with the next evaluation only, as with Nomad.
func (t *tx) schedule(e *structs.Evaluation, last *nomad.Job) *schedule.Result {
	in := t.input(e, last)
	if in.Job == nil || e.TriggeredBy == triggerAllocStop && schedule.PerNode(in.Job) {
		return &schedule.Result{}
	}
	return schedule.Schedule(in)
}

// input is what an evaluation is decided from. Its Job is nil where there is nothing to
// decide.
func (t *tx) input(e *structs.Evaluation, last *nomad.Job) schedule.Input {
	key := evaluated(e)
	in := schedule.Input{Job: last, Stopped: true, ForceReschedule: e.ForceReschedule, Allocs: t.jobAllocs(key), Now: t.now, NewID: t.cp.newID}
	if j := t.jobs.get(key); j != nil {
		in.Job, in.Stopped, in.Since = t.version(j), *j.Stop || isParent(j.Job), j.since
		in.Deployment = t.deploymentOf(key)
	}
	if in.Job == nil && len(in.Allocs) > 0 {
		in.Job = in.Allocs[0].Job // it was purged while evaluations were paused
	}
	if in.Job == nil {
		return in
	}
	t.surround(&in, key)
	t.addVolumes(&in, key)
	in.Algorithm = schedule.Algorithm(t.scheduler.SchedulerAlgorithm)
	in.Oversubscribe = t.scheduler.MemoryOversubscriptionEnabled
	in.Preempt = mayPreempt(t.scheduler, *in.Job.Type)
	return in
}

// surround completes an input with the nodes and what other jobs than one have there.
func (t *tx) surround(in *schedule.Input, key jobKey) {
	t.nodes.all(func(_ string, n *structs.Node) { in.Nodes = append(in.Nodes, n) })
	slices.SortFunc(in.Nodes, func(a, b *structs.Node) int { return cmp.Compare(a.ID, b.ID) })
	in.Taken = make(map[string]*schedule.Taken, len(in.Nodes))
	for _, n := range in.Nodes {
		if n.Status == structs.NodeDown {
			continue
		}
		in.Taken[n.ID] = t.taken.on(n.ID)
		for _, a := range t.waiting.in(n.ID) {
			for _, other := range append(t.linksBefore(a), a) {
				if jobOf(other) != key {
					in.Others = append(in.Others, other.Allocation)
				}
			}
		}
	}
	in.Rest = func(nodeID string) (rest []*structs.Allocation) {
		for _, a := range t.liveByNode.in(nodeID) {
			if schedule.InTotal(a.Allocation) && jobOf(a) != key {
				rest = append(rest, a.Allocation)
			}
		}
		return rest
	}
}

// linksBefore are the ended allocations that lead from one to others that have not ended,
// which it waits for.
func (t *tx) linksBefore(a *schedule.Alloc) (between []*schedule.Alloc) {
	leading := map[string]bool{}
	var leads func(*schedule.Alloc) bool
	leads = func(a *schedule.Alloc) (yes bool) {
		for id := range a.WaitsFor {
			p := t.allocs.get(id)
			if p == nil {
				continue
			}
			if _, known := leading[id]; !known && !notEnded(p) {
				leading[id] = false // in a circle
				if leading[id] = leads(p); leading[id] {
					between = append(between, p)
				}
			}
			yes = yes || notEnded(p) || leading[id]
		}
		return yes
	}
	leads(a)
	return between
}

// version returns a job's current version as it was registered: what its allocations
// are given, so that they do not carry a status that was true once.
func (t *tx) version(j *job) *nomad.Job {
	if sp := t.specs.get(j.versions[0]); sp != nil {
		return sp.Job
	}
	return j.Job
}

// apply stores what was decided.
func (t *tx) apply(e *structs.Evaluation, res *schedule.Result) {
	t.applyDeployment(e, res)
	for _, stop := range res.Stop {
		t.changeAlloc(t.allocs.get(stop.ID), true, func(a *structs.Allocation) {
			a.DesiredStatus, a.DesiredDescription = structs.DesiredStop, stop.Description
			if stop.Lost {
				a.ClientStatus = structs.ClientLost
			}
		})
	}
	for old, successor := range res.Replaced {
		t.changeAlloc(t.allocs.get(old), false, func(a *structs.Allocation) { a.NextAllocation = successor })
	}
	for _, a := range res.Update {
		a.EvalID = e.ID
		t.putAlloc(&schedule.Alloc{Allocation: a}, true)
	}
	for _, a := range res.Place {
		a.EvalID = e.ID
		t.putAlloc(a, true)
		t.claimVolumes(a)
	}
	for victim, by := range res.Preempted {
		t.changeAlloc(t.allocs.get(victim), true, func(a *structs.Allocation) {
			a.DesiredStatus, a.DesiredDescription = structs.DesiredEvict, "Preempted by alloc ID "+by
			a.PreemptedByAllocation = by
		})
	}
}

// evaluatePreempted looks for other places for what was preempted, and has it wait for room
// where there are none.
func (t *tx) evaluatePreempted(by *structs.Evaluation, res *schedule.Result) {
	jobs := map[jobKey]*nomad.Job{}
	for victim := range res.Preempted {
		a := t.allocs.get(victim)
		jobs[jobOf(a)] = a.Job
	}
	for _, key := range slices.SortedFunc(maps.Keys(jobs), compareKeys) {
		e := t.newEval(jobs[key], triggerPreemption)
		e.PreviousEval = by.ID
		t.evaluate(e, jobs[key])
	}
}

// describe records in an evaluation what was decided.
func (t *tx) describe(e *structs.Evaluation, res *schedule.Result) {
	e.QueuedAllocations = res.Queued
	e.FailedTGAllocs = nil
	if len(res.Failed) > 0 {
		e.FailedTGAllocs = res.Failed
	}
	e.PlanAnnotations = &structs.PlanAnnotations{
		DesiredTGUpdates: res.Desired,
		PreemptedAllocs:  slices.Sorted(maps.Keys(res.Preempted)),
	}
}

// updateBlocked keeps one blocked evaluation for a job that waits for room, and ends it when
// the job does not.
func (t *tx) updateBlocked(e *structs.Evaluation, res *schedule.Result) {
	blocked := t.openEvals(evaluated(e), structs.EvaluationBlocked)
	if !res.Waits() {
		for _, b := range blocked {
			t.endEval(b, structs.EvaluationCancelled, "a later evaluation placed everything")
		}
		return
	}
	var b structs.Evaluation
	if len(blocked) > 0 {
		b = *blocked[0]
	} else {
		b = structs.Evaluation{
			ID:                t.cp.newID(),
			Priority:          e.Priority,
			Type:              e.Type,
			TriggeredBy:       triggerQueued,
			Namespace:         e.Namespace,
			JobID:             e.JobID,
			Status:            structs.EvaluationBlocked,
			StatusDescription: "created to place remaining allocations",
		}
	}
	b.PreviousEval = e.ID
	b.FailedTGAllocs, b.QueuedAllocations = res.Failed, res.Queued
	t.putEval(&b)
	e.BlockedEval = b.ID
}

// followUp keeps one pending evaluation for the next time that a failed allocation of
// the job is due to be replaced.
func (t *tx) followUp(e *structs.Evaluation, res *schedule.Result) {
	var due time.Time
	for _, later := range res.Later {
		if due.IsZero() || later.At.Before(due) {
			due = later.At
		}
	}
	id := ""
	for _, p := range t.openEvals(evaluated(e), structs.EvaluationPending) {
		switch {
		case p.ID == e.ID:
		case id == "" && !due.IsZero() && p.WaitUntil.Equal(due):
			id = p.ID
		default:
			t.endEval(p, structs.EvaluationCancelled, "superseded by a later evaluation")
		}
	}
	if due.IsZero() {
		return
	}
	if id == "" {
		next := &structs.Evaluation{
			ID:                t.cp.newID(),
			Priority:          e.Priority,
			Type:              e.Type,
			TriggeredBy:       triggerReschedule,
			Namespace:         e.Namespace,
			JobID:             e.JobID,
			PreviousEval:      e.ID,
			Status:            structs.EvaluationPending,
			StatusDescription: "created for delayed rescheduling",
			WaitUntil:         due,
		}
		t.putEval(next)
		id = next.ID
	}
	e.NextEval = id
	for _, later := range res.Later {
		if a := t.allocs.get(later.ID); a.FollowupEvalID != id {
			t.changeAlloc(a, false, func(a *structs.Allocation) { a.FollowupEvalID = id })
		}
	}
}

// openEvals returns a job's stored evaluations that are pending, or blocked, oldest first.
func (t *tx) openEvals(key jobKey, status structs.EvaluationStatus) (list []*structs.Evaluation) {
	for _, e := range t.openByJob.in(key) {
		if e.Status == status {
			list = append(list, e)
		}
	}
	slices.SortFunc(list, func(a, b *structs.Evaluation) int {
		return cmp.Or(cmp.Compare(a.CreateIndex, b.CreateIndex), cmp.Compare(a.ID, b.ID))
	})
	return list
}

func (t *tx) endEval(e *structs.Evaluation, status structs.EvaluationStatus, description string) {
	c := *e
	c.Status, c.StatusDescription = status, description
	t.putEval(&c)
}

// doDue does what is due.
func (t *tx) doDue() error {
	t.launchDue()
	t.freeDue()
	if !t.scheduler.PauseEvalBroker {
		t.evaluateDue()
		t.failDue()
	}
	t.collectDue()
	return nil
}

// evaluateDue does the evaluations whose time has come.
func (t *tx) evaluateDue() {
	for _, id := range t.cp.data.pendingEvals.due(t.now) {
		if at, pending := whenPending(t.evals.get(id)); pending && !at.After(t.now) {
			c := *t.evals.get(id)
			t.evaluate(&c, nil)
		}
	}
}

// storeRetry is how long the writer waits before it tries to store again what is due: a
// disk that is full stays so for a while.
const storeRetry = time.Second

// untilDue is how long the writer may sleep.
func (cp *ControlPlane) untilDue() time.Duration {
	wait := min(maxIdle, cp.collectAt.Sub(cp.now()))
	least := time.Duration(0)
	if cp.cannotStore {
		wait, least = storeRetry, storeRetry
	}
	timelines := []func() (time.Time, bool){cp.data.launches.first, cp.data.locks.first, cp.drainDeadline}
	if !cp.scheduler.PauseEvalBroker {
		timelines = append(timelines, cp.data.pendingEvals.first, cp.data.deadlines.first)
	}
	for _, first := range timelines {
		if at, ok := first(); ok {
			wait = min(wait, at.Sub(cp.now()), maxNap)
		}
	}
	return max(wait, least)
}

// unblock tries again to place what is blocked, the most important job first. It is
// called when an operation made room, and told whether a node itself has changed.
func (t *tx) unblock(nodes bool) {
	if t.scheduler.PauseEvalBroker {
		return
	}
	blocked := t.openByStatus.in(structs.EvaluationBlocked)
	slices.SortFunc(blocked, func(a, b *structs.Evaluation) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.CreateIndex, b.CreateIndex), cmp.Compare(a.ID, b.ID))
	})
	var room *schedule.Room
	for _, b := range blocked {
		// Its job may have been preempted for one before it, and be evaluated already.
		if b = t.evals.get(b.ID); b == nil || b.Status != structs.EvaluationBlocked {
			continue
		}
		if room == nil {
			room = t.room()
		}
		if (nodes || !t.stillLacks(b, room)) && t.retry(b) {
			room = nil
		}
	}
}

// room is what is free now.
func (t *tx) room() *schedule.Room {
	var in schedule.Input
	t.surround(&in, jobKey{})
	return schedule.NewRoom(in)
}

// stillLacks reports whether a job that waits would be told the same again: it has nothing
// that changes or that it could take the place of, may preempt nobody, and what it lacks is
// not there. Hundreds may wait, and each end of an allocation asks for all of them.
func (t *tx) stillLacks(b *structs.Evaluation, room *schedule.Room) bool {
	j := t.jobs.get(evaluated(b))
	if j == nil || *j.Stop || mayPreempt(t.scheduler, *j.Type) && room.Lowest+schedule.MinPreemption <= *j.Priority {
		return false
	}
	updating := t.deploymentOf(evaluated(b)) != nil
	for _, a := range t.jobAllocs(evaluated(b)) {
		old := *a.Job.JobModifyIndex != *j.JobModifyIndex
		changing := notEnded(a) && (old || a.ServerTerminal()) && a.PreemptedByAllocation == ""
		if t.allocs.changed(a.ID) || changing || old && updating { // which may lack room for the old version
			return false
		}
	}
	job := t.version(j)
	for name, told := range b.FailedTGAllocs {
		if g := job.LookupTaskGroup(name); g == nil || !room.StillLacks(g, told) {
			return false
		}
	}
	return true
}

// retry does a blocked evaluation again; it stays blocked as long as something has no
// place. It reports whether anything was decided.
func (t *tx) retry(blocked *structs.Evaluation) (decided bool) {
	e := *blocked
	res := t.schedule(&e, nil)
	if !res.Changes() && res.Waits() &&
		reflect.DeepEqual(res.Failed, e.FailedTGAllocs) && reflect.DeepEqual(res.Queued, e.QueuedAllocations) {
		return false
	}
	t.apply(&e, res)
	t.describe(&e, res)
	if !res.Waits() {
		e.Status, e.StatusDescription = structs.EvaluationComplete, ""
	}
	t.followUp(&e, res)
	t.putEval(&e)
	t.refreshStatus(evaluated(&e))
	t.evaluatePreempted(&e, res)
	return true
}

// evaluateNodes gives the jobs that run on every node what nodes that changed need.
// An evaluation that decides nothing is not kept; the others' IDs are returned.
func (t *tx) evaluateNodes() (evalIDs []string) {
	if t.scheduler.PauseEvalBroker {
		return nil
	}
	jobs := append(t.jobsByType.in(nomad.JobTypeSystem), t.jobsByType.in(nomad.JobTypeSysbatch)...)
	slices.SortFunc(jobs, func(a, b *job) int {
		return cmp.Or(cmp.Compare(*b.Priority, *a.Priority), compareKeys(keyOf(a.Job), keyOf(b.Job)))
	})
	for _, j := range jobs {
		if len(t.openEvals(keyOf(j.Job), structs.EvaluationBlocked)) > 0 {
			continue
		}
		e := t.newEval(j.Job, triggerNode)
		if res := t.schedule(e, nil); res.Changes() || res.Waits() {
			t.evaluate(e, nil)
			evalIDs = append(evalIDs, e.ID)
		}
	}
	return evalIDs
}

// refreshStatus recomputes a job's status.
func (t *tx) refreshStatus(key jobKey) {
	j := t.jobs.get(key)
	if j == nil {
		return
	}
	status := t.status(key, j)
	if status == *j.Status {
		return
	}
	c, index := *j.Job, t.at()
	c.Status, c.ModifyIndex = &status, &index
	t.putJob(j.with(&c))
}

// The job statuses, with Nomad's names.
const (
	statusPending = "pending"
	statusRunning = "running"
	statusDead    = "dead"
)

// status is what a job does, as Nomad has it: a service that has come to nothing yet, or has to
// wait, runs; a batch job is pending.
func (t *tx) status(key jobKey, j *job) string {
	allocs := t.jobAllocs(key)
	for _, a := range allocs {
		if !a.Terminal() {
			return statusRunning
		}
	}
	switch {
	case *j.Stop:
		return statusDead
	case isParent(j.Job):
		return statusRunning
	case *j.Type == nomad.JobTypeSystem:
		return statusRunning
	}
	blocked, pending := len(t.openEvals(key, structs.EvaluationBlocked)) > 0, len(t.openEvals(key, structs.EvaluationPending)) > 0
	switch {
	case !blocked && !pending:
		return statusDead
	case *j.Type == nomad.JobTypeService && (blocked || len(allocs) > 0):
		return statusRunning
	}
	return statusPending
}
