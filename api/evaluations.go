package api

import (
	"cmp"
	"net/http"
	"slices"

	"github.com/hashicorp/nomad/api"
)

func (h *handler) evaluationRoutes() {
	h.get("/v1/evaluations", tableEvaluations, h.listEvaluations)
	h.get("/v1/evaluation/{id}", tableEvaluations, h.readEvaluation)
	h.get("/v1/evaluation/{id}/allocations", tableAllocations, h.evaluationAllocations)
}

func (h *handler) listEvaluations(_ *http.Request, q *query) (answer, error) {
	evals := slices.DeleteFunc(h.ControlPlane.Evaluations(), func(e *api.Evaluation) bool {
		return !q.inNamespace(e.Namespace) || !q.hasUUIDPrefix(e.ID)
	})
	slices.SortFunc(evals, func(a, b *api.Evaluation) int {
		return cmp.Or(cmp.Compare(a.CreateIndex, b.CreateIndex), cmp.Compare(a.ID, b.ID))
	})
	all, next, err := page(q, evals,
		func(e *api.Evaluation) string { return e.ID },
		func(e *api.Evaluation) any { return e },
		func(e *api.Evaluation) *api.Evaluation { return e })
	return answer{body: all, next: next}, err
}

func (h *handler) readEvaluation(r *http.Request, _ *query) (answer, error) {
	e := h.ControlPlane.Evaluation(r.PathValue("id"))
	if e == nil {
		return answer{}, notFound("eval not found")
	}
	return answer{body: e, index: e.ModifyIndex}, nil
}

func (h *handler) evaluationAllocations(r *http.Request, _ *query) (answer, error) {
	stubs := []*api.AllocationListStub{}
	for _, a := range h.ControlPlane.Allocations() {
		if a.EvalID == r.PathValue("id") {
			stubs = append(stubs, allocationStub(a))
		}
	}
	return answer{body: stubs}, nil
}
