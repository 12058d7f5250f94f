package httpapi

import (
	"net/http"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/jobspec"
)

// parseJob reads a job file for whoever may register jobs. It reads no other files, and one
// file at a time: what its expressions compute is not bounded.
func (h *handler) parseJob(r *http.Request) (any, error) {
	var req nomad.JobsParseRequest
	if err := decode(r, &req); err != nil {
		return nil, err
	}
	if req.JobHCL == "" {
		return nil, badRequest("Job spec is empty")
	}
	o := jobspec.Options{Path: "input.hcl", Content: []byte(req.JobHCL)}
	if req.Variables != "" {
		o.VarFiles = []jobspec.File{{Path: "input.vars", Content: []byte(req.Variables)}}
	}
	select {
	case h.parsing <- struct{}{}:
		defer func() { <-h.parsing }()
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	job, err := jobspec.Parse(o)
	if err != nil {
		return nil, badRequest("Failed to parse job: %v", err)
	}
	if req.Canonicalize {
		job.Canonicalize()
	}
	return job, nil
}
