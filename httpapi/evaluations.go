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
	h.get("/v1/evaluations/count", tableEvaluations, h.countEvaluations)
	h.method("/v1/evaluations", h.writing(h.deleteEvaluations), http.MethodDelete)
	h.get("/v1/evaluation/{id}", tableEvaluations, h.readEvaluation)
	h.get("/v1/evaluation/{id}/allocations", tableAllocations, h.evaluationAllocations)
}

func (h *handler) listEvaluations(r *http.Request, q *query) (answer, error) {
	all, next, err := page(q, h.evaluations(r, q),
		func(e *structs.Evaluation) string { return e.ID },
		func(e *structs.Evaluation) any { return evaluation(e) },
		answeredEvaluation)
	return answer{body: all, next: next}, err
}

// evaluations are those that a request asks for, before its filter.
func (h *handler) evaluations(r *http.Request, q *query) []*structs.Evaluation {
	job, status := r.URL.Query().Get("job"), r.URL.Query().Get("status")
	evals := slices.DeleteFunc(h.ControlPlane.Evaluations(), func(e *structs.Evaluation) bool {
		return !q.inNamespace(e.Namespace) || !q.hasUUIDPrefix(e.ID) ||
			job != "" && e.JobID != job || status != "" && string(e.Status) != status
	})
	slices.SortFunc(evals, func(a, b *structs.Evaluation) int {
		return cmp.Or(cmp.Compare(a.CreateIndex, b.CreateIndex), cmp.Compare(a.ID, b.ID))
	})
	return evals
}

func (h *handler) countEvaluations(r *http.Request, q *query) (answer, error) {
	count := 0
	for _, e := range h.evaluations(r, q) {
		is, err := q.matches(evaluation(e))
		if err != nil {
			return answer{}, err
		}
		if is {
			count++
		}
	}
	return answer{body: &nomad.EvalCountResponse{Count: count}}, nil
}

// evaluationsDeleted is the answer to a deletion, as Nomad's tools know it.
type evaluationsDeleted struct {
	Count int
	Index uint64
}

func (h *handler) deleteEvaluations(r *http.Request) (any, error) {
	var req nomad.EvalDeleteRequest
	if err := decode(r, &req); err != nil {
		return nil, err
	}
	var matches func(*structs.Evaluation) (bool, error)
	switch {
	case len(req.EvalIDs) > 0 && req.Filter != "":
		return nil, badRequest("evals cannot be deleted by both ID and filter")
	case req.Filter != "":
		q := &query{}
		if err := q.setFilter(req.Filter); err != nil {
			return nil, err
		}
		matches = func(e *structs.Evaluation) (bool, error) { return q.matches(evaluation(e)) }
	case len(req.EvalIDs) == 0:
		return nil, badRequest("evals must be deleted by either ID or filter")
	}
	count, err := h.ControlPlane.DeleteEvaluations(req.EvalIDs, matches)
	if err != nil {
		return nil, err
	}
	return &evaluationsDeleted{Count: count, Index: h.ControlPlane.Index(tableEvaluations)}, nil
}

func (h *handler) readEvaluation(r *http.Request, _ *query) (answer, error) {
	e := h.ControlPlane.Evaluation(r.PathValue("id"))
	if e == nil {
		return answer{}, notFound("eval not found")
	}
	out := answeredEvaluation(e)
	related, err := boolParameter(r, "related")
	if related {
		out.RelatedEvals = h.relatedEvaluations(e)
	}
	return answer{body: out, index: e.ModifyIndex}, err
}

// evaluationIndex is the index at which an evaluation was made; 0: it is gone.
func (h *handler) evaluationIndex(id string) uint64 {
	if e := h.ControlPlane.Evaluation(id); e != nil {
		return e.CreateIndex
	}
	return 0
}

// relatedEvaluations are those that led to an evaluation, or that it led to.
func (h *handler) relatedEvaluations(of *structs.Evaluation) []wireEvaluationStub {
	seen := map[string]bool{of.ID: true}
	var stubs []wireEvaluationStub
	for next := links(of); len(next) > 0; next = next[1:] {
		if seen[next[0]] {
			continue
		}
		seen[next[0]] = true
		if e := h.ControlPlane.Evaluation(next[0]); e != nil {
			stub := evaluationStub(e)
			stubs = append(stubs, wireEvaluationStub{stub, timeOrNull(stub.WaitUntil)})
			next = append(next, links(e)...)
		}
	}
	return stubs
}

func links(e *structs.Evaluation) []string {
	return []string{e.PreviousEval, e.NextEval, e.BlockedEval}
}

func (h *handler) evaluationAllocations(r *http.Request, _ *query) (answer, error) {
	stubs := []wireStub{}
	for _, a := range h.ControlPlane.EvaluationAllocations(r.PathValue("id")) {
		stubs = append(stubs, answeredStub(a))
	}
	return answer{body: stubs}, nil
}
