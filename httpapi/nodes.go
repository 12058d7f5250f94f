package httpapi

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/structs"
)

func (h *handler) nodeRoutes() {
	h.get("/v1/nodes", tableNodes, h.listNodes)
	h.get("/v1/node/pools", tableNodes, h.listPools)
	h.get("/v1/node/{id}", tableNodes, h.readNode)
	h.get("/v1/node/{id}/allocations", tableAllocations, h.nodeAllocations)
	h.put("/v1/node/{id}/eligibility", h.setEligibility)
	h.put("/v1/node/{id}/drain", h.setDrain)
}

func (h *handler) listNodes(r *http.Request, q *query) (answer, error) {
	system, err := boolParameter(r, "os")
	if err != nil {
		return answer{}, err
	}
	nodes := slices.DeleteFunc(h.ControlPlane.Nodes(), func(n *structs.Node) bool { return !q.hasUUIDPrefix(n.ID) })
	slices.SortFunc(nodes, func(a, b *structs.Node) int { return cmp.Compare(a.ID, b.ID) })
	stubs, next, err := page(q, nodes,
		func(n *structs.Node) string { return n.ID },
		func(n *structs.Node) any { return node(n) },
		func(n *structs.Node) *nomad.NodeListStub {
			stub := nodeStub(n)
			if system {
				stub.Attributes = map[string]string{"os.name": n.Attributes["os.name"]}
			}
			return stub
		})
	return answer{body: stubs, next: next}, err
}

// pools are the names of the pools that have nodes, sorted.
func (h *handler) pools() (names []string) {
	for _, n := range h.ControlPlane.Nodes() {
		names = append(names, n.Pool)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// listPools lists the pools that have nodes.
func (h *handler) listPools(_ *http.Request, q *query) (answer, error) {
	names := slices.DeleteFunc(h.pools(), func(name string) bool { return !strings.HasPrefix(name, q.prefix) })
	pool := func(name string) *nomad.NodePool { return &nomad.NodePool{Name: name} }
	pools, next, err := page(q, names,
		func(name string) string { return name },
		func(name string) any { return pool(name) },
		pool)
	return answer{body: pools, next: next}, err
}

func (h *handler) readNode(r *http.Request, _ *query) (answer, error) {
	n := h.ControlPlane.Node(r.PathValue("id"))
	if n == nil {
		return answer{}, notFound("node not found")
	}
	return answer{body: node(n), index: n.ModifyIndex}, nil
}

func (h *handler) nodeAllocations(r *http.Request, _ *query) (answer, error) {
	full := []*nomad.Allocation{}
	for _, a := range h.ControlPlane.Allocations() {
		if a.NodeID == r.PathValue("id") {
			full = append(full, allocation(a))
		}
	}
	return answer{body: full}, nil
}

func (h *handler) setEligibility(r *http.Request) (any, error) {
	var req nomad.NodeUpdateEligibilityRequest
	if err := decode(r, &req); err != nil {
		return nil, err
	}
	c, err := h.ControlPlane.SetEligibility(r.PathValue("id"), req.Eligibility)
	if err != nil {
		return nil, err
	}
	return &nomad.NodeEligibilityUpdateResponse{NodeModifyIndex: c.NodeModifyIndex, EvalIDs: c.EvalIDs, EvalCreateIndex: c.EvalCreateIndex}, nil
}

// setDrain begins, changes or ends a drain.
func (h *handler) setDrain(r *http.Request) (any, error) {
	var req nomad.NodeUpdateDrainRequest
	if err := decode(r, &req); err != nil {
		return nil, err
	}
	drain := &structs.DrainRequest{NodeID: r.PathValue("id"), MarkEligible: req.MarkEligible, Meta: req.Meta}
	if req.DrainSpec != nil {
		drain.Drain = &structs.Drain{Deadline: req.DrainSpec.Deadline, IgnoreSystemJobs: req.DrainSpec.IgnoreSystemJobs}
	}
	c, err := h.ControlPlane.SetDrain(drain)
	if err != nil {
		return nil, err
	}
	return &nomad.NodeDrainUpdateResponse{NodeModifyIndex: c.NodeModifyIndex, EvalIDs: c.EvalIDs, EvalCreateIndex: c.EvalCreateIndex}, nil
}
