package standalone

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"

	"github.com/google/uuid"
	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/controlplane/standalone/schedule"
	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/structs/errdefs"
)

const (
	// maxScalingEvents is how many scalings of a group are remembered (as in Nomad).
	maxScalingEvents = 20
	// maxScalingEvent bounds what is said of one, its message and meta, in bytes.
	maxScalingEvent = 16 << 10
)

// setScalings fills in what a control plane knows of a job's scaling policies. A policy's
// ID follows from the names of its job and group, so that it stays the same.
func setScalings(job *nomad.Job) {
	for _, g := range job.TaskGroups {
		p := g.Scaling
		if p == nil {
			continue
		}
		name := *job.Namespace + "\x00" + *job.ID + "\x00" + *g.Name
		p.ID = uuid.NewSHA1(uuid.NameSpaceOID, []byte(name)).String()
		p.Namespace, p.CreateIndex, p.ModifyIndex = "", 0, 0
		p.Target = map[string]string{"Namespace": *job.Namespace, "Job": *job.ID, "Group": *g.Name}
	}
}

// scaling validates a group's policy.
func (v *validation) scaling(g *nomad.TaskGroup) {
	p := g.Scaling
	if p == nil {
		return
	}
	least, most := structs.Deref(p.Min), structs.Deref(p.Max)
	switch {
	case p.Type != nomad.ScalingPolicyTypeHorizontal:
		v.fault("scaling: type: %q is not the type of a group's policy, which is %q", p.Type, nomad.ScalingPolicyTypeHorizontal)
	case p.Max == nil:
		v.fault("scaling: max: maximum count must be specified and non-negative")
	case most < 0:
		v.fault("scaling: max: maximum count must be specified and non-negative")
	case least < 0:
		v.fault("scaling: min: minimum count must be specified and non-negative")
	case most < least:
		v.fault("scaling: maximum count must not be less than minimum count")
	case int64(*g.Count) < least:
		v.fault("scaling: task group count must not be less than minimum count in scaling policy")
	case int64(*g.Count) > most:
		v.fault("scaling: task group count must not be greater than maximum count in scaling policy")
	}
}

// ScaleJob gives a group of a job another count, or only remembers what is said of its
// scaling where the request has none. An unknown job is errdefs.NotFound; what the job's
// or the group's bounds do not allow, a job of a type that has no counts and a stopped one
// are errdefs.InvalidArgument, another index than the request's errdefs.FailedPrecondition.
func (cp *ControlPlane) ScaleJob(namespace, id string, req *nomad.ScalingRequest) (*structs.JobChange, error) {
	if err := checkScaling(req); err != nil {
		return nil, err
	}
	out := &structs.JobChange{}
	err := cp.write(func(t *tx) error {
		j := t.jobs.get(jobKey{namespace, id})
		if j == nil {
			return notFound("job %q not found", id)
		}
		group := req.Target["Group"]
		g := j.LookupTaskGroup(group)
		if g == nil {
			return invalid("task group %q specified for scaling does not exist in job", group)
		}
		event := nomad.ScalingEvent{
			Count: req.Count, PreviousCount: int64(*g.Count), Error: req.Error, Message: req.Message, Meta: req.Meta,
			Time: uint64(t.now.UnixNano()),
		}
		out.JobModifyIndex = *j.JobModifyIndex
		if req.Count != nil {
			if err := j.scalable(g, req); err != nil {
				return err
			}
			if d := t.deploymentOf(keyOf(j.Job)); d != nil && d.Active() {
				return errdefs.New(errdefs.FailedPrecondition, "job scaling blocked due to active deployment")
			}
			if err := t.scale(j, group, int(*req.Count), out); err != nil {
				return err
			}
			event.EvalID = new(out.EvalID)
		}
		event.CreateIndex = t.at()
		t.remember(jobKey{namespace, id}, group, event)
		out.LastIndex = t.at()
		return nil
	})
	return out, err
}

// checkScaling checks a request by itself.
func checkScaling(req *nomad.ScalingRequest) error {
	said, err := json.Marshal(req.Meta)
	if err != nil {
		return invalid("scaling action meta: %v", err)
	}
	switch {
	case req.Target["Group"] == "":
		return invalid("missing task group name for scaling action")
	case req.Count != nil && req.Error:
		return invalid("scaling action should not contain count if error is true")
	case req.Count != nil && *req.Count < 0:
		return invalid("scaling action count can't be negative")
	case len(said)+len(req.Message) > maxScalingEvent:
		return invalid("scaling action message and meta are larger than %d bytes", maxScalingEvent)
	}
	return nil
}

// scalable checks a new count against the job.
func (j *job) scalable(g *nomad.TaskGroup, req *nomad.ScalingRequest) error {
	n, others := *req.Count, 0
	for _, other := range j.TaskGroups {
		if other != g {
			others += *other.Count
		}
	}
	switch p := g.Scaling; {
	case schedule.PerNode(j.Job):
		return invalid("cannot scale jobs of type %q", *j.Type)
	case *j.Stop:
		return invalid("cannot scale a job that is stopped: start it first")
	case req.JobModifyIndex != 0 && req.JobModifyIndex != *j.JobModifyIndex:
		return errdefs.New(errdefs.FailedPrecondition, "%s %d: job exists with conflicting job modify index: %d",
			nomad.RegisterEnforceIndexErrPrefix, req.JobModifyIndex, *j.JobModifyIndex)
	case p != nil && p.Max != nil && n > *p.Max:
		return invalid("group count was greater than scaling policy maximum: %d > %d", n, *p.Max)
	case p != nil && p.Min != nil && n < *p.Min:
		return invalid("group count was less than scaling policy minimum: %d < %d", n, *p.Min)
	case n > int64(maxCount-others):
		return invalid("count: a job has at most %d allocations: its groups ask for more", maxCount)
	}
	return nil
}

// scale registers a job with another count of a group.
func (t *tx) scale(j *job, group string, count int, out *structs.JobChange) error {
	scaled := *j.Job
	scaled.TaskGroups = slices.Clone(j.TaskGroups)
	for i, g := range scaled.TaskGroups {
		if *g.Name == group {
			changed := *g
			changed.Count = &count
			scaled.TaskGroups[i] = &changed
		}
	}
	return t.register(&structs.JobRegistration{Job: &scaled, Submission: t.submission(j)}, triggerScaling, out)
}

// remember keeps a scaling of a group.
func (t *tx) remember(key jobKey, group string, event nomad.ScalingEvent) {
	j := t.jobs.get(key)
	row := j.with(j.Job)
	row.scalings = maps.Clone(j.scalings)
	if row.scalings == nil {
		row.scalings = map[string][]nomad.ScalingEvent{}
	}
	events := append([]nomad.ScalingEvent{event}, row.scalings[group]...)
	row.scalings[group] = events[:min(len(events), maxScalingEvents)]
	t.putJob(row)
}

// JobScalings returns a job's last scalings by group, newest first.
func (cp *ControlPlane) JobScalings(namespace, id string) map[string][]nomad.ScalingEvent {
	return read(cp, func(t *tables) map[string][]nomad.ScalingEvent {
		if j := t.jobs[jobKey{namespace, id}]; j != nil {
			return j.scalings
		}
		return nil
	})
}

// ScalingPolicies returns the policies of the jobs that are not stopped, by ID.
func (cp *ControlPlane) ScalingPolicies() []*nomad.ScalingPolicy {
	list := read(cp, func(t *tables) (list []*nomad.ScalingPolicy) {
		for _, j := range t.jobs {
			list = append(list, policiesOf(j)...)
		}
		return list
	})
	slices.SortFunc(list, func(a, b *nomad.ScalingPolicy) int { return cmp.Compare(a.ID, b.ID) })
	return list
}

func policiesOf(j *job) (list []*nomad.ScalingPolicy) {
	if *j.Stop {
		return nil
	}
	for _, g := range j.TaskGroups {
		if g.Scaling == nil {
			continue
		}
		p := *g.Scaling
		p.Namespace, p.CreateIndex, p.ModifyIndex = *j.Namespace, *j.CreateIndex, *j.JobModifyIndex
		list = append(list, &p)
	}
	return list
}
