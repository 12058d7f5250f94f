package httpapi

import (
	"cmp"
	"errors"
	"net/http"
	"strconv"
	"strings"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/structs/errdefs"
)

// ofNodes are the endpoints of one node that a server passes on to it, where it is another one than
// this, as asked has those of the servers themselves.
var ofNodes = map[string]passedOn{
	"PUT /v1/client/allocation/{id}/restart": atNode(whole[object]("ClientAllocations.Restart", both(fields[struct {
		TaskName string
		AllTasks bool
	}], allocID))),
	"PUT /v1/client/allocation/{id}/signal": atNode(whole[object]("ClientAllocations.Signal", both(fields[struct{ Task, Signal string }], allocID))),
	"GET /v1/client/allocation/{id}/stats":  atNode(inField[*nomad.AllocResourceUsage]("ClientAllocations.Stats", "Stats", both(allocID, queried(map[string]string{"Task": "task"})), asIs)),
	"GET /v1/client/allocation/{id}/checks": checksElsewhere,
	"GET /v1/allocation/{id}/checks":        checksElsewhere,
	"GET /v1/client/allocation/{id}/gc":     atNode(acknowledged("ClientAllocations.GarbageCollect", allocID)),
	"PUT /v1/client/allocation/{id}/gc":     atNode(acknowledged("ClientAllocations.GarbageCollect", allocID)),
	"GET /v1/client/gc":                     atNode(acknowledged("ClientAllocations.GarbageCollectAll", ofNode)),
	"PUT /v1/client/gc":                     atNode(acknowledged("ClientAllocations.GarbageCollectAll", ofNode)),
	"GET /v1/client/stats":                  atNode(inField[*nomad.HostStats]("ClientStats.Stats", "HostStats", ofNode, asIs)),
	"GET /v1/client/metadata":               atNode(whole[nomad.NodeMetaResponse]("NodeMeta.Read", ofNode)),
	"GET /v1/client/identity":               nodeIdentity("NodeIdentity.Get", ofNode),
	"PUT /v1/client/identity/renew":         nodeIdentity("NodeIdentity.Renew", fields[struct{ NodeID string }]),
	"GET /v1/client/fs/ls/{id}":             atNode(listed[*nomad.AllocFileInfo]("FileSystem.List", "Files", filePath)),
	"GET /v1/client/fs/stat/{id}":           atNode(inField[*nomad.AllocFileInfo]("FileSystem.Stat", "Info", filePath, asIs)),
	"GET /v1/agent/host":                    atNode(whole[nomad.HostDataResponse]("Agent.Host", agent)),
	"GET /v1/agent/pprof/{profile}":         profileElsewhere,

	"GET /v1/client/fs/cat/{id}":          relayed("FileSystem.Stream", fileWhole, alwaysPlain),
	"GET /v1/client/fs/readat/{id}":       relayed("FileSystem.Stream", filePart, alwaysPlain),
	"GET /v1/client/fs/stream/{id}":       relayed("FileSystem.Stream", fileFollowed, neverPlain),
	"GET /v1/client/fs/logs/{id}":         relayed("FileSystem.Logs", logOf, plainIfAsked),
	"GET /v1/agent/monitor":               relayed("Agent.Monitor", monitored, plainIfAsked),
	"GET /v1/agent/monitor/export":        relayed("Agent.MonitorExport", exported, plainIfAsked),
	"GET /v1/event/stream":                eventsElsewhere,
	"GET /v1/client/allocation/{id}/exec": execElsewhere(commandElsewhere),
	"GET /v1/job/{rest...}/action":        execElsewhere(actionElsewhere),
	"GET /v1/operator/snapshot":           snapshotSaved,
	"PUT /v1/operator/snapshot":           snapshotRestored,
}

func asIs[T any](v *T) (any, error) { return v, nil }

// another reports whether what a request asks of a node is of another one than this: what that is of,
// its path or its query says.
func (h *handler) another(pattern string, r *http.Request) bool {
	switch pattern {
	case "/v1/client/gc", "/v1/client/stats", "/v1/client/metadata", "/v1/agent/host", "/v1/agent/monitor", "/v1/agent/monitor/export", "/v1/agent/pprof/{profile}":
		v := r.URL.Query()
		id := cmp.Or(v.Get("node_id"), v.Get("client_id"))
		return id != "" && id != h.Agent.NodeID || v.Get("server_id") != ""
	case "/v1/client/identity", "/v1/client/identity/renew": // servers have it, also of this node
		return true
	}
	id, of := segment(pattern, r.URL.Path, "{id}")
	return of && !h.has(id)
}

// segment is what a path has at the place of a pattern's wildcard.
func segment(pattern, path, wildcard string) (value string, is bool) {
	parts := strings.Split(path, "/")
	for i, part := range strings.Split(pattern, "/") {
		if part == wildcard && i < len(parts) {
			return parts[i], true
		}
	}
	return "", false
}

// has reports whether an allocation is this node's, which may know some that servers have forgotten.
func (h *handler) has(id string) bool {
	if h.ControlPlane.Allocation(id) != nil {
		return true
	}
	_, err := h.Node.AllocationChecks(id)
	return !errors.Is(err, errdefs.NotFound)
}

// notThere are the texts by which servers say that they do not know, or do not reach, what is asked of
// a node, or that it does not have it.
var notThere = []string{"Unknown allocation", "Unknown node", "No path to node", "no such file or directory"}

// missing gives the error of something that is not there its status.
func missing(err error) error {
	var se *statusError
	if !errors.As(err, &se) || se.status != http.StatusInternalServerError {
		return err
	}
	for _, text := range notThere {
		if strings.Contains(se.text, text) {
			return &statusError{http.StatusNotFound, se.text}
		}
	}
	return err
}

// atNode passes on a question that its server passes on to a node.
func atNode(ask passedOn) passedOn {
	return func(h *handler, w http.ResponseWriter, r *http.Request) error { return missing(ask(h, w, r)) }
}

var allocID = named("AllocID", "id")

// ofNode is the one that a request is about; empty: the one that is asked.
var ofNode = queried(map[string]string{"NodeID": "node_id"})

// agent is the one that a request is about, a node's or a server's.
func agent(r *http.Request) (map[string]any, error) {
	v := r.URL.Query()
	all := map[string]any{"NodeID": cmp.Or(v.Get("node_id"), v.Get("client_id")), "ServerID": v.Get("server_id")}
	if all["NodeID"] != "" && all["ServerID"] != "" {
		return nil, badRequest("Cannot target node and server simultaneously")
	}
	return all, nil
}

// nodeIdentity passes on a question about the identity of a node, of this one unless it says so.
func nodeIdentity(method string, args arguments) passedOn {
	return func(h *handler, w http.ResponseWriter, r *http.Request) error {
		return atNode(whole[object](method, func(r *http.Request) (map[string]any, error) {
			all, err := args(r)
			if err == nil && all["NodeID"] == "" {
				all["NodeID"] = h.Agent.NodeID
			}
			return all, err
		}))(h, w, r)
	}
}

var checksElsewhere = atNode(inField[map[string]object]("ClientAllocations.Checks", "Results", allocID, func(all map[string]object) (any, error) {
	if all == nil {
		all = map[string]object{}
	}
	return all, nil
}))

// applyElsewhere changes the metadata of another node.
func (h *handler) applyElsewhere(r *http.Request, req *nomad.NodeMetaApplyRequest) (any, error) {
	decode, done, err := h.ask(r, "NodeMeta.Apply", map[string]any{"NodeID": req.NodeID, "Meta": req.Meta})
	if err != nil {
		return nil, missing(err)
	}
	defer done()
	out := new(nomad.NodeMetaResponse)
	return out, decode(out)
}

// profileElsewhere tells what another agent is doing.
func profileElsewhere(h *handler, w http.ResponseWriter, r *http.Request) error {
	args, err := profiled(r)
	if err != nil {
		return err
	}
	decode, done, err := h.ask(r, "Agent.Profile", args)
	if err != nil {
		return missing(err)
	}
	var got struct{ Payload []byte }
	err = decode(&got)
	done() // however long the client takes
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/octet-stream") // whatever another node says that it is
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_, _ = timely{w}.Write(got.Payload) // errors: the client is gone
	return nil
}

// profiled is which profile is asked for: two have names of their own, the others are looked up.
func profiled(r *http.Request) (map[string]any, error) {
	all, err := agent(r)
	if err != nil {
		return nil, err
	}
	kind, name := r.PathValue("profile"), ""
	if kind == "profile" {
		kind = "cpu"
	} else if kind != "cmdline" && kind != "trace" {
		kind, name = "lookup", kind
	}
	all["ReqType"], all["Profile"] = kind, name
	for argument, parameter := range map[string]string{"Seconds": "seconds", "Debug": "debug", "GC": "gc"} {
		n, err := number(r, parameter)
		if err != nil {
			return nil, badRequest("Unknown option for %s: %v", parameter, err)
		}
		all[argument] = n
	}
	if all["Seconds"] == int64(0) {
		all["Seconds"] = int64(1)
	}
	return all, nil
}

// number is a parameter that is one; without it, 0.
func number(r *http.Request, parameter string) (int64, error) {
	s := r.URL.Query().Get(parameter)
	if s == "" {
		return 0, nil
	}
	return strconv.ParseInt(s, 10, 64)
}
