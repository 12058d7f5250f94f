package standalone

import (
	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/controlplane/standalone/schedule"
	"github.com/wasmnode/wasmnode/structs"
)

// dryRun does a change in a transaction of its own that is thrown away. Nothing is
// committed meanwhile.
func (cp *ControlPlane) dryRun(change func(*tx) error) error {
	cp.mu.RLock()
	defer cp.mu.RUnlock()
	return cp.begin().do(change)
}

// PlanJob tells what registering a job would do now, and does nothing of it. The job
// becomes the control plane's. Errors are those of [ControlPlane.RegisterJob].
func (cp *ControlPlane) PlanJob(job *nomad.Job) (*structs.JobPlan, error) {
	warnings, err := cp.setting().prepareSubmitted(job)
	if err != nil {
		return nil, err
	}
	plan := &structs.JobPlan{New: job, NextLaunch: nextLaunch(job, cp.now()), Warnings: warnings}
	err = cp.dryRun(func(t *tx) error {
		key := keyOf(job)
		existing := t.jobs.get(key)
		if err := t.fits(job, existing); err != nil {
			return err
		}
		if existing != nil {
			plan.Old, plan.JobModifyIndex = existing.Job, *existing.JobModifyIndex
			plan.Destroyed = destroyedTasks(existing.Job, job)
		}
		if existing == nil || !sameJob(existing.Job, job) {
			t.newVersion(existing, job, nil)
		}
		plan.Evaluation = t.newEval(job, triggerRegister)
		t.cancelDeployments(key)
		in := t.input(plan.Evaluation, nil)
		// A periodic or parameterized job is planned as one child of it, as with Nomad: the
		// exit code of `job plan` tells scripts that there is something to do.
		in.Stopped = in.Stopped && !isParent(job)
		res := schedule.Schedule(in)
		t.describe(plan.Evaluation, res)
		for id := range res.Preempted {
			plan.Preempted = append(plan.Preempted, t.allocs.get(id).Allocation)
		}
		sortAllocations(plan.Preempted)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return plan, nil
}

// destroyedTasks are, by group, the tasks of both jobs that would have to be stopped and
// started again.
func destroyedTasks(old, new *nomad.Job) map[string][]string {
	destroyed := map[string][]string{}
	for _, g := range new.TaskGroups {
		was := old.LookupTaskGroup(*g.Name)
		if was == nil {
			continue
		}
		for _, t := range was.Tasks {
			if schedule.DestroysTask(old, new, *g.Name, t.Name) {
				destroyed[*g.Name] = append(destroyed[*g.Name], t.Name)
			}
		}
	}
	return destroyed
}
