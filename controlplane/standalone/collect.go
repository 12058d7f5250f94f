package standalone

import (
	"cmp"
	"slices"
	"time"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/controlplane/standalone/schedule"
	"github.com/wasmnode/wasmnode/structs"
)

// Limits is how long what has ended is kept, from when it changed last, and how much is.
type Limits struct {
	// Jobs are dead jobs, each with its allocations and evaluations.
	Jobs time.Duration
	// Evaluations are ended ones of which no allocation is kept, and the ended allocations
	// that do not count for what a job needs: stopped, replaced, or of a job that is gone.
	Evaluations time.Duration
	// BatchEvaluations are the same of batch jobs.
	BatchEvaluations time.Duration
	// Deployments are ended ones that are not the last of their job.
	Deployments time.Duration
	// Nodes are those that are down and of which no allocation is kept.
	Nodes time.Duration
	// Interval is how often that is looked at.
	Interval time.Duration
	// Size is how many bytes of the file may be in use before the oldest quarter of what has
	// ended goes, however young it is. What has not ended stays, also above it.
	Size int64
}

// DefaultLimits are Nomad's, and a file that one machine reads in a second.
func DefaultLimits() Limits {
	return Limits{
		Jobs: 4 * time.Hour, Evaluations: time.Hour, BatchEvaluations: 24 * time.Hour, Deployments: time.Hour, Nodes: 24 * time.Hour,
		Interval: 5 * time.Minute, Size: 128 << 20,
	}
}

// measureEvery is after how many operations the file is measured: it may exceed its bound by
// what so many leave.
const measureEvery = 64

// collectDue forgets what is old enough, when it is time to look.
func (t *tx) collectDue() {
	if t.now.Before(t.cp.collectAt) {
		return
	}
	t.cp.collectAt = t.now.Add(t.cp.limits.Interval)
	t.collect(t.cp.limits, func(list []garbage) []garbage {
		return slices.DeleteFunc(list, func(e garbage) bool { return e.at > t.now.Add(-e.keep).UnixNano() })
	})
}

// collectSize forgets a part of what has ended when the file is too large.
func (t *tx) collectSize() {
	t.cp.operations++
	if t.cp.file != nil && t.cp.operations%measureEvery == 0 && t.cp.file.InUse() > t.cp.limits.Size {
		t.fresh = true
		t.collect(t.cp.limits, func(list []garbage) []garbage {
			slices.SortFunc(list, func(a, b garbage) int { return cmp.Compare(a.at, b.at) })
			return list[:(len(list)+3)/4]
		})
	}
}

// CollectGarbage forgets what has ended and is not needed any more.
func (cp *ControlPlane) CollectGarbage() {
	err := cp.write(func(t *tx) error {
		t.collect(cp.limits, func(list []garbage) []garbage { return list })
		return nil
	})
	if err != nil {
		cp.logger.Warn("garbage was not collected", "error", err)
	}
}

// garbage is something that has ended and is not needed any more.
type garbage struct {
	at     int64 // when it changed last, in ns since the Unix epoch
	keep   time.Duration
	forget func()
}

// collect forgets what is picked of all that has ended, and then what that alone needed.
func (t *tx) collect(keep Limits, pick func([]garbage) []garbage) {
	for _, find := range []func(Limits) []garbage{t.deadJobs, t.endedAllocs, t.endedEvals, t.endedDeployments, t.downNodes} {
		for _, e := range pick(find(keep)) {
			e.forget()
		}
	}
	t.collectSpecs()
}

func (t *tx) deadJobs(keep Limits) (list []garbage) {
	t.jobs.all(func(key jobKey, j *job) {
		if *j.Status != statusDead || !over(j.Job) {
			return
		}
		at := structs.Deref(j.SubmitTime)
		allocs, evals := t.jobAllocs(key), t.evalsByJob.in(key)
		for _, a := range allocs {
			if notEnded(a) {
				return
			}
			at = max(at, a.ModifyTime)
		}
		for _, e := range evals {
			at = max(at, e.ModifyTime)
		}
		list = append(list, garbage{at, keep.Jobs, func() {
			for _, a := range allocs {
				t.deleteAlloc(a)
			}
			for _, e := range evals {
				t.deleteEval(e.ID)
			}
			t.deleteJob(key)
		}})
	})
	return list
}

// over reports whether a dead job stays dead. A service that was not stopped may be scaled
// up from nothing, or be evaluated again.
func over(j *nomad.Job) bool {
	return *j.Stop || *j.Type == nomad.JobTypeBatch || *j.Type == nomad.JobTypeSysbatch
}

func notEnded(a *schedule.Alloc) bool { return !a.ClientStatus.Terminal() }

func (t *tx) endedAllocs(keep Limits) (list []garbage) {
	links := t.linksToWaitedFor()
	t.allocs.all(func(id string, a *schedule.Alloc) {
		if notEnded(a) || links[id] {
			return
		}
		j := t.jobs.get(jobOf(a))
		if j == nil || a.ServerTerminal() || a.NextAllocation != "" || *a.Job.JobModifyIndex < j.since {
			list = append(list, garbage{a.ModifyTime, keep.evaluations(*a.Job.Type), func() { t.deleteAlloc(a) }})
		}
	})
	return list
}

// evaluations is how long those of a job of some type are kept.
func (l Limits) evaluations(jobType string) time.Duration {
	if jobType == nomad.JobTypeBatch {
		return l.BatchEvaluations
	}
	return l.Evaluations
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

func (t *tx) endedEvals(keep Limits) (list []garbage) {
	t.evals.all(func(id string, e *structs.Evaluation) {
		if !isOpen(e) && len(t.allocsByEval.in(id)) == 0 {
			list = append(list, garbage{e.ModifyTime, keep.evaluations(e.Type), func() { t.deleteEval(id) }})
		}
	})
	return list
}

// downNodes are those that others have replaced, and that have no volumes: these are forgotten
// when a person says so. Of when a node was replaced it has an event.
func (t *tx) downNodes(keep Limits) (list []garbage) {
	t.nodes.all(func(id string, n *structs.Node) {
		if n.Status != structs.NodeDown || len(t.allocsByNode.in(id)) > 0 || len(t.volumesOn(id)) > 0 {
			return
		}
		at := int64(0)
		for _, e := range n.Events {
			at = max(at, e.Time.UnixNano())
		}
		list = append(list, garbage{at, keep.Nodes, func() { t.deleteNode(id) }})
	})
	return list
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
