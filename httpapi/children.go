package httpapi

import (
	"net/http"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/structs"
)

// dispatchJob makes a child of a parameterized job.
func (h *handler) dispatchJob(r *http.Request, q *query, id string) (any, error) {
	var req nomad.JobDispatchRequest
	if err := decode(r, &req); err != nil {
		return nil, err
	}
	if req.JobID != "" && req.JobID != id {
		return nil, badRequest("Job ID does not match")
	}
	made, err := h.ControlPlane.DispatchJob(&structs.JobDispatch{
		Namespace: q.namespace, JobID: id, Payload: req.Payload, Meta: req.Meta, IDPrefix: req.IdPrefixTemplate,
		IdempotencyToken: r.URL.Query().Get("idempotency_token"), Priority: req.Priority,
	})
	if err != nil {
		return nil, err
	}
	return jobDispatched(made), nil
}

// forceJob launches a child of a periodic job.
func (h *handler) forceJob(q *query, id string) (any, error) {
	change, err := h.ControlPlane.ForcePeriodic(q.namespace, id)
	if err != nil {
		return nil, err
	}
	return &periodicForced{EvalID: change.EvalID, EvalCreateIndex: change.EvalCreateIndex, Index: change.LastIndex}, nil
}
