package httpapi

import (
	"net/http"
	"strings"

	nomad "github.com/hashicorp/nomad/api"
)

// verbTag is what follows a job's ID in "/versions/NAME/tag", without the name.
const verbTag = "versions/tag"

// tagPath splits ":id/versions/NAME/tag".
func tagPath(rest string) (id, name string, is bool) {
	rest, is = strings.CutSuffix(rest, "/tag")
	slash := strings.LastIndexByte(rest, '/')
	if !is || slash < 0 {
		return "", "", false
	}
	id, is = strings.CutSuffix(rest[:slash], "/versions")
	return id, rest[slash+1:], is && id != ""
}

func (h *handler) revertJob(r *http.Request, q *query, id string) (any, error) {
	var req nomad.JobRevertRequest
	if err := decodeForJob(r, &req, func() string { return req.JobID }, id); err != nil {
		return nil, err
	}
	change, err := h.ControlPlane.RevertJob(q.namespace, id, req.JobVersion, req.EnforcePriorVersion)
	if err != nil {
		return nil, err
	}
	return jobRegistered(change), nil
}

func (h *handler) setJobStable(r *http.Request, q *query, id string) (any, error) {
	var req nomad.JobStabilityRequest
	if err := decodeForJob(r, &req, func() string { return req.JobID }, id); err != nil {
		return nil, err
	}
	index, err := h.ControlPlane.SetJobStable(q.namespace, id, req.JobVersion, req.Stable)
	if err != nil {
		return nil, err
	}
	return &nomad.JobStabilityResponse{JobModifyIndex: index, WriteMeta: nomad.WriteMeta{LastIndex: index}}, nil
}

// decodeForJob reads a request that names its job again, which has to be that of the path.
func decodeForJob(r *http.Request, into any, named func() string, id string) error {
	if err := decode(r, into); err != nil {
		return err
	}
	if name := named(); name != "" && name != id {
		return badRequest("Job ID does not match")
	}
	return nil
}

// tagged is the answer to a change of a version's tag, as Nomad's tools know it.
type tagged struct {
	nomad.JobVersionTag
	Index uint64
}

// tagVersion tags the version that the request names: version 0 where it does not say that
// it is the latest.
func (h *handler) tagVersion(r *http.Request, q *query) (any, error) {
	id, name, _ := tagPath(r.PathValue("rest"))
	var req nomad.TagVersionRequest
	if err := decode(r, &req); err != nil {
		return nil, err
	}
	version := &req.Version
	if req.Latest && req.Version == 0 {
		version = nil
	}
	tag, err := h.ControlPlane.TagJobVersion(q.namespace, id, version, name, req.Description)
	if err != nil {
		return nil, err
	}
	return &tagged{*tag, h.ControlPlane.Index(tableJobs)}, nil
}

func (h *handler) untagVersion(r *http.Request, q *query) (any, error) {
	id, name, _ := tagPath(r.PathValue("rest"))
	if err := h.ControlPlane.UntagJobVersion(q.namespace, id, name); err != nil {
		return nil, err
	}
	return &tagged{Index: h.ControlPlane.Index(tableJobs)}, nil
}
