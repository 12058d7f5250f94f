package httpapi

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/structs"
)

func (h *handler) poolRoutes() {
	h.get("/v1/node/pools", tableNodePools, h.listPools)
	h.put("/v1/node/pools", h.putPool)
	h.get("/v1/node/pool/{pool}", tableNodePools, h.readPool)
	h.put("/v1/node/pool/{pool}", h.putPool)
	h.method("/v1/node/pool/{pool}", h.writing(h.deletePool), http.MethodDelete)
	h.get("/v1/node/pool/{pool}/nodes", tableNodes, h.poolNodes)
	h.get("/v1/node/pool/{pool}/jobs", tableJobs, h.poolJobs)
}

// listPools lists those that the caller may read.
func (h *handler) listPools(_ *http.Request, q *query) (answer, error) {
	pools := slices.DeleteFunc(h.ControlPlane.NodePools(), func(p *nomad.NodePool) bool {
		return !strings.HasPrefix(p.Name, q.prefix) || !q.caller.seesPool(p.Name)
	})
	slices.SortFunc(pools, func(a, b *nomad.NodePool) int { return cmp.Compare(a.Name, b.Name) })
	list, next, err := page(q, pools,
		func(p *nomad.NodePool) string { return p.Name },
		func(p *nomad.NodePool) any { return p },
		answeredPool)
	return answer{body: list, next: next}, err
}

// pool finds the node pool of a request.
func (h *handler) pool(r *http.Request) (*nomad.NodePool, error) {
	p := h.ControlPlane.NodePool(r.PathValue("pool"))
	if p == nil {
		return nil, notFound("node pool not found")
	}
	return p, nil
}

func (h *handler) readPool(r *http.Request, _ *query) (answer, error) {
	p, err := h.pool(r)
	if err != nil {
		return answer{}, err
	}
	return answer{body: answeredPool(p), index: p.ModifyIndex}, nil
}

func (h *handler) putPool(r *http.Request) (any, error) {
	var p nomad.NodePool
	if err := decode(r, &p); err != nil {
		return nil, err
	}
	if name := r.PathValue("pool"); name != "" && p.Name != name {
		return nil, badRequest("Node pool name does not match request path")
	}
	if err := h.ControlPlane.PutNodePool(p); err != nil {
		return nil, err
	}
	return struct{}{}, nil
}

func (h *handler) deletePool(r *http.Request) (any, error) {
	return struct{}{}, h.ControlPlane.DeleteNodePool(r.PathValue("pool"))
}

func (h *handler) poolNodes(r *http.Request, q *query) (answer, error) {
	p, err := h.pool(r)
	if err != nil {
		return answer{}, err
	}
	return h.nodesWhere(r, q, func(n *structs.Node) bool {
		return p.Name == nomad.NodePoolAll || cmp.Or(n.Pool, nomad.NodePoolDefault) == p.Name
	})
}

func (h *handler) poolJobs(r *http.Request, q *query) (answer, error) {
	p, err := h.pool(r)
	if err != nil {
		return answer{}, err
	}
	return h.jobsWhere(r, q, func(j *nomad.Job) bool { return structs.Deref(j.NodePool) == p.Name })
}
