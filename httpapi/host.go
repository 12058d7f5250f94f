package httpapi

import (
	"net/http"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/clientapi"
)

func (h *handler) hostRoutes() { h.method("/v1/agent/host", h.agentHost, http.MethodGet) }

// agentHost tells of the machine. Nomad has another form for who names an agent than for who
// does not.
func (h *handler) agentHost(w http.ResponseWriter, r *http.Request) error {
	if err := h.mayDebug(); err != nil {
		return err
	}
	if err := h.checkAgent(r); err != nil {
		return err
	}
	if h.Machine == nil {
		return noEndpoint(r)
	}
	data := clientapi.HostData(h.Machine())
	v := r.URL.Query()
	for _, id := range []string{v.Get("node_id"), v.Get("server_id")} {
		if id != "" {
			return h.reply(w, r, &nomad.HostDataResponse{AgentID: id, HostData: data})
		}
	}
	return h.reply(w, r, data)
}

// mayDebug refuses to show the inside of the agent and its machine where there are no ACLs,
// which would ask for a token that may do everything, unless the configuration has it shown.
func (h *handler) mayDebug() error {
	if h.ACL || h.Debug {
		return nil
	}
	return &statusError{http.StatusForbidden, "Permission denied: set enable_debug in the agent's configuration"}
}
