package httpapi

import (
	"cmp"
	"net/http"
	"slices"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/structs"
)

func (h *handler) evaluationRoutes() {
	h.get("/v1/evaluations", tableEvaluations, h.listEvaluations)
	h.get("/v1/evaluation/{id}", tableEvaluations, h.readEvaluation)
	h.get("/v1/evaluation/{id}/allocations", tableAllocations, h.evaluationAllocations)
}

func (h *handler) listEvaluations(_ *http.Request, q *query) (answer, error) {
	evals := slices.DeleteFunc(h.ControlPlane.Evaluations(), func(e *structs.Evaluation) bool {
		return !q.inNamespace(e.Namespace) || !q.hasUUIDPrefix(e.ID)
	})
	slices.SortFunc(evals, func(a, b *structs.Evaluation) int {
		return cmp.Or(cmp.Compare(a.CreateIndex, b.CreateIndex), cmp.Compare(a.ID, b.ID))
	})
	all, next, err := page(q, evals,
		func(e *structs.Evaluation) string { return e.ID },
		func(e *structs.Evaluation) any { return evaluation(e) },
		evaluation)
	return answer{body: all, next: next}, err
}

func (h *handler) readEvaluation(r *http.Request, _ *query) (answer, error) {
	e := h.ControlPlane.Evaluation(r.PathValue("id"))
	if e == nil {
		return answer{}, notFound("eval not found")
	}
	return answer{body: evaluation(e), index: e.ModifyIndex}, nil
}

func (h *handler) evaluationAllocations(r *http.Request, _ *query) (answer, error) {
	stubs := []*nomad.AllocationListStub{}
	for _, a := range h.ControlPlane.Allocations() {
		if a.EvalID == r.PathValue("id") {
			stubs = append(stubs, allocationStub(a))
		}
	}
	return answer{body: stubs}, nil
}
