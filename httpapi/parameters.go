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

// parameters are those that an endpoint takes besides, by its pattern and, of a job, by
// what follows its ID. What is not named is refused: a parameter that is ignored has
// people believe an answer to another question.
var parameters = map[string]string{
	"/v1/jobs":                          listing + "meta",
	"/v1/allocations":                   listing + "resources task_states",
	"/v1/allocation/{id}/stop":          "no_shutdown_delay",
	"/v1/evaluations":                   listing + "job status",
	"/v1/evaluations/count":             "prefix filter job status",
	"/v1/evaluation/{id}":               "related",
	"/v1/nodes":                         listing + "resources os",
	"/v1/node/pools":                    listing,
	"/v1/node/pool/{pool}/nodes":        listing + "os",
	"/v1/node/pool/{pool}/jobs":         listing + "meta",
	"/v1/namespaces":                    listing,
	"/v1/jobs/statuses":                 "prefix per_page next_token filter reverse include_children",
	"GET /v1/job/{rest...}/action":      "action allocID group task tty command",
	"/v1/scaling/policies":              "prefix job type",
	"/v1/deployments":                   listing,
	"/v1/services":                      listing,
	"/v1/service/{name}":                "filter choose",
	"/v1/plugins":                       "prefix type per_page next_token",
	"/v1/agent/monitor":                 "log_level log_json log_include_location node_id server_id client_id plain follow offset origin",
	"/v1/agent/pprof/{profile}":         "debug seconds gc node_id server_id",
	"/v1/vars":                          listing + "path",
	"/v1/volumes":                       listing + "type node_id node_pool plugin_id",
	"/v1/acl/tokens":                    listing,
	"/v1/metrics":                       "format",
	"/v1/agent/join":                    "address",
	"/v1/agent/force-leave":             "node prune",
	"/v1/agent/servers":                 "address",
	"/v1/agent/health":                  "type",
	"/v1/event/stream":                  "topic",
	"/v1/client/stats":                  "node_id",
	"/v1/client/metadata":               "node_id",
	"/v1/client/gc":                     "node_id",
	"/v1/client/allocation/{id}/stats":  "task",
	"/v1/client/allocation/{id}/exec":   "task command tty",
	"/v1/client/fs/ls/{id}":             "path",
	"/v1/client/fs/stat/{id}":           "path",
	"/v1/client/fs/cat/{id}":            "path",
	"/v1/client/fs/readat/{id}":         "path offset limit",
	"/v1/client/fs/logs/{id}":           "task type follow offset origin plain",
	"GET /v1/job/{rest...}/allocations": "all",
	"GET /v1/job/{rest...}/submission":  "version",
	"GET /v1/job/{rest...}/versions":    "diffs diff_version diff_tag",
	"PUT /v1/job/{rest...}/dispatch":    "idempotency_token",
	"POST /v1/job/{rest...}/dispatch":   "idempotency_token",
	"DELETE /v1/job/{rest...}/":         "purge global no_shutdown_delay eval_priority",
	"GET /v1/job/{rest...}/deployments": "all",

	"/v1/operator/scheduler/configuration": "cas",
}

// checkParameters refuses a request for another region's things, and one with a parameter
// that its endpoint would ignore.
func (h *handler) checkParameters(pattern string, r *http.Request) error {
	v := r.URL.Query()
	if err := h.checkRegion(v.Get("region")); err != nil {
		return err
	}
	key := pattern
	if pattern == jobPattern {
		_, verb := jobPath(r)
		key = r.Method + " " + pattern + "/" + verb
	}
	taken := strings.Fields(everywhere + " " + parameters[key])
	for name := range v {
		if !slices.Contains(taken, name) {
			return badRequest("unknown parameter %q: %s takes %s", name, r.URL.Path, strings.Join(taken, ", "))
		}
	}
	return nil
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
