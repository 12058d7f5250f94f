package httpapi

import (
	"cmp"
	"encoding/json"
	"net"
	"net/http"
	"strings"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/hashicorp/nomad/api/contexts"
)

func (h *handler) agentRoutes() {
	h.get("/v1/agent/self", tableNodes, h.agentSelf)
	h.get("/v1/agent/health", tableNodes, h.agentHealth)
	h.get("/v1/agent/members", tableNodes, h.agentMembers)
	h.get("/v1/agent/plugins", tableNodes, func(*http.Request, *query) (answer, error) {
		return answer{body: h.Plugins.Status()}, nil
	})
	h.get("/v1/status/leader", tableNodes, func(*http.Request, *query) (answer, error) {
		return answer{body: h.Agent.Address}, nil
	})
	h.get("/v1/regions", tableNodes, func(*http.Request, *query) (answer, error) {
		return answer{body: []string{h.Agent.Region}}, nil
	})
	h.get("/v1/namespaces", tableNodes, listNamespaces)
	// There is none of these here, and Nomad's command line asks for their lists.
	for _, kind := range []string{"services", "vars", "volumes"} {
		h.get("/v1/"+kind, tableJobs, func(*http.Request, *query) (answer, error) {
			return answer{body: []any{}}, nil
		})
	}
	h.put("/v1/system/gc", h.collectGarbage)
	h.put("/v1/search", h.search)
}

// listNamespaces lists the only one.
func listNamespaces(_ *http.Request, q *query) (answer, error) {
	var names []string
	if strings.HasPrefix(nomad.DefaultNamespace, q.prefix) {
		names = append(names, nomad.DefaultNamespace)
	}
	namespace := func(name string) *nomad.Namespace {
		return &nomad.Namespace{Name: name, Description: "Default shared namespace"}
	}
	all, next, err := page(q, names,
		func(name string) string { return name },
		func(name string) any { return namespace(name) },
		namespace)
	return answer{body: all, next: next}, err
}

func (h *handler) member() nomad.AgentMember {
	address, _, err := net.SplitHostPort(h.Agent.Address)
	if err != nil {
		address = "127.0.0.1" // it is asked on a socket of this machine
	}
	return nomad.AgentMember{
		Name:   h.Agent.Name + "." + h.Agent.Region,
		Addr:   address,
		Status: "alive",
		Tags:   map[string]string{"build": h.Agent.Version, "dc": h.Agent.Datacenter, "region": h.Agent.Region},
	}
}

func (h *handler) agentSelf(*http.Request, *query) (answer, error) {
	return answer{body: &nomad.AgentSelf{
		Config: map[string]any{
			"Region":     h.Agent.Region,
			"Datacenter": h.Agent.Datacenter,
			"Version":    map[string]any{"Version": h.Agent.Version},
			"ACL":        map[string]any{"Enabled": h.ACL},
			// Nomad's command line prints links to a web page unless told not to.
			"UI": map[string]any{"Enabled": false, "ShowCLIHints": false},
		},
		Member: h.member(),
		Stats: map[string]map[string]string{
			"client":   {"node_id": h.Agent.NodeID},
			"wasmnode": {"version": h.Agent.Version},
		},
	}}, nil
}

// agentHealth tells all conditions of the agent, of the client and of the control plane
// apart, each in Nomad's one message, or of one of the two. Like Nomad's, it is a 500 when one is not healthy.
func (h *handler) agentHealth(r *http.Request, _ *query) (answer, error) {
	client, server := nomad.AgentHealth{Ok: true}, nomad.AgentHealth{Ok: true}
	for _, c := range h.Conditions() {
		part := &client
		if c.Server {
			part = &server
		}
		part.Ok = part.Ok && !c.Unhealthy
		if part.Message != "" {
			part.Message += "; "
		}
		part.Message += c.Text
	}
	for _, part := range []*nomad.AgentHealth{&client, &server} {
		part.Message = cmp.Or(part.Message, "ok")
	}
	health := &nomad.AgentHealthResponse{Client: &client, Server: &server}
	switch kind := r.URL.Query().Get("type"); kind {
	case "":
	case "client":
		health.Server, server.Ok = nil, true
	case "server":
		health.Client, client.Ok = nil, true
	default:
		return answer{}, badRequest("type: %q is neither client nor server", kind)
	}
	if client.Ok && server.Ok {
		return answer{body: health}, nil
	}
	text, err := json.Marshal(health)
	if err != nil {
		return answer{}, err
	}
	return answer{}, &statusError{http.StatusInternalServerError, string(text)}
}

func (h *handler) agentMembers(*http.Request, *query) (answer, error) {
	m := h.member()
	return answer{body: &nomad.ServerMembers{
		ServerName:   h.Agent.Name,
		ServerRegion: h.Agent.Region,
		ServerDC:     h.Agent.Datacenter,
		Members:      []*nomad.AgentMember{&m},
	}}, nil
}

func (h *handler) collectGarbage(r *http.Request) (any, error) {
	h.ControlPlane.CollectGarbage()
	h.Node.CollectGarbage(r.Context())
	return struct{}{}, nil
}

// maxMatches bounds a search's answer per kind, as in Nomad.
const maxMatches = 20

// search finds things by a prefix of their ID.
func (h *handler) search(r *http.Request) (any, error) {
	var req nomad.SearchRequest
	if err := decode(r, &req); err != nil {
		return nil, err
	}
	q := &query{prefix: req.Prefix}
	out := &nomad.SearchResponse{Matches: map[contexts.Context][]string{}, Truncations: map[contexts.Context]bool{}}
	add := func(kind contexts.Context, id string, matches bool) {
		if !matches || req.Context != contexts.All && req.Context != "" && req.Context != kind {
			return
		}
		if len(out.Matches[kind]) == maxMatches {
			out.Truncations[kind] = true
			return
		}
		out.Matches[kind] = append(out.Matches[kind], id)
	}
	for _, j := range h.ControlPlane.Jobs() {
		add(contexts.Jobs, *j.ID, strings.HasPrefix(*j.ID, req.Prefix))
	}
	for _, a := range h.ControlPlane.Allocations() {
		add(contexts.Allocs, a.ID, q.hasUUIDPrefix(a.ID))
	}
	for _, e := range h.ControlPlane.Evaluations() {
		add(contexts.Evals, e.ID, q.hasUUIDPrefix(e.ID))
	}
	for _, d := range h.ControlPlane.Deployments() {
		add(contexts.Deployments, d.ID, q.hasUUIDPrefix(d.ID))
	}
	for _, n := range h.ControlPlane.Nodes() {
		add(contexts.Nodes, n.ID, q.hasUUIDPrefix(n.ID))
	}
	return out, nil
}
