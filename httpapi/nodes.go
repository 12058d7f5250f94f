package httpapi

import (
	"cmp"
	"net/http"
	"slices"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/structs"
)

func (h *handler) nodeRoutes() {
	h.get("/v1/nodes", tableNodes, h.listNodes)
	h.get("/v1/node/{id}", tableNodes, h.readNode)
	h.get("/v1/node/{id}/{verb}", tableAllocations, h.nodeAllocations)
	h.put("/v1/node/{id}/{verb}", h.changeNode)
}

// changeNode does what follows the node's ID. It is not part of the patterns because these
// could not be told from those of node pools then.
func (h *handler) changeNode(r *http.Request) (any, error) {
	switch r.PathValue("verb") {
	case "eligibility":
		return h.setEligibility(r)
	case "drain":
		return h.setDrain(r)
	case "purge":
		return h.purgeNode(r)
	case "evaluate":
		return h.evaluateNode(r)
	case "allocations":
		return nil, &statusError{http.StatusMethodNotAllowed, "Invalid method"}
	}
	return nil, noEndpoint(r)
}

func (h *handler) listNodes(r *http.Request, q *query) (answer, error) {
	return h.nodesWhere(r, q, func(*structs.Node) bool { return true })
}

// nodesWhere lists the nodes that are wanted.
func (h *handler) nodesWhere(r *http.Request, q *query, wanted func(*structs.Node) bool) (answer, error) {
	system, err := boolParameter(r, "os")
	if err != nil {
		return answer{}, err
	}
	resources, err := boolParameter(r, "resources")
	if err != nil {
		return answer{}, err
	}
	nodes := slices.DeleteFunc(h.ControlPlane.Nodes(), func(n *structs.Node) bool { return !q.hasUUIDPrefix(n.ID) || !wanted(n) })
	slices.SortFunc(nodes, func(a, b *structs.Node) int { return cmp.Compare(a.ID, b.ID) })
	stubs, next, err := page(q, nodes,
		func(n *structs.Node) string { return n.ID },
		func(n *structs.Node) any { return node(n) },
		func(n *structs.Node) wireNodeStub {
			stub := nodeStub(n)
			if resources {
				stub.NodeResources, stub.ReservedResources = nodeResources(n), reservedResources(n)
			}
			if system {
				stub.Attributes = map[string]string{"os.name": n.Attributes["os.name"]}
			}
			return wireNodeStub{stub, hostVolumes(n.HostVolumes)}
		})
	return answer{body: stubs, next: next}, err
}

func (h *handler) readNode(r *http.Request, _ *query) (answer, error) {
	n := h.ControlPlane.Node(r.PathValue("id"))
	if n == nil {
		return answer{}, notFound("node not found")
	}
	return answer{body: answeredNode(n), index: n.ModifyIndex}, nil
}

func (h *handler) nodeAllocations(r *http.Request, q *query) (answer, error) {
	switch r.PathValue("verb") {
	case "allocations":
	case "eligibility", "drain", "purge", "evaluate":
		return answer{}, &statusError{http.StatusMethodNotAllowed, "Invalid method"}
	default:
		return answer{}, noEndpoint(r)
	}
	full := []wireAllocation{}
	for _, a := range h.ControlPlane.NodeAllocations(r.PathValue("id")) {
		if q.caller.readsJobs(a.Namespace) {
			full = append(full, answeredAllocation(a))
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
	return indexed{&nomad.NodeEligibilityUpdateResponse{
		NodeModifyIndex: c.NodeModifyIndex, EvalIDs: notNull(c.EvalIDs), EvalCreateIndex: c.EvalCreateIndex,
	}, c.NodeModifyIndex}, nil
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
	caller, err := h.policy.Caller(r)
	if err != nil {
		return nil, err
	}
	if caller.Token != nil {
		drain.AccessorID = caller.Token.AccessorID
	}
	c, err := h.ControlPlane.SetDrain(drain)
	if err != nil {
		return nil, err
	}
	return indexed{&nomad.NodeDrainUpdateResponse{
		NodeModifyIndex: c.NodeModifyIndex, EvalIDs: notNull(c.EvalIDs), EvalCreateIndex: c.EvalCreateIndex,
	}, c.NodeModifyIndex}, nil
}

func (h *handler) purgeNode(r *http.Request) (any, error) {
	c, err := h.ControlPlane.PurgeNode(r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	return indexed{&nomad.NodePurgeResponse{
		EvalIDs: notNull(c.EvalIDs), EvalCreateIndex: c.EvalCreateIndex, NodeModifyIndex: c.NodeModifyIndex,
	}, c.NodeModifyIndex}, nil
}

// notNull is a list that is [] in JSON where there is nothing in it.
func notNull(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}

// evaluateNode answers with the list of evaluations that Nomad's servers send, and the first
// of them under the name that Nomad's Go client reads.
func (h *handler) evaluateNode(r *http.Request) (any, error) {
	c, err := h.ControlPlane.EvaluateNode(r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	first := ""
	if len(c.EvalIDs) > 0 {
		first = c.EvalIDs[0]
	}
	return map[string]any{
		"EvalID": first, "EvalIDs": c.EvalIDs, "EvalCreateIndex": c.EvalCreateIndex, "NodeModifyIndex": c.NodeModifyIndex,
	}, nil
}
