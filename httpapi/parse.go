package httpapi

import (
	"net/http"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/jobspec"
)

// parsesAtOnce bounds the processes that read job files: each may take 256 MB.
const parsesAtOnce = 2

// parseJob reads a job file for whoever may register jobs. It reads no other files, and what
// its expressions compute is bounded.
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
	job, err := jobspec.ParseApart(r.Context(), o, req.Canonicalize)
	switch {
	case r.Context().Err() != nil:
		return nil, r.Context().Err()
	case err != nil:
		return nil, badRequest("Failed to parse job: %v", err)
	}
	return job, nil
}
