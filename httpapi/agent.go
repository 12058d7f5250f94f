package httpapi

import (
	"cmp"
	"encoding/json"
	"net"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"time"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/internal/absent"
	"github.com/wasmnode/wasmnode/structs"
)

func (h *handler) agentRoutes() {
	h.get("/v1/agent/self", tableNodes, h.agentSelf)
	h.get("/v1/agent/health", tableNodes, h.agentHealth)
	h.get("/v1/agent/members", tableNodes, h.agentMembers)
	h.get("/v1/status/leader", tableNodes, func(*http.Request, *query) (answer, error) {
		return answer{body: h.Agent.Address}, nil
	})
	h.get("/v1/status/peers", tableNodes, h.servers)
	h.get("/v1/agent/servers", tableNodes, h.servers)
	h.get("/v1/regions", tableNodes, func(*http.Request, *query) (answer, error) {
		return answer{body: []string{h.Agent.Region}}, nil
	})
	h.put("/v1/system/gc", h.collectGarbage)
	h.put("/v1/system/reconcile/summaries", func(*http.Request) (any, error) {
		return struct{}{}, nil // they are counted whenever they are read
	})
	h.put("/v1/agent/reload", h.reload)
	for _, path := range []string{"/v1/agent/join", "/v1/agent/force-leave", "/v1/agent/servers"} {
		h.put(path, func(*http.Request) (any, error) {
			if h.Servers != nil {
				return nil, badRequest("the servers of a client stand in its configuration, client.servers, and are learned from those")
			}
			return nil, badRequest(absent.Peers)
		})
	}
	h.gossipRoutes()
	h.workerRoutes()
}

// reload has the agent read its configuration again, and tells what is wrong with it.
func (h *handler) reload(r *http.Request) (any, error) {
	if h.Reload == nil {
		return nil, noEndpoint(r)
	}
	if err := h.Reload(r.Context()); err != nil {
		return nil, badRequest("the configuration was not reloaded, the one before stays in force: %v", err)
	}
	return struct{}{}, nil
}

// gossipRoutes are of the keys of the gossip between servers, of which there is one.
func (h *handler) gossipRoutes() {
	refuse := func(http.ResponseWriter, *http.Request) error {
		return badRequest(absent.Gossip)
	}
	h.method("/v1/agent/keyring/list", refuse, http.MethodGet)
	for _, what := range []string{"install", "use", "remove"} {
		h.method("/v1/agent/keyring/"+what, refuse, http.MethodPut, http.MethodPost)
	}
}

// workerRoutes are of what works on evaluations: one at a time, of jobs of all types.
func (h *handler) workerRoutes() {
	kinds := []string{nomad.JobTypeService, nomad.JobTypeBatch, nomad.JobTypeSystem, nomad.JobTypeSysbatch, "_core"}
	h.get("/v1/agent/schedulers", tableScheduler, func(*http.Request, *query) (answer, error) {
		status := "Started"
		if h.ControlPlane.SchedulerConfiguration().PauseEvalBroker {
			status = "Paused"
		}
		return answer{body: &nomad.AgentSchedulerWorkersInfo{ServerID: h.Agent.NodeID, Schedulers: []nomad.AgentSchedulerWorkerInfo{{
			ID: h.Agent.NodeID, EnabledSchedulers: kinds, Started: h.started.UTC().Format(time.RFC3339Nano), Status: status, WorkloadStatus: "WaitingToDequeue",
		}}}}, nil
	})
	h.get("/v1/agent/schedulers/config", tableScheduler, func(*http.Request, *query) (answer, error) {
		return answer{body: &nomad.AgentSchedulerWorkerConfigResponse{ServerID: h.Agent.NodeID, NumSchedulers: 1, EnabledSchedulers: kinds}}, nil
	})
	h.put("/v1/agent/schedulers/config", func(*http.Request) (any, error) {
		return nil, badRequest("one evaluation is worked on after another, of jobs of all types: that cannot be changed")
	})
}

// servers are the addresses of the servers: there is this one, or those of the cluster.
func (h *handler) servers(*http.Request, *query) (answer, error) {
	if h.Servers != nil {
		return answer{body: h.Servers.Addresses()}, nil
	}
	return answer{body: []string{h.Agent.Address}}, nil
}

func (h *handler) member() nomad.AgentMember {
	address, port, err := net.SplitHostPort(h.Agent.Address)
	number, notNumber := strconv.ParseUint(port, 10, 16)
	if err != nil || notNumber != nil {
		address, port = "127.0.0.1", "0" // it is asked on a socket of this machine
	}
	return nomad.AgentMember{
		Name:   h.Agent.Name + "." + h.Agent.Region,
		Addr:   address,
		Port:   uint16(number),
		Status: "alive",
		Tags: map[string]string{
			"build": h.Agent.Version, "dc": h.Agent.Datacenter, "region": h.Agent.Region,
			"role": "nomad", "port": port, "bootstrap": "1",
		},
	}
}

func (h *handler) agentSelf(*http.Request, *query) (answer, error) {
	stats := map[string]map[string]string{
		"client":   {"node_id": h.Agent.NodeID},
		"wasmnode": {"version": h.Agent.Version},
		"runtime": {
			"version": runtime.Version(), "arch": runtime.GOARCH, "kernel.name": runtime.GOOS,
			"cpu_count": strconv.Itoa(runtime.NumCPU()), "max_procs": strconv.Itoa(runtime.GOMAXPROCS(0)),
			"goroutines": strconv.Itoa(runtime.NumGoroutine()),
		},
	}
	var member nomad.AgentMember
	if h.Servers != nil {
		stats["client"]["known_servers"] = strings.Join(h.Servers.Addresses(), ",")
		stats["client"]["server"] = h.Servers.Connected()
	} else {
		member = h.member()
		stats["nomad"] = map[string]string{
			"server": "true", "leader": "true", "leader_addr": h.Agent.Address, "bootstrap": "true", "known_regions": "1",
		}
		stats["raft"] = map[string]string{"state": "Leader", "num_peers": "0"} // nomad check has to read a number
	}
	return answer{body: &nomad.AgentSelf{
		Config: map[string]any{
			"Region":     h.Agent.Region,
			"Datacenter": h.Agent.Datacenter,
			"Version":    map[string]any{"Version": h.Agent.Version},
			"ACL":        map[string]any{"Enabled": h.ACL},
			// Nomad's command line prints links to a web page unless told not to.
			"UI": map[string]any{"Enabled": !h.NoPage, "ShowCLIHints": false},
		},
		Member: member,
		Stats:  stats,
	}}, nil
}

// agentHealthJSON is Nomad's, with each condition by itself.
type agentHealthJSON struct {
	Client     *nomad.AgentHealth `json:"client,omitempty"`
	Server     *nomad.AgentHealth `json:"server,omitempty"`
	Conditions []conditionJSON    `json:"conditions"`
}

// conditionJSON is what the operator has to know of an agent, and what to do about it.
type conditionJSON struct {
	Name      string     `json:"name"`
	Part      string     `json:"part"` // "client" or "server"
	Unhealthy bool       `json:"unhealthy"`
	Text      string     `json:"text"`
	Since     *time.Time `json:"since,omitempty"` // none: it passes, or was there when the agent started
	Remedy    string     `json:"remedy,omitempty"`
}

// conditionsOf are the conditions of a part; empty: of both.
func conditionsOf(list []structs.Condition, part string) []conditionJSON {
	told := []conditionJSON{}
	for _, c := range list {
		of := conditionJSON{Name: c.Name, Part: "client", Unhealthy: c.Unhealthy, Text: c.Text, Remedy: c.Remedy}
		if c.Server {
			of.Part = "server"
		}
		if !c.Since.IsZero() {
			of.Since = new(c.Since.UTC())
		}
		if part == "" || part == of.Part {
			told = append(told, of)
		}
	}
	return told
}

// agentHealth tells all conditions of the agent, of the client and of the control plane
// apart, each in Nomad's one message, or of one of the two, and each by itself. Like Nomad's, it
// is a 500 when one is not healthy, and a client of servers is none.
func (h *handler) agentHealth(r *http.Request, _ *query) (answer, error) {
	client, server := nomad.AgentHealth{Ok: true}, nomad.AgentHealth{Ok: true}
	conditions := h.Conditions()
	for _, c := range conditions {
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
	isServer := h.Servers == nil || server.Message != ""
	for _, part := range []*nomad.AgentHealth{&client, &server} {
		part.Message = cmp.Or(part.Message, "ok")
	}
	kind := r.URL.Query().Get("type")
	health := &agentHealthJSON{Client: &client, Server: &server, Conditions: conditionsOf(conditions, kind)}
	switch kind {
	case "":
		if !isServer {
			health.Server = nil
		}
	case "client":
		health.Server, server.Ok = nil, true
	case "server":
		health.Client, client.Ok = nil, true
		if !isServer {
			server = nomad.AgentHealth{Message: "this node is no server: it is a client of those in client.servers"}
		}
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
