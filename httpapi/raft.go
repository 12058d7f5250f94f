package httpapi

import (
	"net/http"
	"slices"
	"time"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/structs"
)

// raftRoutes tell of the servers that agree with each other: there is one, this agent, which
// always leads. Nothing of it can be changed.
func (h *handler) raftRoutes() {
	h.get("/v1/operator/raft/configuration", tableNodes, h.raftConfiguration)
	h.get("/v1/operator/autopilot/configuration", tableNodes, autopilotConfiguration)
	h.get("/v1/operator/autopilot/health", tableNodes, h.autopilotHealth)
}

func (h *handler) serverName() string { return h.Agent.Name + "." + h.Agent.Region }

func (h *handler) raftConfiguration(*http.Request, *query) (answer, error) {
	return answer{body: &nomad.RaftConfiguration{Servers: []*nomad.RaftServer{{
		ID: h.Agent.NodeID, Node: h.serverName(), Address: h.Agent.Address, Leader: true, Voter: true, RaftProtocol: "3",
	}}}}, nil
}

// autopilotConfiguration is Nomad's default one: with one server, none of it has an effect.
func autopilotConfiguration(*http.Request, *query) (answer, error) {
	return answer{body: &nomad.AutopilotConfiguration{
		CleanupDeadServers: true, LastContactThreshold: 200 * time.Millisecond, MaxTrailingLogs: 250,
		ServerStabilizationTime: 10 * time.Second, CreateIndex: 1, ModifyIndex: 1,
	}}, nil
}

// healthy reports whether nothing keeps the server from deciding.
func (h *handler) healthy() bool {
	return !slices.ContainsFunc(h.Conditions(), func(c structs.Condition) bool { return c.Server && c.Unhealthy })
}

func (h *handler) autopilotHealth(*http.Request, *query) (answer, error) {
	healthy := h.healthy()
	return answer{body: &nomad.OperatorHealthReply{
		Healthy: healthy, Leader: h.Agent.NodeID, Voters: []string{h.Agent.NodeID},
		Servers: []nomad.ServerHealth{{
			ID: h.Agent.NodeID, Name: h.serverName(), Address: h.Agent.Address, SerfStatus: "alive", Version: h.Agent.Version,
			Leader: true, Voter: true, Healthy: healthy, LastContact: 0, LastTerm: 1, LastIndex: h.lastIndex(),
		}},
	}}, nil
}

// lastIndex is that of the last change of anything that is told of here.
func (h *handler) lastIndex() (last uint64) {
	for _, table := range []string{tableJobs, tableAllocations, tableEvaluations, tableNodes, tableDeployments} {
		last = max(last, h.ControlPlane.Index(table))
	}
	return last
}
