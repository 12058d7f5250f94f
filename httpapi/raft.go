package httpapi

import (
	"net/http"
	"slices"
	"strconv"
	"time"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/structs"
)

// raftRoutes tell of the servers that agree with each other: there is one, this agent, which
// always leads. What would change that is refused, and what would leave it as it is is done.
func (h *handler) raftRoutes() {
	h.get("/v1/operator/raft/configuration", tableNodes, h.raftConfiguration)
	h.method("/v1/operator/raft/peer", h.writing(h.removePeer), http.MethodDelete)
	h.put("/v1/operator/raft/transfer-leadership", h.transferLeadership)
	h.get("/v1/operator/autopilot/configuration", tableNodes, func(*http.Request, *query) (answer, error) {
		return answer{body: autopilotConfiguration()}, nil
	})
	h.put("/v1/operator/autopilot/configuration", h.configureAutopilot)
	h.method("/v1/operator/autopilot/health", h.autopilotHealth, http.MethodGet)
}

func (h *handler) serverName() string { return h.Agent.Name + "." + h.Agent.Region }

func (h *handler) raftConfiguration(*http.Request, *query) (answer, error) {
	self := h.raftServer()
	return answer{body: &nomad.RaftConfiguration{Servers: []*nomad.RaftServer{&self}}}, nil
}

func (h *handler) raftServer() nomad.RaftServer {
	return nomad.RaftServer{ID: h.Agent.NodeID, Node: h.serverName(), Address: h.Agent.Address, Leader: true, Voter: true, RaftProtocol: "3"}
}

// removePeer refuses what a person asks for: the one server cannot be removed, and there is no
// other.
func (h *handler) removePeer(r *http.Request) (any, error) {
	v := r.URL.Query()
	switch id := v.Get("id"); {
	case v.Has("address"):
		return nil, badRequest("Removing a peer by address is not supported in the current raft protocol version")
	case !v.Has("id"):
		return nil, badRequest("Must specify the peer's ID to remove")
	case id != h.Agent.NodeID:
		return nil, noPeer("id", id)
	}
	return nil, badRequest("the only server cannot be removed: to end it, end the agent")
}

func noPeer(by, name string) error {
	return badRequest("%s %q was not found in the Raft configuration", by, name)
}

// transferLeadership does nothing for the server that leads.
func (h *handler) transferLeadership(r *http.Request) (any, error) {
	v := r.URL.Query()
	ids, addresses := v["id"], v["address"]
	switch {
	case len(ids)+len(addresses) == 0:
		return nil, badRequest("must specify id or address")
	case len(ids) > 0 && len(addresses) > 0:
		return nil, badRequest("must specify either id or address")
	case len(ids) > 1:
		return nil, badRequest("must specify only one id")
	case len(addresses) > 1:
		return nil, badRequest("must specify only one address")
	case len(ids) == 1 && ids[0] != h.Agent.NodeID:
		return nil, noPeer("id", ids[0])
	case len(addresses) == 1 && addresses[0] != h.Agent.Address:
		return nil, noPeer("address", addresses[0])
	}
	self := h.raftServer()
	return &nomad.LeadershipTransferResponse{From: self, To: self, Noop: true}, nil
}

// autopilotConfiguration is Nomad's default one: with one server, none of it has an effect.
func autopilotConfiguration() *nomad.AutopilotConfiguration {
	return &nomad.AutopilotConfiguration{
		CleanupDeadServers: true, LastContactThreshold: 200 * time.Millisecond, MaxTrailingLogs: 250,
		ServerStabilizationTime: 10 * time.Second, CreateIndex: 1, ModifyIndex: 1,
	}
}

// configureAutopilot takes the configuration that there is, and no other.
func (h *handler) configureAutopilot(r *http.Request) (any, error) {
	wanted, is := autopilotConfiguration(), autopilotConfiguration()
	if err := decode(r, wanted); err != nil {
		return nil, err
	}
	switch expected, err := expectedIndex(r); {
	case err != nil:
		return nil, err
	case expected != nil && *expected != is.ModifyIndex:
		return false, nil
	}
	wanted.CreateIndex, wanted.ModifyIndex = is.CreateIndex, is.ModifyIndex
	if *wanted != *is {
		return nil, badRequest("autopilot looks after several servers: there is one, and its configuration cannot be changed")
	}
	return true, nil
}

// expectedIndex is that of the configuration which a request changes; nil: it changes any.
func expectedIndex(r *http.Request) (*uint64, error) {
	if !r.URL.Query().Has("cas") {
		return nil, nil
	}
	index, err := strconv.ParseUint(r.URL.Query().Get("cas"), 10, 64)
	if err != nil {
		return nil, badRequest("Error parsing cas value: %v", err)
	}
	return &index, nil
}

// healthy reports whether nothing keeps the server from deciding.
func (h *handler) healthy() bool {
	return !slices.ContainsFunc(h.Conditions(), func(c structs.Condition) bool { return c.Server && c.Unhealthy })
}

// autopilotHealth is, like Nomad's, a 429 when the server is not healthy.
func (h *handler) autopilotHealth(w http.ResponseWriter, r *http.Request) error {
	healthy := h.healthy()
	out, err := encode(r, &nomad.OperatorHealthReply{
		Healthy: healthy, Leader: h.Agent.NodeID, Voters: []string{h.Agent.NodeID},
		Servers: []nomad.ServerHealth{{
			ID: h.Agent.NodeID, Name: h.serverName(), Address: h.Agent.Address, SerfStatus: "alive", Version: h.Agent.Version,
			Leader: true, Voter: true, Healthy: healthy, LastContact: 0, LastTerm: 1, LastIndex: h.lastIndex(),
			StableSince: h.started.Round(time.Second).UTC(),
		}},
	})
	if err != nil {
		return err
	}
	if !healthy {
		out.status = http.StatusTooManyRequests
	}
	return h.send(w, out)
}

// lastIndex is that of the last change of anything.
func (h *handler) lastIndex() (last uint64) {
	for _, table := range tables {
		last = max(last, h.ControlPlane.Index(table))
	}
	return last
}
