package httpapi

import (
	"errors"
	"maps"
	"net"
	"net/http"
	"reflect"
	"strconv"
	"sync"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/httpapi/access"
)

// passedOn answers a request with what a server has answered.
type passedOn func(h *handler, w http.ResponseWriter, r *http.Request) error

// arguments are those of a question besides the ones that all have.
type arguments func(r *http.Request) (map[string]any, error)

// asked are the endpoints that a node of a cluster passes on to a server, by their method, PUT
// standing for POST, and pattern; of a job with what follows its ID. They are what people and tools
// read.
var asked = map[string]passedOn{
	"GET /v1/jobs":                             listed[*nomad.JobListStub]("Job.List", "Jobs", jobFields),
	"GET /v1/jobs/statuses":                    listed[*jobStatus]("Job.Statuses", "Jobs", withChildren),
	"PUT /v1/jobs/statuses":                    listed[*jobStatus]("Job.Statuses", "Jobs", namedJobs),
	"GET /v1/job/{rest...}/":                   inField[*serversJob]("Job.GetJob", "Job", ofJob, givenJob),
	"GET /v1/job/{rest...}/actions":            listed[*jobAction]("Job.GetActions", "Actions", ofJob),
	"GET /v1/job/{rest...}/summary":            found[nomad.JobSummary]("Job.Summary", "JobSummary", ofJob, "job not found"),
	"GET /v1/job/{rest...}/versions":           passOn("Job.GetJobVersions", versionsOfJob, givenVersions),
	"GET /v1/job/{rest...}/submission":         found[nomad.JobSubmission]("Job.GetJobSubmission", "Submission", submissionOfJob, "job source not found"),
	"GET /v1/job/{rest...}/scale":              found[nomad.JobScaleStatusResponse]("Job.ScaleStatus", "JobScaleStatus", ofJob, "job not found"),
	"GET /v1/job/{rest...}/allocations":        listed[*nomad.AllocationListStub]("Job.Allocations", "Allocations", allOfJob),
	"GET /v1/job/{rest...}/evaluations":        listed[*nomad.Evaluation]("Job.Evaluations", "Evaluations", ofJob),
	"GET /v1/job/{rest...}/deployments":        listed[*nomad.Deployment]("Job.Deployments", "Deployments", allOfJob),
	"GET /v1/job/{rest...}/deployment":         found[nomad.Deployment]("Job.LatestDeployment", "Deployment", ofJob, ""),
	"GET /v1/job/{rest...}/services":           listed[*nomad.ServiceRegistration]("Job.GetServiceRegistrations", "Services", ofJob),
	"GET /v1/allocations":                      listed[*nomad.AllocationListStub]("Alloc.List", "Allocations", allocationFields),
	"GET /v1/allocation/{id}":                  inField[*nomad.Allocation]("Alloc.GetAlloc", "Alloc", named("AllocID", "id"), givenAllocation),
	"GET /v1/allocation/{id}/services":         listed[*nomad.ServiceRegistration]("Alloc.GetServiceRegistrations", "Services", named("AllocID", "id")),
	"GET /v1/evaluations":                      listed[*nomad.Evaluation]("Eval.List", "Evaluations", evaluationFields),
	"GET /v1/evaluations/count":                whole[counted]("Eval.Count", evaluationFields),
	"GET /v1/evaluation/{id}":                  found[nomad.Evaluation]("Eval.GetEval", "Eval", relatedEvaluations, "eval not found"),
	"GET /v1/evaluation/{id}/allocations":      listed[*nomad.AllocationListStub]("Eval.Allocations", "Allocations", named("EvalID", "id")),
	"GET /v1/deployments":                      listed[*nomad.Deployment]("Deployment.List", "Deployments", nil),
	"GET /v1/deployment/{id}":                  found[nomad.Deployment]("Deployment.GetDeployment", "Deployment", named("DeploymentID", "id"), "deployment not found"),
	"GET /v1/deployment/allocations/{id}":      listed[*nomad.AllocationListStub]("Deployment.Allocations", "Allocations", named("DeploymentID", "id")),
	"GET /v1/nodes":                            listed[*nomad.NodeListStub]("Node.List", "Nodes", nodeFields),
	"GET /v1/node/{id}":                        found[nomad.Node]("Node.GetNode", "Node", named("NodeID", "id"), "node not found"),
	"GET /v1/node/{id}/allocations":            listed[*nomad.Allocation]("Node.GetAllocs", "Allocs", named("NodeID", "id")),
	"GET /v1/node/pools":                       listed[*nomad.NodePool]("NodePool.List", "NodePools", nil),
	"GET /v1/node/pool/{pool}":                 found[nomad.NodePool]("NodePool.GetNodePool", "NodePool", named("Name", "pool"), "node pool not found"),
	"GET /v1/node/pool/{pool}/nodes":           listed[*nomad.NodeListStub]("NodePool.ListNodes", "Nodes", both(named("Name", "pool"), nodeFields)),
	"GET /v1/node/pool/{pool}/jobs":            listed[*nomad.JobListStub]("NodePool.ListJobs", "Jobs", both(named("Name", "pool"), jobFields)),
	"GET /v1/namespaces":                       listed[*nomad.Namespace]("Namespace.ListNamespaces", "Namespaces", nil),
	"GET /v1/namespace/{name}":                 found[nomad.Namespace]("Namespace.GetNamespace", "Namespace", named("Name", "name"), "Namespace not found"),
	"GET /v1/services":                         listed[*nomad.ServiceRegistrationListStub]("ServiceRegistration.List", "Services", nil),
	"GET /v1/service/{name}":                   listed[*nomad.ServiceRegistration]("ServiceRegistration.GetService", "Services", chosenService),
	"GET /v1/vars":                             listed[*serversVariable]("Variables.List", "Data", nil),
	"GET " + variablePattern:                   found[serversVariable]("Variables.Read", "Data", named("Path", "path"), "variable not found"),
	"GET /v1/scaling/policies":                 listed[*nomad.ScalingPolicyListStub]("Scaling.ListPolicies", "Policies", queried(map[string]string{"Job": "job", "Type": "type"})),
	"GET /v1/scaling/policy/{id}":              found[nomad.ScalingPolicy]("Scaling.GetPolicy", "Policy", named("ID", "id"), "policy not found"),
	"GET /v1/volumes":                          volumes,
	"GET /v1/volume/host/{id}":                 found[nomad.HostVolume]("HostVolume.Get", "Volume", named("ID", "id"), "volume not found"),
	"GET /v1/volume/csi/{id}":                  found[nomad.CSIVolume]("CSIVolume.Get", "Volume", named("ID", "id"), "volume not found"),
	"GET /v1/volumes/claims":                   listed[*nomad.TaskGroupHostVolumeClaim]("TaskGroupHostVolumeClaim.List", "Claims", queried(map[string]string{"JobID": "job_id", "TaskGroup": "task_group", "VolumeName": "volume_name"})),
	"GET /v1/plugins":                          listed[*nomad.CSIPluginListStub]("CSIPlugin.List", "Plugins", nil),
	"GET /v1/plugin/csi/{id}":                  found[nomad.CSIPlugin]("CSIPlugin.Get", "Plugin", named("ID", "id"), "plugin not found"),
	"GET /v1/acl/token/self":                   found[nomad.ACLToken]("ACL.ResolveToken", "Token", ownSecret, "ACL token not found"),
	"GET /v1/acl/tokens":                       listed[*nomad.ACLTokenListStub]("ACL.ListTokens", "Tokens", globalTokens),
	"GET /v1/acl/token/{accessor}":             found[nomad.ACLToken]("ACL.GetToken", "Token", named("AccessorID", "accessor"), "ACL token not found"),
	"GET /v1/acl/policies":                     listed[*nomad.ACLPolicyListStub]("ACL.ListPolicies", "Policies", nil),
	"GET /v1/acl/policy/self":                  callersPolicies,
	"GET /v1/acl/policy/{name}":                found[nomad.ACLPolicy]("ACL.GetPolicy", "Policy", named("Name", "name"), "ACL policy not found"),
	"GET /v1/acl/roles":                        listed[*nomad.ACLRoleListStub]("ACL.ListRoles", "ACLRoles", nil),
	"GET /v1/acl/role/{id}":                    found[nomad.ACLRole]("ACL.GetRoleByID", "ACLRole", named("RoleID", "id"), "ACL role not found"),
	"GET /v1/acl/role/name/{name}":             found[nomad.ACLRole]("ACL.GetRoleByName", "ACLRole", named("RoleName", "name"), "ACL role not found"),
	"GET /v1/acl/auth-methods":                 listed[*nomad.ACLAuthMethodListStub]("ACL.ListAuthMethods", "AuthMethods", nil),
	"GET /v1/acl/auth-method/{name}":           found[nomad.ACLAuthMethod]("ACL.GetAuthMethod", "AuthMethod", named("MethodName", "name"), "ACL auth-method not found"),
	"GET /v1/acl/binding-rules":                listed[*nomad.ACLBindingRuleListStub]("ACL.ListBindingRules", "ACLBindingRules", nil),
	"GET /v1/acl/binding-rule/{id}":            found[nomad.ACLBindingRule]("ACL.GetBindingRule", "ACLBindingRule", named("ACLBindingRuleID", "id"), "ACL binding rule not found"),
	"GET /v1/operator/scheduler/configuration": whole[object]("Operator.SchedulerGetConfiguration", nil),
	"GET /v1/operator/raft/configuration":      whole[nomad.RaftConfiguration]("Operator.RaftGetConfiguration", nil),
	"GET /v1/operator/autopilot/configuration": whole[nomad.AutopilotConfiguration]("Operator.AutopilotGetConfiguration", nil),
	"GET /v1/operator/autopilot/health":        health,
	"GET /v1/operator/keyring/keys":            listed[*nomad.RootKeyMeta]("Keyring.List", "Keys", nil),
	"GET /v1/status/leader":                    plain[string]("Status.Leader", nil),
	"GET /v1/status/peers":                     plain[[]string]("Status.Peers", nil),
	"GET /v1/regions":                          plain[[]string]("Region.List", nil),
	"GET /v1/agent/members":                    members,
	"GET " + jwksPath:                          publicKeys,
	"GET " + discoveryPath:                     discovered,
	"PUT /v1/search":                           whole[nomad.SearchResponse]("Search.PrefixSearch", searchFor),
	"PUT /v1/search/fuzzy":                     whole[nomad.FuzzySearchResponse]("Search.FuzzySearch", searchFor),
}

// jobVersions is what Nomad answers for a job's versions.
type jobVersions struct {
	Versions []*nomad.Job
	Diffs    []*nomad.JobDiff
	told
}

type counted struct {
	Count int
	told
}

// listed passes on a question whose answer has a list in a field; where that is nil, it is empty.
func listed[T any](method, field string, args arguments) passedOn {
	return inField[[]T](method, field, args, func(list []T) (any, error) {
		if list == nil {
			list = []T{}
		}
		return list, nil
	})
}

// found passes on a question whose answer has an object in a field; where there is none, that is
// missing, or, with an empty text, null.
func found[T any](method, field string, args arguments, missing string) passedOn {
	return inField[*T](method, field, args, func(one *T) (any, error) {
		if one == nil && missing != "" {
			return nil, notFound("%s", missing)
		}
		return one, nil
	})
}

// inField passes on a question whose answer is in one field of what servers answer.
func inField[T any](method, field string, args arguments, render func(T) (any, error)) passedOn {
	reply := reflect.StructOf([]reflect.StructField{{Name: field, Type: reflect.TypeFor[T]()}})
	return passOn(method, args, func(decode func(any) error) (any, told, error) {
		var t told
		v := reflect.New(reply)
		if err := decode(&t); err != nil {
			return nil, t, err
		}
		if err := decode(v.Interface()); err != nil {
			return nil, t, err
		}
		body, err := render(v.Elem().Field(0).Interface().(T))
		return body, t, err
	})
}

// object is an answer of servers that has nothing but texts, numbers and what consists of them, and
// is told as it is.
type object map[string]any

// whole passes on a question whose answer is rendered as it is.
func whole[T any](method string, args arguments) passedOn {
	return passOn(method, args, func(decode func(any) error) (any, told, error) {
		return answerOf[T](decode)
	})
}

// answerOf is what servers have answered, and what is in every answer of theirs.
func answerOf[T any](decode func(any) error) (*T, told, error) {
	var t told
	v := new(T)
	err := errors.Join(decode(&t), decode(v))
	return v, t, err
}

// plain passes on a question whose answer is a value and nothing else.
func plain[T any](method string, args arguments) passedOn {
	return passOn(method, args, func(decode func(any) error) (any, told, error) {
		v := new(T)
		return v, told{}, decode(v)
	})
}

// withStatus is an answer with a status of its own, or without a body.
type withStatus struct {
	body   any
	status int
}

// passOn asks a server, and renders its answer, of which there are few at a time.
func passOn(method string, args arguments, render func(decode func(any) error) (any, told, error)) passedOn {
	return func(h *handler, w http.ResponseWriter, r *http.Request) error {
		var further map[string]any
		var err error
		if args != nil {
			if further, err = args(r); err != nil {
				return err
			}
		}
		decode, done, err := h.ask(r, method, further)
		if err != nil {
			return err
		}
		done = sync.OnceFunc(done)
		defer done()
		var with withStatus
		out, err := h.prepare(w, r, func() (any, error) {
			body, t, err := render(decode)
			if err != nil {
				return nil, err
			}
			t.tell(w.Header())
			if is, bare := body.(withStatus); bare {
				with, body = is, is.body
			}
			return body, nil
		})
		if err != nil {
			return err
		}
		done() // however long the client takes
		if with.status != 0 && with.body == nil {
			w.WriteHeader(with.status)
			return nil
		}
		out.status = with.status
		return h.send(w, out)
	}
}

// named is a value of the path, as an argument of a name.
func named(argument, inPath string) arguments {
	return func(r *http.Request) (map[string]any, error) {
		return map[string]any{argument: r.PathValue(inPath)}, nil
	}
}

// both are the arguments of two.
func both(a, b arguments) arguments {
	return func(r *http.Request) (map[string]any, error) {
		all, err := a(r)
		if err != nil {
			return nil, err
		}
		more, err := b(r)
		maps.Copy(all, more)
		return all, err
	}
}

// queried are parameters of the query, as arguments of other names.
func queried(names map[string]string) arguments {
	return func(r *http.Request) (map[string]any, error) {
		all := map[string]any{}
		for argument, parameter := range names {
			all[argument] = r.URL.Query().Get(parameter)
		}
		return all, nil
	}
}

// flags are parameters that are true or false, as arguments of other names.
func flags(r *http.Request, names map[string]string) (map[string]any, error) {
	all := map[string]any{}
	for argument, parameter := range names {
		is, err := boolParameter(r, parameter)
		if err != nil {
			return nil, err
		}
		all[argument] = is
	}
	return all, nil
}

// flagged is flags, as arguments.
func flagged(names map[string]string) arguments {
	return func(r *http.Request) (map[string]any, error) { return flags(r, names) }
}

func ofJob(r *http.Request) (map[string]any, error) {
	id, _ := jobPath(r)
	return map[string]any{"JobID": id}, nil
}

func allOfJob(r *http.Request) (map[string]any, error) {
	return both(ofJob, flagged(map[string]string{"All": "all"}))(r)
}

func versionsOfJob(r *http.Request) (map[string]any, error) {
	all, err := both(ofJob, flagged(map[string]string{"Diffs": "diffs"}))(r)
	if err != nil {
		return nil, err
	}
	v := r.URL.Query()
	all["DiffTagName"] = v.Get("diff_tag")
	if text := v.Get("diff_version"); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return nil, badRequest("diff_version: %q is no version", text)
		}
		all["DiffVersion"] = n
	}
	return all, nil
}

func submissionOfJob(r *http.Request) (map[string]any, error) {
	all, _ := ofJob(r)
	n, err := strconv.ParseUint(r.URL.Query().Get("version"), 10, 64)
	if err != nil {
		return nil, badRequest("version: %q is no version", r.URL.Query().Get("version"))
	}
	all["Version"] = n
	return all, nil
}

func jobFields(r *http.Request) (map[string]any, error) {
	fields, err := flags(r, map[string]string{"Meta": "meta"})
	return map[string]any{"Fields": fields}, err
}

func withChildren(r *http.Request) (map[string]any, error) {
	return flags(r, map[string]string{"IncludeChildren": "include_children"})
}

// namedJobs are those that the body names.
func namedJobs(r *http.Request) (map[string]any, error) {
	req, err := readNamed(r)
	if err != nil {
		return nil, err
	}
	return map[string]any{"Jobs": req.Jobs, "IncludeChildren": req.IncludeChildren}, nil
}

func nodeFields(r *http.Request) (map[string]any, error) {
	fields, err := flags(r, map[string]string{"Resources": "resources", "OS": "os"})
	return map[string]any{"Fields": fields}, err
}

// allocationFields has the states of tasks unless they are not wanted, as Nomad.
func allocationFields(r *http.Request) (map[string]any, error) {
	fields, err := flags(r, map[string]string{"Resources": "resources", "TaskStates": "task_states"})
	if err == nil && r.URL.Query().Get("task_states") == "" {
		fields["TaskStates"] = true
	}
	return map[string]any{"Fields": fields}, err
}

func evaluationFields(r *http.Request) (map[string]any, error) {
	v := r.URL.Query()
	return map[string]any{"FilterJobID": v.Get("job"), "FilterEvalStatus": v.Get("status")}, nil
}

func relatedEvaluations(r *http.Request) (map[string]any, error) {
	return both(named("EvalID", "id"), func(r *http.Request) (map[string]any, error) {
		return flags(r, map[string]string{"IncludeRelated": "related"})
	})(r)
}

func chosenService(r *http.Request) (map[string]any, error) {
	return map[string]any{"ServiceName": r.PathValue("name"), "Choose": r.URL.Query().Get("choose")}, nil
}

func ownSecret(r *http.Request) (map[string]any, error) {
	return map[string]any{"SecretID": access.Secret(r.Header)}, nil
}

// searchFor is what the body of a search asks for.
func searchFor(r *http.Request) (map[string]any, error) {
	var req struct{ Prefix, Text, Context, Namespace string }
	if err := decodeWithin(r, maxNamedBytes, &req); err != nil {
		return nil, err
	}
	all := map[string]any{"Prefix": req.Prefix, "Text": req.Text, "Context": req.Context}
	if req.Namespace != "" {
		all["Namespace"] = req.Namespace
	}
	return all, nil
}

// serverMembers are as servers tell of themselves, whose addresses are bytes.
type serverMembers struct {
	ServerName, ServerRegion, ServerDC string
	Members                            []*struct {
		Name, Status                                                                 string
		Addr                                                                         []byte
		Port                                                                         uint16
		Tags                                                                         map[string]string
		ProtocolMin, ProtocolMax, ProtocolCur, DelegateMin, DelegateMax, DelegateCur uint8
	}
}

var members = passOn("Status.Members", nil, func(decode func(any) error) (any, told, error) {
	var got serverMembers
	if err := decode(&got); err != nil {
		return nil, told{}, err
	}
	list := &nomad.ServerMembers{ServerName: got.ServerName, ServerRegion: got.ServerRegion, ServerDC: got.ServerDC, Members: []*nomad.AgentMember{}}
	for _, m := range got.Members {
		if m != nil {
			list.Members = append(list.Members, &nomad.AgentMember{
				Name: m.Name, Addr: net.IP(m.Addr).String(), Port: m.Port, Tags: m.Tags, Status: m.Status,
				ProtocolMin: m.ProtocolMin, ProtocolMax: m.ProtocolMax, ProtocolCur: m.ProtocolCur,
				DelegateMin: m.DelegateMin, DelegateMax: m.DelegateMax, DelegateCur: m.DelegateCur,
			})
		}
	}
	return list, told{}, nil
})
