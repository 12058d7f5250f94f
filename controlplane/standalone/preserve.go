package standalone

import (
	"errors"
	"slices"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/structs/errdefs"
)

// maxPreserves is how often it is tried to keep what a job has, while others change that.
const maxPreserves = 10

// errChanged means that a job is not what it was when it was looked at.
var errChanged = errors.New("the job has changed")

// registerPreserving registers a job that is to keep counts or resources of the registered
// one. What it has then has to be valid, too: a count, say, within its new bounds. To find
// that out takes too long for the writer, so that it is found out before, and again when the
// registered job has changed meanwhile.
func (cp *ControlPlane) registerPreserving(req *structs.JobRegistration, out *structs.JobChange) error {
	key := keyOf(req.Job)
	for range maxPreserves {
		was := cp.Job(key.namespace, key.id)
		kept := *req
		kept.Job = preserve(req, was)
		if _, err := cp.setting().check(kept.Job); err != nil {
			return err
		}
		err := cp.write(func(t *tx) error {
			if j := t.jobs.get(key); (j == nil) != (was == nil) || j != nil && *j.JobModifyIndex != *was.JobModifyIndex {
				return errChanged
			}
			return t.register(&kept, triggerRegister, out)
		})
		if !errors.Is(err, errChanged) {
			return err
		}
	}
	return errdefs.New(errdefs.FailedPrecondition, "job %q is changed all the time: what it has cannot be kept", key.id)
}

// preserve returns a request's job with the counts and resources of the registered one that
// it is to keep.
func preserve(req *structs.JobRegistration, was *nomad.Job) *nomad.Job {
	if was == nil {
		return req.Job
	}
	c := *req.Job
	c.TaskGroups = slices.Clone(c.TaskGroups)
	for i, g := range c.TaskGroups {
		if old := was.LookupTaskGroup(*g.Name); old != nil {
			c.TaskGroups[i] = preserveGroup(req, g, old)
		}
	}
	return &c
}

func preserveGroup(req *structs.JobRegistration, g, was *nomad.TaskGroup) *nomad.TaskGroup {
	c := *g
	if req.PreserveCounts {
		c.Count = was.Count
	}
	if !req.PreserveResources {
		return &c
	}
	c.Tasks = slices.Clone(c.Tasks)
	for i, task := range c.Tasks {
		if k := slices.IndexFunc(was.Tasks, func(t *nomad.Task) bool { return t.Name == task.Name }); k >= 0 {
			changed := *task
			changed.Resources = was.Tasks[k].Resources
			c.Tasks[i] = &changed
		}
	}
	return &c
}
