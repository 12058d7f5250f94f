package standalone

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/structs"
)

// What a parameterized job says of its payload.
const (
	payloadOptional  = "optional"
	payloadRequired  = "required"
	payloadForbidden = "forbidden"
)

const (
	// maxPayload bounds a payload, in bytes, as Nomad does.
	maxPayload = 16 << 10
	// maxChildID bounds the ID of what is dispatched, in bytes: it is a job's, and what is
	// added to that.
	maxChildID = 2 * maxNameLen
	// uniqueLen is how much of a UUID ends the ID of what is dispatched.
	uniqueLen = 8
)

// dispatchToken is what makes a dispatch the same as an earlier one.
type dispatchToken struct {
	parent jobKey
	token  string
}

func tokenOf(j *job) (dispatchToken, bool) {
	key, is := parentOf(j)
	token := structs.Deref(j.DispatchIdempotencyToken)
	return dispatchToken{key, token}, is && token != ""
}

// DispatchJob makes a child of a parameterized job, and evaluates it. Where a child of the
// same idempotency token is stored it is that one, and nothing is made. An unknown job is
// errdefs.NotFound, what it does not take an errdefs.InvalidArgument with Nomad's text.
func (cp *ControlPlane) DispatchJob(req *structs.JobDispatch) (*structs.JobDispatched, error) {
	out := &structs.JobDispatched{}
	err := cp.write(func(t *tx) error {
		key := jobKey{req.Namespace, req.JobID}
		j := t.jobs.get(key)
		switch {
		case j == nil:
			return notFound("parameterized job not found")
		case !isParameterized(j.Job):
			return invalid("Specified job %q is not a parameterized job", req.JobID)
		case *j.Stop:
			return invalid("Specified job %q is stopped", req.JobID)
		}
		if err := checkDispatch(req, j.Job); err != nil {
			return err
		}
		if req.IdempotencyToken != "" {
			if same := t.dispatched.in(dispatchToken{key, req.IdempotencyToken}); len(same) > 0 {
				out.JobID, out.JobCreateIndex, out.LastIndex = *same[0].ID, *same[0].CreateIndex, t.index
				return nil
			}
		}
		c, err := t.child(req, j)
		if err != nil {
			return err
		}
		t.newVersion(nil, c, nil)
		t.dispatch(c, out)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// dispatch evaluates a child, unless it is launched at times itself.
func (t *tx) dispatch(c *nomad.Job, out *structs.JobDispatched) {
	made := t.jobs.get(keyOf(c))
	out.JobID, out.JobCreateIndex, out.LastIndex = *made.ID, *made.CreateIndex, t.at()
	if isParent(made.Job) {
		t.refreshStatus(keyOf(c))
		return
	}
	e := t.newEval(made.Job, triggerRegister)
	e.JobModifyIndex = *made.JobModifyIndex
	t.evaluate(e, nil)
	out.EvalID, out.EvalCreateIndex = e.ID, e.CreateIndex
}

// checkDispatch has Nomad's texts.
func checkDispatch(req *structs.JobDispatch, j *nomad.Job) error {
	p := j.ParameterizedJob
	switch size := len(req.Payload); {
	case p.Payload == payloadRequired && size == 0:
		return invalid("Payload is not provided but required by parameterized job")
	case p.Payload == payloadForbidden && size > 0:
		return invalid("Payload provided but forbidden by parameterized job")
	case size > maxPayload:
		return invalid("Payload exceeds maximum size; %d > %d", size, maxPayload)
	}
	if req.Priority != 0 && (req.Priority < 1 || req.Priority > maxPriority) {
		return invalid("Job priority must be between [1, %d]: it is %d", maxPriority, req.Priority)
	}
	var unknown, missing []string
	for _, key := range slices.Sorted(maps.Keys(req.Meta)) {
		if !slices.Contains(p.MetaRequired, key) && !slices.Contains(p.MetaOptional, key) {
			unknown = append(unknown, key)
		}
	}
	if len(unknown) > 0 {
		return invalid("Dispatch request included unpermitted metadata keys: %v", unknown)
	}
	for _, key := range p.MetaRequired {
		if _, given := req.Meta[key]; !given {
			missing = append(missing, key)
		}
	}
	if len(missing) > 0 {
		return invalid("Dispatch did not provide required meta keys: %v", missing)
	}
	return nil
}

// child returns what a dispatch makes of a job. Only what differs is a copy.
func (t *tx) child(req *structs.JobDispatch, j *job) (*nomad.Job, error) {
	c := *t.version(j)
	prefix := ""
	if req.IDPrefix != "" {
		prefix = req.IDPrefix + "-"
	}
	id := fmt.Sprintf("%s%s%s%d-%s", req.JobID, nomad.JobDispatchLaunchSuffix, prefix, t.now.Unix(), t.cp.newID()[:uniqueLen])
	switch {
	case strings.ContainsAny(id, " \x00"):
		return nil, invalid("Job ID %q contains a space or a null character", id)
	case !printable(id):
		return nil, invalid("Job ID: %q has control characters", id)
	case len(id) > maxChildID:
		return nil, invalid("Job ID is longer than %d bytes", maxChildID)
	}
	c.ID, c.Name, c.ParentID = &id, &id, j.ID
	c.Dispatched, c.Payload, c.VersionTag = true, req.Payload, nil
	if req.IdempotencyToken != "" {
		c.DispatchIdempotencyToken = &req.IdempotencyToken
	}
	if req.Priority != 0 {
		c.Priority = &req.Priority
	}
	if len(req.Meta) > 0 {
		c.Meta = maps.Clone(c.Meta)
		if c.Meta == nil {
			c.Meta = map[string]string{}
		}
		maps.Copy(c.Meta, req.Meta)
	}
	return &c, nil
}
