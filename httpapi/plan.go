package httpapi

import (
	"net/http"
	"slices"
	"strconv"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/httpapi/jobdiff"
	"github.com/wasmnode/wasmnode/jobspec"
	"github.com/wasmnode/wasmnode/structs"
)

// planJob tells what registering a job would do.
func (h *handler) planJob(r *http.Request, id string) (any, error) {
	req, unknown, err := h.readProposal(r)
	if err != nil {
		return nil, err
	}
	if *req.Job.ID != id {
		return nil, badRequest("Job ID does not match")
	}
	plan, err := h.ControlPlane.PlanJob(req.Job)
	if err != nil {
		return nil, err
	}
	eval := evaluation(plan.Evaluation)
	refused, unchecked := h.driverFindings(req.Job)
	out := &nomad.JobPlanResponse{
		JobModifyIndex:     plan.JobModifyIndex,
		Annotations:        eval.PlanAnnotations,
		FailedTGAllocs:     eval.FailedTGAllocs,
		NextPeriodicLaunch: plan.NextLaunch,
		Warnings:           jobspec.WarningText(slices.Concat(plan.Warnings, refused, unchecked, unknown)),
	}
	if out.Annotations == nil {
		out.Annotations = &nomad.PlanAnnotations{}
	}
	out.Annotations.PreemptedAllocs = nil
	for _, a := range plan.Preempted {
		out.Annotations.PreemptedAllocs = append(out.Annotations.PreemptedAllocs, allocationStub(a))
	}
	if req.Diff {
		if out.Diff, err = jobdiff.New(true).Jobs(plan.Old, plan.New); err != nil {
			return nil, badRequest("diff: %v", err)
		}
		annotate(out.Diff, plan)
	}
	return indexed{wirePlan{out, timeOrNull(out.NextPeriodicLaunch)}, h.ControlPlane.Index(tableJobs)}, nil
}

// What a difference leads to, with Nomad's words.
const (
	forcesCreate      = "forces create"
	forcesDestroy     = "forces destroy"
	forcesInPlace     = "forces in-place update"
	forcesDestructive = "forces create/destroy update"
)

// annotate says in a diff what its differences lead to.
func annotate(d *nomad.JobDiff, plan *structs.JobPlan) {
	var desired map[string]*structs.DesiredUpdates
	if a := plan.Evaluation.PlanAnnotations; a != nil {
		desired = a.DesiredTGUpdates
	}
	for _, g := range d.TaskGroups {
		if u := desired[g.Name]; u != nil {
			g.Updates = updates(u)
		}
		annotateCount(g)
		for _, t := range g.Tasks {
			t.Annotations = forces(t.Type, slices.Contains(plan.Destroyed[g.Name], t.Name))
		}
	}
}

// updates counts what happens with a group's allocations, by Nomad's names for it.
func updates(u *structs.DesiredUpdates) map[string]uint64 {
	all := map[string]uint64{}
	for name, n := range map[string]uint64{
		"ignore": u.Ignore, "create": u.Place, "destroy": u.Stop, "in-place update": u.InPlaceUpdate,
		"create/destroy update": u.DestructiveUpdate, "canary": u.Canary, "preemptions": u.Preemptions,
		"reschedule now": u.RescheduleNow, "reschedule later": u.RescheduleLater,
	} {
		if n > 0 {
			all[name] = n
		}
	}
	return all
}

// annotateCount says what another count of a group leads to.
func annotateCount(g *nomad.TaskGroupDiff) {
	for _, f := range g.Fields {
		if f.Name != "Count" || f.Type == jobdiff.None {
			continue
		}
		old, _ := strconv.Atoi(f.Old) // of none it is 0
		new, _ := strconv.Atoi(f.New)
		switch {
		case old < new:
			f.Annotations = []string{forcesCreate}
		case old > new:
			f.Annotations = []string{forcesDestroy}
		}
	}
}

// forces is what a task's difference leads to.
func forces(kind string, destroyed bool) []string {
	switch {
	case kind == jobdiff.Added:
		return []string{forcesCreate}
	case kind == jobdiff.Deleted:
		return []string{forcesDestroy}
	case kind == jobdiff.Edited && destroyed:
		return []string{forcesDestructive}
	case kind == jobdiff.Edited:
		return []string{forcesInPlace}
	}
	return nil
}

// versionDiffs compares each version with the one before it or, where one is named, with
// that. A diff stands at the place of its version; the oldest has none unless one is named.
func versionDiffs(r *http.Request, versions []*nomad.Job) ([]*nomad.JobDiff, error) {
	with, err := namedVersion(r, versions)
	if err != nil {
		return nil, err
	}
	differ, diffs := jobdiff.New(false), []*nomad.JobDiff{}
	for i, v := range versions {
		old := with
		switch {
		case with == nil && i+1 == len(versions):
			return diffs, nil
		case with == nil:
			old = versions[i+1]
		}
		d, err := differ.Jobs(old, v)
		if err != nil {
			return nil, badRequest("diffs: %v", err)
		}
		diffs = append(diffs, d)
	}
	return diffs, nil
}

// namedVersion is the version that a request names by its number or tag, to be compared
// with; nil: it names none.
func namedVersion(r *http.Request, versions []*nomad.Job) (*nomad.Job, error) {
	number, tag := r.URL.Query().Get("diff_version"), r.URL.Query().Get("diff_tag")
	switch {
	case number != "" && tag != "":
		return nil, badRequest("diff_version and diff_tag are mutually exclusive")
	case number == "" && tag == "":
		return nil, nil
	}
	n, err := strconv.ParseUint(number, 10, 64)
	if number != "" && err != nil {
		return nil, badRequest("Expect a number for `diff_version`, got %q", number)
	}
	for _, v := range versions {
		if number != "" && *v.Version == n || tag != "" && v.VersionTag != nil && v.VersionTag.Name == tag {
			return v, nil
		}
	}
	if tag != "" {
		return nil, notFound("tag %q not found", tag)
	}
	return nil, notFound("version %d not found", n)
}
