package standalone

import (
	"cmp"
	"slices"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/controlplane/standalone/schedule"
	"github.com/wasmnode/wasmnode/structs"
)

// Limits is how much is kept of what has ended; the oldest goes first. Zero keeps
// nothing.
type Limits struct {
	// Jobs are dead jobs, each with its allocations and evaluations.
	Jobs int
	// Allocations are ended allocations that do not count for what a job needs:
	// stopped, replaced, or of a job that is gone.
	Allocations int
	// Evaluations are ended evaluations.
	Evaluations int
	// Deployments are ended deployments that are not the last of their job.
	Deployments int
}

// DefaultLimits keeps what people look back at on one machine, in a file of some
// megabytes.
var DefaultLimits = Limits{Jobs: 200, Allocations: 1000, Evaluations: 2000, Deployments: 500}

// collectEvery is after how many operations what has ended is counted: the limits may
// be exceeded by what so many operations leave.
const collectEvery = 64

// collectPeriodically applies the limits now and then.
func (t *tx) collectPeriodically() {
	t.cp.operations++
	if t.cp.operations%collectEvery == 0 {
		t.fresh = true
		t.collect(t.cp.limits)
	}
}

// CollectGarbage forgets what has ended and is not needed any more.
func (cp *ControlPlane) CollectGarbage() {
	err := cp.write(func(t *tx) error {
		t.collect(Limits{})
		return nil
	})
	if err != nil {
		cp.logger.Warn("garbage was not collected", "error", err)
	}
}

func (t *tx) collect(keep Limits) {
	t.collectJobs(keep.Jobs)
	t.collectAllocs(keep.Allocations)
	t.collectEvals(keep.Evaluations)
	t.collectDeployments(keep.Deployments)
	t.collectSpecs()
}

func (t *tx) collectJobs(keep int) {
	var dead []*job
	t.jobs.all(func(key jobKey, j *job) {
		if *j.Status == statusDead && over(j.Job) && !slices.ContainsFunc(t.jobAllocs(key), notEnded) {
			dead = append(dead, j)
		}
	})
	slices.SortFunc(dead, func(a, b *job) int { return cmp.Compare(*b.ModifyIndex, *a.ModifyIndex) })
	for _, j := range dead[min(keep, len(dead)):] {
		key := keyOf(j.Job)
		for _, a := range t.jobAllocs(key) {
			t.deleteAlloc(a)
		}
		for _, e := range t.evalsByJob.in(key) {
			t.deleteEval(e.ID)
		}
		t.deleteJob(key)
	}
}

// over reports whether a dead job stays dead. A service that was not stopped may be scaled
// up from nothing, or be evaluated again.
func over(j *nomad.Job) bool {
	return *j.Stop || *j.Type == nomad.JobTypeBatch || *j.Type == nomad.JobTypeSysbatch
}

func notEnded(a *schedule.Alloc) bool { return !a.ClientStatus.Terminal() }

func (t *tx) collectAllocs(keep int) {
	var ended []*schedule.Alloc
	links := t.linksToWaitedFor()
	t.allocs.all(func(id string, a *schedule.Alloc) {
		if notEnded(a) || links[id] {
			return
		}
		j := t.jobs.get(jobKey{a.Namespace, a.JobID})
		if j == nil || a.ServerTerminal() || a.NextAllocation != "" || *a.Job.JobModifyIndex < j.since {
			ended = append(ended, a)
		}
	})
	slices.SortFunc(ended, func(a, b *schedule.Alloc) int {
		return cmp.Or(cmp.Compare(b.ModifyIndex, a.ModifyIndex), cmp.Compare(a.ID, b.ID))
	})
	for _, a := range ended[min(keep, len(ended)):] {
		t.deleteAlloc(a)
	}
}

// linksToWaitedFor are the ended allocations between two that have not ended. The later
// waits for the earlier one, has been given what that one holds, and is led to it by them
// alone.
func (t *tx) linksToWaitedFor() map[string]bool {
	links := map[string]bool{}
	t.allocs.all(func(_ string, a *schedule.Alloc) {
		if !notEnded(a) {
			return
		}
		for _, p := range t.linksBefore(a) {
			links[p.ID] = true
		}
	})
	return links
}

func (t *tx) collectEvals(keep int) {
	var ended []*structs.Evaluation
	t.evals.all(func(_ string, e *structs.Evaluation) {
		if e.Status != structs.EvaluationPending && e.Status != structs.EvaluationBlocked {
			ended = append(ended, e)
		}
	})
	slices.SortFunc(ended, func(a, b *structs.Evaluation) int {
		return cmp.Or(cmp.Compare(b.ModifyIndex, a.ModifyIndex), cmp.Compare(a.ID, b.ID))
	})
	for _, e := range ended[min(keep, len(ended)):] {
		t.deleteEval(e.ID)
	}
}

// collectSpecs forgets versions that neither a job nor an allocation refers to.
func (t *tx) collectSpecs() {
	used := map[uint64]bool{}
	t.jobs.all(func(_ jobKey, j *job) {
		for _, index := range j.versions {
			used[index] = true
		}
	})
	t.allocs.all(func(_ string, a *schedule.Alloc) { used[*a.Job.JobModifyIndex] = true })
	t.specs.all(func(index uint64, _ *spec) {
		if !used[index] {
			t.specs.delete(index)
		}
	})
}
