package standalone

import (
	"cmp"
	"fmt"
	"slices"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/controlplane/standalone/schedule"
	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/structs/errdefs"
)

// RegisterJob makes a job known, or its new version, and evaluates it: when it
// returns, the allocations that could be placed are. The request's job becomes the
// control plane's. A job that is the same as the registered one gets no new version.
// Errors are a *ValidationError with every fault, and errdefs.FailedPrecondition when the
// request's index is not the job's.
func (cp *ControlPlane) RegisterJob(req *structs.JobRegistration) (*structs.JobChange, error) {
	if err := checkEvalPriority(req.EvalPriority); err != nil {
		return nil, err
	}
	warnings, err := cp.setting().prepareSubmitted(req.Job)
	if err != nil {
		return nil, err
	}
	out := &structs.JobChange{Warnings: warnings}
	if req.PreserveCounts || req.PreserveResources {
		err = cp.registerPreserving(req, out)
	} else {
		err = cp.write(func(t *tx) error { return t.register(req, triggerRegister, out) })
	}
	return out, err
}

// checkEvalPriority refuses a priority that no evaluation has, with Nomad's text.
func checkEvalPriority(priority int) error {
	if priority < 0 || priority > maxPriority {
		return invalid("Eval priority must be between 1 and %d inclusively", maxPriority)
	}
	return nil
}

// register registers a job that was prepared, and tells what came of it.
func (t *tx) register(req *structs.JobRegistration, trigger string, out *structs.JobChange) error {
	key := keyOf(req.Job)
	existing := t.jobs.get(key)
	if err := enforceIndex(req, existing); err != nil {
		return err
	}
	if err := t.fits(req.Job, existing); err != nil {
		return err
	}
	if existing == nil || !sameJob(existing.Job, req.Job) {
		t.newVersion(existing, req.Job, req.Submission)
	}
	j := t.jobs.get(key)
	out.JobModifyIndex, out.LastIndex = *j.JobModifyIndex, t.at()
	if isParent(j.Job) {
		t.refreshStatus(key)
		return nil
	}
	e := t.newEval(j.Job, trigger)
	e.Priority = cmp.Or(req.EvalPriority, e.Priority)
	e.JobModifyIndex = *j.JobModifyIndex
	t.evaluate(e, nil)
	out.EvalID, out.EvalCreateIndex, out.LastIndex = e.ID, e.CreateIndex, e.ModifyIndex
	return nil
}

func noPool(j *nomad.Job) string {
	return fmt.Sprintf("job %q is in nonexistent node pool %q", structs.Deref(j.ID), *j.NodePool)
}

// fits refuses a job that does not fit to what else is registered.
func (t *tx) fits(j *nomad.Job, existing *job) error {
	if text := namespaceFault(j, t.namespace(structs.Deref(j.Namespace))); text != "" {
		return invalid("%s", text)
	}
	if !t.hasPool(structs.Deref(j.NodePool)) {
		return invalid("%s", noPool(j))
	}
	if existing == nil {
		return nil
	}
	return changeable(existing.Job, j)
}

// enforceIndex has Nomad's texts: its command line looks for them.
func enforceIndex(req *structs.JobRegistration, existing *job) error {
	if !req.EnforceIndex {
		return nil
	}
	problem := ""
	switch {
	case existing == nil && req.JobModifyIndex != 0:
		problem = "job does not exist"
	case existing != nil && req.JobModifyIndex == 0:
		problem = "job already exists"
	case existing != nil && req.JobModifyIndex != *existing.JobModifyIndex:
		problem = fmt.Sprintf("job exists with conflicting job modify index: %d", *existing.JobModifyIndex)
	default:
		return nil
	}
	return errdefs.New(errdefs.FailedPrecondition, "Enforcing job modify index %d: %s", req.JobModifyIndex, problem)
}

// changeable refuses a version that would be of another kind, with Nomad's texts.
func changeable(was, is *nomad.Job) error {
	if *was.Type != *is.Type {
		return invalid("cannot update job from type %q to %q", *was.Type, *is.Type)
	}
	for _, kind := range []struct {
		name    string
		was, is bool
	}{
		{"periodic", was.Periodic != nil, is.Periodic != nil},
		{"parameterized", isParameterized(was), isParameterized(is)},
	} {
		switch {
		case kind.is && !kind.was:
			return invalid("cannot update non-%s job to being %s", kind.name, kind.name)
		case kind.was && !kind.is:
			return invalid("cannot update %s job to being non-%s", kind.name, kind.name)
		}
	}
	return nil
}

// newVersion stores a job's next version.
func (t *tx) newVersion(existing *job, submitted *nomad.Job, submission *nomad.JobSubmission) {
	c := *submitted
	index, submitTime := t.versionIndex(), t.now.UnixNano()
	version, stable, description, status := uint64(0), false, "", statusPending
	createIndex := index
	row := &job{since: index, versions: []uint64{index}}
	if existing != nil {
		version = *existing.Version + 1
		createIndex = *existing.CreateIndex
		status = *existing.Status
		row.versions = t.keptVersions(append(row.versions, existing.versions...))
		row.scalings = existing.scalings
		stable = structs.Deref(submitted.Stop) && *existing.Stable // stopping it does not make it worse
		if !*existing.Stop {
			row.since = existing.since
		}
	}
	c.VersionTag = nil
	c.Version, c.Stable, c.SubmitTime = &version, &stable, &submitTime
	c.Status, c.StatusDescription = &status, &description
	c.CreateIndex, c.ModifyIndex, c.JobModifyIndex = &createIndex, &index, &index
	row.Job = &c
	t.specs.put(index, &spec{&c, submission})
	t.putJob(row)
	t.followParent(&c)
}

// versionIndex is an index that no version has: one operation may make several, and a
// version is known by its index.
func (t *tx) versionIndex() uint64 {
	if t.specs.get(t.at()) != nil {
		t.index++
	}
	return t.index
}

// sameJob reports whether two canonical jobs ask for the same, whatever a control plane
// added and in whatever order their groups and tasks are.
func sameJob(a, b *nomad.Job) bool { return schedule.Same(requested(a), requested(b)) }

func requested(j *nomad.Job) *nomad.Job {
	c := *j
	c.Status, c.StatusDescription, c.Stable, c.Version, c.VersionTag = nil, nil, nil, nil, nil
	c.SubmitTime, c.CreateIndex, c.ModifyIndex, c.JobModifyIndex, c.NomadTokenID = nil, nil, nil, nil, nil
	c.Update, c.Reschedule, c.Migrate = nil, nil, nil // the groups have them
	c.TaskGroups = sorted(j.TaskGroups, func(g *nomad.TaskGroup) string { return structs.Deref(g.Name) })
	for i, g := range c.TaskGroups {
		group := *g
		group.Tasks = sorted(g.Tasks, func(t *nomad.Task) string { return t.Name })
		c.TaskGroups[i] = &group
	}
	return &c
}

func sorted[T any](list []T, name func(T) string) []T {
	return slices.SortedStableFunc(slices.Values(list), func(a, b T) int { return cmp.Compare(name(a), name(b)) })
}

// DeregisterJob stops a job and, where it is purged, forgets it; its allocations are kept
// until they have ended. What was launched or dispatched of it goes on. An unknown job is
// errdefs.NotFound.
func (cp *ControlPlane) DeregisterJob(req *structs.JobStop) (*structs.JobChange, error) {
	if err := checkEvalPriority(req.EvalPriority); err != nil {
		return nil, err
	}
	out := &structs.JobChange{}
	err := cp.write(func(t *tx) error {
		key := jobKey{req.Namespace, req.JobID}
		j := t.jobs.get(key)
		if j == nil {
			return notFound("job %q not found", req.JobID)
		}
		last := j.Job
		switch {
		case req.Purge:
			t.deleteJob(key)
			out.JobModifyIndex = t.at()
		case !*j.Stop:
			t.stopJob(j)
			out.JobModifyIndex = t.at()
		default:
			out.JobModifyIndex = *j.JobModifyIndex
		}
		if req.NoShutdownDelay {
			t.skipShutdownDelays(key)
		}
		if out.LastIndex = t.at(); isParent(last) {
			t.refreshStatus(key)
			return nil
		}
		e := t.newEval(last, triggerDeregister)
		e.Priority = cmp.Or(req.EvalPriority, e.Priority)
		e.JobModifyIndex = out.JobModifyIndex
		t.evaluate(e, last)
		out.EvalID, out.EvalCreateIndex, out.LastIndex = e.ID, e.CreateIndex, e.ModifyIndex
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// stopJob stores a job's next version, which is stopped.
func (t *tx) stopJob(j *job) {
	stopped, stop := *j.Job, true
	stopped.Stop = &stop
	t.newVersion(j, &stopped, t.submission(j))
}

// skipShutdownDelays has the allocations of a job end, whenever they do, without their
// shutdown delays.
func (t *tx) skipShutdownDelays(key jobKey) {
	for _, a := range t.jobAllocs(key) {
		t.skipShutdownDelay(a)
	}
}

func (t *tx) skipShutdownDelay(a *schedule.Alloc) *schedule.Alloc {
	if a.ClientStatus.Terminal() || a.NoShutdownDelay {
		return a
	}
	return t.changeAlloc(a, true, func(a *structs.Allocation) { a.NoShutdownDelay = true })
}

func (t *tx) submission(j *job) *nomad.JobSubmission {
	if sp := t.specs.get(j.versions[0]); sp != nil {
		return sp.submission
	}
	return nil
}

// EvaluateJob has a job evaluated again and returns the evaluation's ID. With reschedule,
// allocations that failed are replaced at once, whatever their policy says. An unknown
// job is errdefs.NotFound.
func (cp *ControlPlane) EvaluateJob(namespace, id string, reschedule bool) (evalID string, err error) {
	err = cp.write(func(t *tx) error {
		j := t.jobs.get(jobKey{namespace, id})
		if j == nil {
			return notFound("job %q not found", id)
		}
		switch {
		case j.Periodic != nil:
			return invalid("can't evaluate periodic job")
		case isParameterized(j.Job):
			return invalid("can't evaluate parameterized job")
		}
		e := t.newEval(j.Job, triggerRegister)
		e.ForceReschedule = reschedule
		t.evaluate(e, nil)
		evalID = e.ID
		return nil
	})
	return evalID, err
}

// stoppedByRequest describes an allocation that a person stopped.
const stoppedByRequest = "alloc is being stopped by request"

// StopAllocation stops an allocation; its job gets another in its place, one that runs on every
// node with its next evaluation. With noShutdownDelay it ends without its shutdown delays, also
// when it was stopped before. One that has ended is left as it is. An unknown one is
// errdefs.NotFound.
func (cp *ControlPlane) StopAllocation(id string, noShutdownDelay bool) (evalID string, err error) {
	err = cp.write(func(t *tx) error {
		a := t.allocs.get(id)
		if a == nil {
			return notFound("alloc %q not found", id)
		}
		if !a.Terminal() {
			a = t.changeAlloc(a, true, func(a *structs.Allocation) {
				a.DesiredStatus = structs.DesiredStop
				a.DesiredDescription = stoppedByRequest
			})
		}
		if noShutdownDelay {
			a = t.skipShutdownDelay(a)
		}
		e := t.newEval(a.Job, triggerAllocStop)
		t.evaluate(e, a.Job)
		evalID = e.ID
		return nil
	})
	return evalID, err
}
