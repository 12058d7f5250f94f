package httpapi

import (
	"cmp"
	"net/http"
	"slices"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/structs"
)

func (h *handler) allocationRoutes() {
	h.get("/v1/allocations", tableAllocations, h.listAllocations)
	h.get("/v1/allocation/{id}", tableAllocations, h.readAllocation)
	h.put("/v1/allocation/{id}/stop", h.stopAllocation)
}

func (h *handler) listAllocations(r *http.Request, q *query) (answer, error) {
	resources, err := boolParameter(r, "resources")
	if err != nil {
		return answer{}, err
	}
	states := true
	if r.URL.Query().Get("task_states") != "" {
		if states, err = boolParameter(r, "task_states"); err != nil {
			return answer{}, err
		}
	}
	allocs := slices.DeleteFunc(h.ControlPlane.Allocations(), func(a *structs.Allocation) bool {
		return !q.inNamespace(a.Namespace) || !q.hasUUIDPrefix(a.ID)
	})
	slices.SortFunc(allocs, func(a, b *structs.Allocation) int {
		return cmp.Or(cmp.Compare(a.CreateIndex, b.CreateIndex), cmp.Compare(a.ID, b.ID))
	})
	stubs, next, err := page(q, allocs,
		func(a *structs.Allocation) string { return a.ID },
		func(a *structs.Allocation) any { return allocation(a) },
		func(a *structs.Allocation) wireStub {
			stub := answeredStub(a)
			if resources {
				stub.AllocatedResources = allocatedResources(a)
			}
			if !states {
				stub.TaskStates = nil
			}
			return stub
		})
	return answer{body: stubs, next: next}, err
}

func (h *handler) readAllocation(r *http.Request, _ *query) (answer, error) {
	a := h.ControlPlane.Allocation(r.PathValue("id"))
	if a == nil {
		return answer{}, notFound("alloc not found")
	}
	return answer{body: answeredAllocation(a), index: a.ModifyIndex}, nil
}

func (h *handler) stopAllocation(r *http.Request) (any, error) {
	noDelay, err := boolParameter(r, "no_shutdown_delay")
	if err != nil {
		return nil, err
	}
	evalID, err := h.ControlPlane.StopAllocation(r.PathValue("id"), noDelay)
	if err != nil {
		return nil, err
	}
	return &nomad.AllocStopResponse{EvalID: evalID, WriteMeta: nomad.WriteMeta{LastIndex: h.evaluationIndex(evalID)}}, nil
}
