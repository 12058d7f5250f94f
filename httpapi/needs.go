package httpapi

import (
	"cmp"
	"context"
	"net/http"
	"strings"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/clientapi"
	"github.com/wasmnode/wasmnode/httpapi/access"
	"github.com/wasmnode/wasmnode/internal/acl"
	"github.com/wasmnode/wasmnode/structs"
)

// need is what the rules of a caller's policies have to allow for an endpoint.
type need struct {
	// caps are capabilities in the namespace of what is asked for, of which any does.
	caps []string
	// in is that namespace, or that there is nothing of the path's ID; nil: the request's.
	in func(h *handler, r *http.Request) (string, error)
	// may decides instead of these, unless it is nil.
	may func(r *http.Request, by *acl.Rights) bool
}

// inNamespace needs any of some capabilities in the request's namespace.
func inNamespace(anyOf ...string) *need { return &need{caps: anyOf} }

// of has the need be of the namespace that what the path names is in.
func (n *need) of(in func(*handler, *http.Request) (string, error)) *need {
	return &need{caps: n.caps, in: in}
}

func rights(may func(by *acl.Rights) bool) *need {
	return &need{may: func(_ *http.Request, by *acl.Rights) bool { return may(by) }}
}

// The needs that are not of one namespace. What anyRules lets in is shown by its handler only as
// far as the caller may see it.
var (
	anyRules      = rights(func(*acl.Rights) bool { return true })
	nodeRead      = rights(func(by *acl.Rights) bool { return by.Node(false) })
	nodeWrite     = rights(func(by *acl.Rights) bool { return by.Node(true) })
	agentRead     = rights(func(by *acl.Rights) bool { return by.Agent(false) })
	agentWrite    = rights(func(by *acl.Rights) bool { return by.Agent(true) })
	operatorRead  = rights(func(by *acl.Rights) bool { return by.Operator(false) })
	operatorWrite = rights(func(by *acl.Rights) bool { return by.Operator(true) })
	readJobs      = inNamespace("read-job")
)

func operatorCan(capability string) *need {
	return rights(func(by *acl.Rights) bool { return by.OperatorCan(capability) })
}

// pool needs an operation with the node pool that the path names.
func pool(operation string) *need {
	return &need{may: func(r *http.Request, by *acl.Rights) bool { return by.Pool(r.PathValue("pool"), operation) }}
}

// variableNeed needs an operation with the variable that the path names.
func variableNeed(operation string) *need {
	return &need{may: func(r *http.Request, by *acl.Rights) bool {
		return by.Variable(namespaceOf(r), r.PathValue("path"), operation)
	}}
}

// needs are those of the endpoints, by their method, PUT standing for POST, and pattern; of a
// job with what follows its ID. What is not named is for managers, whatever rules say.
var needs = map[string]*need{
	"GET /v1/jobs":                          inNamespace("list-jobs"),
	"PUT /v1/jobs":                          {may: anyNamespace("submit-job", "register-job"), caps: []string{"submit-job", "register-job"}},
	"PUT /v1/validate/job":                  {may: anyNamespace("read-job"), caps: []string{"read-job"}},
	"PUT /v1/jobs/parse":                    inNamespace("parse-job"),
	"GET /v1/jobs/statuses":                 inNamespace("list-jobs"),
	"PUT /v1/jobs/statuses":                 {may: anyNamespace("list-jobs"), caps: []string{"list-jobs"}},
	"GET /v1/job/{rest...}/":                readJobs,
	"GET /v1/job/{rest...}/actions":         readJobs,
	"GET /v1/job/{rest...}/summary":         readJobs,
	"GET /v1/job/{rest...}/versions":        readJobs,
	"GET /v1/job/{rest...}/submission":      readJobs,
	"GET /v1/job/{rest...}/scale":           inNamespace("read-job", "read-job-scaling"),
	"GET /v1/job/{rest...}/allocations":     readJobs,
	"GET /v1/job/{rest...}/evaluations":     readJobs,
	"GET /v1/job/{rest...}/deployment":      readJobs,
	"GET /v1/job/{rest...}/deployments":     readJobs,
	"GET /v1/job/{rest...}/services":        readJobs,
	"GET /v1/job/{rest...}/action":          inNamespace("alloc-exec"),
	"PUT /v1/job/{rest...}/":                {may: anyNamespace("submit-job", "register-job"), caps: []string{"submit-job", "register-job"}},
	"PUT /v1/job/{rest...}/plan":            {may: anyNamespace("submit-job", "plan-job"), caps: []string{"submit-job", "plan-job"}},
	"PUT /v1/job/{rest...}/evaluate":        inNamespace("submit-job", "evaluate-job"),
	"PUT /v1/job/{rest...}/dispatch":        inNamespace("dispatch-job"),
	"PUT /v1/job/{rest...}/periodic/force":  inNamespace("submit-job", "force-periodic-job"),
	"PUT /v1/job/{rest...}/revert":          inNamespace("submit-job", "revert-job"),
	"PUT /v1/job/{rest...}/scale":           inNamespace("submit-job", "scale-job"),
	"PUT /v1/job/{rest...}/stable":          inNamespace("submit-job", "stable-job"),
	"PUT /v1/job/{rest...}/versions/tag":    inNamespace("submit-job", "tag-job-version"),
	"DELETE /v1/job/{rest...}/":             {may: mayDeregister},
	"DELETE /v1/job/{rest...}/versions/tag": inNamespace("submit-job", "tag-job-version"),
	"GET /v1/scaling/policies":              inNamespace("list-scaling-policies"),
	"GET /v1/scaling/policy/{id}":           inNamespace("read-scaling-policy").of(policyNamespace),

	"GET /v1/allocations":                       readJobs,
	"GET /v1/allocation/{id}":                   readJobs.of(allocationNamespace),
	"GET /v1/allocation/{id}/services":          readJobs.of(allocationNamespace),
	"GET /v1/allocation/{id}/checks":            readJobs.of(allocationNamespace),
	"PUT /v1/allocation/{id}/stop":              inNamespace("alloc-lifecycle").of(allocationNamespace),
	"PUT /v1/client/allocation/{id}/restart":    inNamespace("alloc-lifecycle").of(allocationNamespace),
	"PUT /v1/client/allocation/{id}/signal":     inNamespace("alloc-lifecycle").of(allocationNamespace),
	"GET /v1/client/allocation/{id}/exec":       inNamespace("alloc-exec").of(allocationNamespace),
	"GET /v1/client/allocation/{id}/stats":      readJobs.of(allocationNamespace),
	"GET /v1/client/allocation/{id}/checks":     readJobs.of(allocationNamespace),
	"GET /v1/client/allocation/{id}/gc":         inNamespace("submit-job", "gc-allocation").of(allocationNamespace),
	"PUT /v1/client/allocation/{id}/gc":         inNamespace("submit-job", "gc-allocation").of(allocationNamespace),
	"GET /v1/client/fs/ls/{id}":                 inNamespace("read-fs").of(allocationNamespace),
	"GET /v1/client/fs/stat/{id}":               inNamespace("read-fs").of(allocationNamespace),
	"GET /v1/client/fs/cat/{id}":                inNamespace("read-fs").of(allocationNamespace),
	"GET /v1/client/fs/readat/{id}":             inNamespace("read-fs").of(allocationNamespace),
	"GET /v1/client/fs/stream/{id}":             inNamespace("read-fs").of(allocationNamespace),
	"GET /v1/client/fs/logs/{id}":               inNamespace("read-logs", "read-fs").of(allocationNamespace),
	"GET /v1/evaluations":                       readJobs,
	"GET /v1/evaluations/count":                 readJobs,
	"GET /v1/evaluation/{id}":                   readJobs.of(evaluationNamespace),
	"GET /v1/evaluation/{id}/allocations":       readJobs.of(evaluationNamespace),
	"GET /v1/deployments":                       readJobs,
	"GET /v1/deployment/{id}":                   readJobs.of(deploymentNamespace),
	"GET /v1/deployment/allocations/{id}":       readJobs.of(deploymentNamespace),
	"PUT /v1/deployment/promote/{id}":           inNamespace("submit-job", "promote-deployment").of(deploymentNamespace),
	"PUT /v1/deployment/pause/{id}":             inNamespace("submit-job", "pause-deployment").of(deploymentNamespace),
	"PUT /v1/deployment/fail/{id}":              inNamespace("submit-job", "fail-deployment").of(deploymentNamespace),
	"PUT /v1/deployment/unblock/{id}":           inNamespace("submit-job", "unblock-deployment").of(deploymentNamespace),
	"PUT /v1/deployment/allocation-health/{id}": inNamespace("submit-job", "set-alloc-health-deployment").of(deploymentNamespace),

	"GET /v1/services":                     readJobs,
	"GET /v1/service/{name}":               readJobs,
	"DELETE /v1/service/{name}/{instance}": inNamespace("submit-job", "delete-service-registration"),
	"GET /v1/vars":                         rights(func(by *acl.Rights) bool { return by.SomeVariable("list") }),
	"GET /v1/var/{path...}":                variableNeed("read"),
	"PUT /v1/var/{path...}":                variableNeed("write"),
	"DELETE /v1/var/{path...}":             variableNeed("destroy"),
	"GET /v1/namespaces":                   anyRules,
	"GET /v1/namespace/{name}":             {may: func(r *http.Request, by *acl.Rights) bool { return by.SeesNamespace(r.PathValue("name")) }},
	"PUT /v1/search":                       anyRules,
	"PUT /v1/search/fuzzy":                 anyRules,
	"GET /v1/event/stream":                 anyRules,

	"GET /v1/volumes":               inNamespace("host-volume-read"),
	"GET /v1/volume/host/{id}":      inNamespace("host-volume-read"),
	"PUT /v1/volume/host/create":    {may: anyNamespace("host-volume-create"), caps: []string{"host-volume-create"}},
	"PUT /v1/volume/host/register":  {may: anyNamespace("host-volume-register"), caps: []string{"host-volume-register"}},
	"DELETE /v1/volume/host/{id}":   inNamespace("host-volume-delete"),
	"GET /v1/volumes/claims":        inNamespace("host-volume-read"),
	"DELETE /v1/volumes/claim/{id}": inNamespace("host-volume-delete"),

	"GET /v1/nodes":               nodeRead,
	"GET /v1/node/{id}":           nodeRead,
	"GET /v1/node/{id}/{verb}":    nodeRead,
	"PUT /v1/node/{id}/{verb}":    nodeWrite,
	"GET /v1/node/pools":          anyRules,
	"GET /v1/node/pool/{pool}":    pool("read"),
	"PUT /v1/node/pool/{pool}":    pool("write"),
	"DELETE /v1/node/pool/{pool}": pool("delete"),
	"GET /v1/node/pool/{pool}/nodes": {may: func(r *http.Request, by *acl.Rights) bool {
		return by.Node(false) && by.Pool(r.PathValue("pool"), "read")
	}},
	"GET /v1/node/pool/{pool}/jobs": {may: func(r *http.Request, by *acl.Rights) bool { return by.Pool(r.PathValue("pool"), "read") }, caps: []string{"list-jobs"}},
	"GET /v1/client/stats":          nodeRead,
	"GET /v1/client/metadata":       nodeRead,
	"PUT /v1/client/metadata":       nodeWrite,
	"GET /v1/client/gc":             nodeWrite,
	"PUT /v1/client/gc":             nodeWrite,

	"GET /v1/agent/self":                        agentRead,
	"GET /v1/agent/members":                     nodeRead,
	"GET /v1/agent/servers":                     agentRead,
	"GET /v1/agent/monitor":                     agentRead,
	"PUT /v1/agent/join":                        agentWrite,
	"PUT /v1/agent/force-leave":                 agentWrite,
	"PUT /v1/agent/servers":                     agentWrite,
	"PUT /v1/agent/reload":                      agentWrite,
	"GET /v1/agent/schedulers":                  agentRead,
	"GET /v1/agent/schedulers/config":           agentRead,
	"PUT /v1/agent/schedulers/config":           agentWrite,
	"GET /v1/agent/keyring/list":                agentWrite,
	"PUT /v1/agent/keyring/install":             agentWrite,
	"PUT /v1/agent/keyring/use":                 agentWrite,
	"PUT /v1/agent/keyring/remove":              agentWrite,
	"DELETE /v1/operator/raft/peer":             operatorWrite,
	"PUT /v1/operator/raft/transfer-leadership": operatorWrite,
	"PUT /v1/operator/autopilot/configuration":  operatorWrite,
	"GET /v1/agent/plugins":                     rights((*acl.Rights).Plugin),
	"GET /v1/agent/plugin/{name}/schema":        rights((*acl.Rights).Plugin),
	"GET /v1/plugins":                           rights((*acl.Rights).Plugin),
	"GET /v1/operator/raft/configuration":       operatorRead,
	"GET /v1/operator/autopilot/configuration":  operatorRead,
	"GET /v1/operator/autopilot/health":         operatorRead,
	"GET /v1/operator/scheduler/configuration":  operatorRead,
	"PUT /v1/operator/scheduler/configuration":  operatorWrite,
	"GET /v1/operator/keyring/keys":             operatorCan("keyring-read"),
	"PUT /v1/operator/keyring/rotate":           operatorCan("keyring-rotate"),
	"DELETE /v1/operator/keyring/key/{id}":      operatorCan("keyring-delete"),
	"GET /v1/acl/policies":                      anyRules,
	"GET /v1/acl/roles":                         anyRules,
	"GET /v1/acl/role/{id}":                     anyRules,
	"GET /v1/acl/role/name/{name}":              anyRules,
	"GET /v1/acl/policy/{name}":                 anyRules,
}

// anyNamespace lets in whoever has a capability in any namespace: the request's body names the
// one that counts, which is looked at once that is read.
func anyNamespace(anyOf ...string) func(*http.Request, *acl.Rights) bool {
	return func(_ *http.Request, by *acl.Rights) bool { return by.Namespace("*", anyOf...) }
}

// mayDeregister needs more for a job that is to be forgotten.
func mayDeregister(r *http.Request, by *acl.Rights) bool {
	purge, _ := boolParameter(r, "purge") // the handler tells what is wrong with it
	if purge {
		return by.Namespace(namespaceOf(r), "submit-job", "purge-job")
	}
	return by.Namespace(namespaceOf(r), "submit-job", "purge-job", "deregister-job")
}

// allocationNamespace is that of what the control plane knows. What the node may still have of
// another allocation is of no namespace.
func allocationNamespace(h *handler, r *http.Request) (string, error) {
	id := r.PathValue("id")
	switch a := h.ControlPlane.Allocation(id); {
	case a != nil:
		return a.Namespace, nil
	case strings.HasPrefix(r.URL.Path, "/v1/client/"):
		return "", h.notHere(id)
	}
	return "", notFound("alloc not found")
}

func evaluationNamespace(h *handler, r *http.Request) (string, error) {
	if e := h.ControlPlane.Evaluation(r.PathValue("id")); e != nil {
		return e.Namespace, nil
	}
	return "", notFound("eval not found")
}

func deploymentNamespace(h *handler, r *http.Request) (string, error) {
	if d := h.ControlPlane.Deployment(r.PathValue("id")); d != nil {
		return d.Namespace, nil
	}
	return "", notFound("deployment not found")
}

func policyNamespace(h *handler, r *http.Request) (string, error) {
	for _, p := range h.ControlPlane.ScalingPolicies() {
		if p.ID == r.PathValue("id") {
			return p.Namespace, nil
		}
	}
	return "", notFound("policy not found")
}

// namespaceOf is the namespace that a request names, or the default one.
func namespaceOf(r *http.Request) string {
	return cmp.Or(r.URL.Query().Get("namespace"), nomad.DefaultNamespace)
}

// needOf is what rules have to allow for an endpoint; nil: nothing does.
func needOf(method, pattern string, r *http.Request) *need {
	if method == http.MethodPost {
		method = http.MethodPut
	}
	if pattern == jobPattern {
		_, verb := jobPath(r)
		pattern += "/" + verb
	}
	return needs[method+" "+pattern]
}

// caller is who sent a request, and for what.
type caller struct {
	rights *acl.Rights
	enough bool  // its level does, whatever rules say
	need   *need // of the endpoint, once that is known
	// task is the one whose identity came with the request; nil: it is somebody else.
	task *structs.Workload
	part bool // a task is served its own part, whatever rules say
	// elsewhere marks a request that servers answer, who look at its token.
	elsewhere bool
	// later marks who has still to show a token, and may do nothing before that but become a
	// websocket.
	later bool
}

type callerKey struct{}

func withCaller(r *http.Request, c *caller) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), callerKey{}, c))
}

// callerOf is who sent a request; one that did not come by the guard may do nothing.
func callerOf(r *http.Request) *caller {
	if c, is := r.Context().Value(callerKey{}).(*caller); is {
		return c
	}
	return &caller{}
}

// allow refuses what neither the caller's level nor its rules allow of an endpoint.
func (h *handler) allow(method, pattern string, r *http.Request) error {
	c := callerOf(r)
	n := needOf(method, pattern, r)
	c.need = n
	switch {
	case c.enough, c.part:
		return nil
	case c.later:
		return deniedUnless(n == needs["GET /v1/client/allocation/{id}/exec"] || n == needs["GET /v1/job/{rest...}/action"])
	}
	switch {
	case n == nil:
		return access.ErrDenied
	case n.may != nil:
		return deniedUnless(n.may(r, c.rights))
	case n.in == nil:
		return deniedUnless(c.mayIn(namespaceOf(r)))
	}
	namespace, err := n.in(h, r)
	if err != nil && c.mayIn("*") {
		return err
	}
	return deniedUnless(err == nil && c.mayIn(namespace))
}

func deniedUnless(may bool) error {
	if may {
		return nil
	}
	return access.ErrDenied
}

// mayIn reports whether the caller may have what it asks for of a namespace. In "*" it may
// where it may in any.
func (c *caller) mayIn(namespace string) bool {
	if c.part && namespace == c.task.Namespace {
		return true
	}
	return c.enough || c.need != nil && c.rights.Namespace(namespace, c.need.caps...)
}

// seesNamespace reports whether the caller may do anything in a namespace.
func (c *caller) seesNamespace(name string) bool { return c.enough || c.rights.SeesNamespace(name) }

// readsJobs reports whether the caller may read the jobs of a namespace, and what belongs to them.
func (c *caller) readsJobs(namespace string) bool {
	return c.enough || c.rights.Namespace(namespace, "read-job")
}

// readsVolumes reports whether the caller may read the host volumes of a namespace.
func (c *caller) readsVolumes(namespace string) bool {
	return c.enough || c.rights.Namespace(namespace, "host-volume-read")
}

// readsNodes reports whether the caller may read nodes.
func (c *caller) readsNodes() bool { return c.enough || c.rights.Node(false) }

// seesPool reports whether the caller may read of a node pool.
func (c *caller) seesPool(name string) bool { return c.enough || c.rights.Pool(name, "read") }

// mayVariable reports whether the caller may do something with what is at a path.
func (c *caller) mayVariable(namespace, path, operation string) bool {
	return c.enough || c.rights.Variable(namespace, path, operation)
}

// readsLocks reports whether the caller may know the IDs of locks, which let whoever has one write.
func (c *caller) readsLocks() bool { return c.rights.Level() == acl.Manager }

// mayExec refuses commands in a task that is not isolated to who may only run some in those
// that are.
func (c *caller) mayExec(a *structs.Allocation, task string) error {
	if c.enough {
		return nil
	}
	if t := a.Task(task); t != nil && !clientapi.Isolated(t.Driver) && !c.rights.Namespace(a.Namespace, "alloc-node-exec") {
		return access.ErrDenied
	}
	return nil
}

// mayMount refuses a job with a host volume that the caller may not mount so.
func (c *caller) mayMount(job *nomad.Job) error {
	if c.enough {
		return nil
	}
	for _, g := range job.TaskGroups {
		if g == nil {
			continue // it is refused for that
		}
		for _, v := range g.Volumes {
			if v != nil && strings.EqualFold(v.Type, "host") && !c.rights.HostVolume(v.Source, !v.ReadOnly) {
				return access.ErrDenied
			}
		}
	}
	return nil
}
