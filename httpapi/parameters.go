package httpapi

import (
	"net/http"
	"slices"
	"strings"
)

// everywhere are the parameters that every endpoint takes: how to wait and how to render,
// and the names of what there is one of. A node's own data is never stale, so that both of
// Nomad's words for that are kept.
const everywhere = "region namespace index wait stale consistent pretty"

// listing are those of the lists that can be cut and filtered.
const listing = "prefix per_page next_token filter reverse "

// parameters are those that an endpoint takes besides, by its method, PUT standing for POST,
// its pattern and, of a job, what follows its ID. What is not named is refused: a parameter
// that is ignored has people believe an answer to another question.
var parameters = map[string]string{
	"GET /v1/jobs":                         listing + "meta",
	"GET /v1/allocations":                  listing + "resources task_states",
	"PUT /v1/allocation/{id}/stop":         "no_shutdown_delay",
	"GET /v1/evaluations":                  listing + "job status",
	"GET /v1/evaluations/count":            "prefix filter job status",
	"GET /v1/evaluation/{id}":              "related",
	"GET /v1/nodes":                        listing + "resources os",
	"GET /v1/node/pools":                   listing,
	"GET /v1/node/pool/{pool}/nodes":       listing + "resources os",
	"GET /v1/node/pool/{pool}/jobs":        listing + "meta",
	"GET /v1/namespaces":                   listing,
	"GET /v1/jobs/statuses":                "prefix per_page next_token filter reverse include_children",
	"PUT /v1/jobs/statuses":                "prefix per_page next_token filter reverse",
	"GET /v1/job/{rest...}/action":         "action allocID group task tty command ws_handshake",
	"GET /v1/scaling/policies":             "prefix job type",
	"GET /v1/deployments":                  listing,
	"GET /v1/services":                     listing,
	"GET /v1/service/{name}":               "per_page next_token filter reverse choose",
	"GET /v1/plugins":                      "prefix type per_page next_token",
	"GET /v1/agent/monitor":                "log_level log_json log_include_location node_id server_id client_id plain follow offset origin",
	"GET /v1/agent/monitor/export":         "on_disk service_name logs_since follow node_id server_id plain",
	"GET /v1/agent/plugin/{name}/logs":     "lines follow",
	"GET /v1/agent/plugin/{name}/record":   "for bytes",
	"GET /v1/agent/host":                   "node_id server_id",
	"GET /v1/agent/pprof/{profile}":        "debug seconds gc node_id server_id",
	"GET /v1/vars":                         listing + "path",
	"PUT /v1/var/{path...}":                "cas lock-acquire lock-renew lock-release",
	"DELETE /v1/var/{path...}":             "cas",
	"GET /v1/volumes":                      listing + "type node_id node_pool plugin_id",
	"GET /v1/volumes/external":             "prefix per_page next_token plugin_id",
	"GET /v1/volumes/snapshot":             "prefix per_page next_token plugin_id secret",
	"GET /v1/volumes/claims":               listing + "job_id task_group volume_name",
	"DELETE /v1/volume/host/{id}":          "force",
	"GET /v1/acl/tokens":                   listing,
	"GET /v1/acl/policies":                 listing,
	"GET /v1/acl/policy/self":              listing,
	"GET /v1/acl/roles":                    listing,
	"GET /v1/metrics":                      "format",
	"PUT /v1/agent/join":                   "address",
	"PUT /v1/agent/force-leave":            "node prune",
	"PUT /v1/agent/servers":                "address",
	"GET /v1/agent/health":                 "type",
	"GET /v1/event/stream":                 "topic",
	"GET /v1/client/stats":                 "node_id",
	"GET /v1/client/metadata":              "node_id",
	"GET /v1/client/identity":              "node_id",
	"GET /v1/client/gc":                    "node_id",
	"PUT /v1/client/gc":                    "node_id",
	"GET /v1/client/allocation/{id}/stats": "task",
	"GET /v1/client/allocation/{id}/exec":  "task command tty ws_handshake",
	"GET /v1/client/fs/ls/{id}":            "path",
	"GET /v1/client/fs/stat/{id}":          "path",
	"GET /v1/client/fs/cat/{id}":           "path",
	"GET /v1/client/fs/readat/{id}":        "path offset limit",
	"GET /v1/client/fs/stream/{id}":        "path follow offset origin",
	"GET /v1/client/fs/logs/{id}":          "task type follow offset origin plain",
	"GET /v1/job/{rest...}/allocations":    "all",
	"GET /v1/job/{rest...}/submission":     "version",
	"GET /v1/job/{rest...}/versions":       "diffs diff_version diff_tag",
	"PUT /v1/job/{rest...}/dispatch":       "idempotency_token",
	"DELETE /v1/job/{rest...}/":            "purge global no_shutdown_delay eval_priority",
	"GET /v1/job/{rest...}/deployments":    "all",

	"PUT /v1/operator/scheduler/configuration":  "cas",
	"PUT /v1/operator/autopilot/configuration":  "cas",
	"DELETE /v1/operator/raft/peer":             "id address",
	"PUT /v1/operator/raft/transfer-leadership": "id address",
	"PUT /v1/operator/utilization":              "today",
	"PUT /v1/operator/keyring/rotate":           "full algo publish_time",
	"DELETE /v1/operator/keyring/key/{id}":      "force",
}

// passedOnToo are those that an endpoint takes besides where servers answer it.
var passedOnToo = map[string]string{
	"PUT /v1/allocation/{id}/stop": "reschedule",
	"GET /v1/acl/tokens":           "global",
}

// checkParameters refuses a request for another region's things, and one with a parameter
// that its endpoint would ignore.
func (h *handler) checkParameters(method, pattern string, r *http.Request) error {
	v := r.URL.Query()
	if !callerOf(r).elsewhere { // servers know the others
		if err := h.checkRegion(v.Get("region")); err != nil {
			return err
		}
	}
	_, verb := jobPath(r)
	taken := taken(method, pattern, verb)
	if callerOf(r).elsewhere {
		taken = append(taken, strings.Fields(passedOnToo[method+" "+pattern])...)
	}
	for name := range v {
		if !slices.Contains(taken, name) {
			return badRequest("unknown parameter %q: %s takes %s", name, r.URL.Path, strings.Join(taken, ", "))
		}
	}
	return nil
}

// taken are the parameters of an endpoint; of a job's, verb is what follows its ID.
func taken(method, pattern, verb string) []string {
	if method == http.MethodPost {
		method = http.MethodPut
	}
	if pattern == jobPattern {
		pattern += "/" + verb
	}
	return strings.Fields(everywhere + " " + parameters[method+" "+pattern])
}

// checkRegion refuses any region but the agent's, with Nomad's status and text. None is
// the agent's.
func (h *handler) checkRegion(region string) error {
	if region == "" || region == h.Agent.Region {
		return nil
	}
	return &statusError{http.StatusInternalServerError, "No path to region"}
}

// checkNode refuses any node but the agent's own. None is that.
func (h *handler) checkNode(r *http.Request) error {
	return h.checkNodeID(r.URL.Query().Get("node_id"))
}

func (h *handler) checkNodeID(id string) error {
	if id != "" && id != h.Agent.NodeID {
		return notFound("Unknown node %q", id)
	}
	return nil
}
