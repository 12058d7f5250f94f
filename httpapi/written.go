package httpapi

import (
	"bytes"
	"io"
	"net/http"
	"reflect"
	"strconv"

	nomad "github.com/hashicorp/nomad/api"
)

// written are the endpoints that change something and that a node of a cluster passes on to a
// server, as asked has those that read.
var written = map[string]passedOn{
	"PUT /v1/jobs":                          registered,
	"PUT /v1/job/{rest...}/":                registered,
	"PUT /v1/validate/job":                  validated,
	"PUT /v1/job/{rest...}/plan":            planned,
	"PUT /v1/job/{rest...}/evaluate":        whole[object]("Job.Evaluate", both(fields[struct{ EvalOptions nomad.EvalOptions }], ofJob)),
	"PUT /v1/job/{rest...}/dispatch":        whole[object]("Job.Dispatch", agreed(fields[dispatched], ofJob)),
	"PUT /v1/job/{rest...}/periodic/force":  whole[object]("Periodic.Force", ofJob),
	"PUT /v1/job/{rest...}/revert":          whole[object]("Job.Revert", agreed(needed(fields[reverted]), ofJob)),
	"PUT /v1/job/{rest...}/scale":           whole[object]("Job.Scale", needed(scaledJob)),
	"PUT /v1/job/{rest...}/stable":          whole[object]("Job.Stable", agreed(needed(fields[stable]), ofJob)),
	"PUT /v1/job/{rest...}/versions/tag":    whole[object]("Job.TagVersion", tag),
	"DELETE /v1/job/{rest...}/versions/tag": whole[object]("Job.TagVersion", ofTag),
	"DELETE /v1/job/{rest...}/":             whole[object]("Job.Deregister", deregistered),

	"PUT /v1/allocation/{id}/stop":              stopped,
	"DELETE /v1/evaluations":                    whole[object]("Eval.Delete", fields[nomad.EvalDeleteRequest]),
	"PUT /v1/deployment/promote/{id}":           whole[object]("Deployment.Promote", agreed(needed(fields[promotion]), deploymentID)),
	"PUT /v1/deployment/pause/{id}":             whole[object]("Deployment.Pause", agreed(needed(fields[paused]), deploymentID)),
	"PUT /v1/deployment/fail/{id}":              whole[object]("Deployment.Fail", deploymentID),
	"PUT /v1/deployment/unblock/{id}":           whole[object]("Deployment.Unblock", deploymentID),
	"PUT /v1/deployment/allocation-health/{id}": whole[object]("Deployment.SetAllocHealth", agreed(needed(fields[allocationHealth]), deploymentID)),

	"PUT /v1/node/{id}/drain":              whole[object]("Node.UpdateDrain", needed(drain)),
	"PUT /v1/node/{id}/eligibility":        whole[object]("Node.UpdateEligibility", agreed(needed(fields[eligibility]), named("NodeID", "id"))),
	"PUT /v1/node/{id}/evaluate":           whole[object]("Node.Evaluate", named("NodeID", "id")),
	"PUT /v1/node/{id}/purge":              whole[object]("Node.Deregister", named("NodeID", "id")),
	"PUT /v1/node/pools":                   acknowledged("NodePool.UpsertNodePools", one("NodePools", "", nodePoolName)),
	"PUT /v1/node/pool/{pool}":             acknowledged("NodePool.UpsertNodePools", one("NodePools", "pool", nodePoolName)),
	"DELETE /v1/node/pool/{pool}":          acknowledged("NodePool.DeleteNodePools", list("Names", "pool")),
	"PUT /v1/namespace":                    acknowledged("Namespace.UpsertNamespaces", one("Namespaces", "", namespaceName)),
	"PUT /v1/namespace/{name}":             acknowledged("Namespace.UpsertNamespaces", one("Namespaces", "name", namespaceName)),
	"DELETE /v1/namespace/{name}":          acknowledged("Namespace.DeleteNamespaces", list("Namespaces", "name")),
	"DELETE /v1/service/{name}/{instance}": acknowledged("ServiceRegistration.DeleteByID", named("ID", "instance")),
	"PUT " + variablePattern:               putsVariable,
	"DELETE " + variablePattern:            deletesVariable,
	"PUT /v1/volume/host/create":           whole[volumeChanged]("HostVolume.Create", fields[volumeWanted]),
	"PUT /v1/volume/host/register":         whole[volumeChanged]("HostVolume.Register", fields[volumeWanted]),
	"DELETE /v1/volume/host/{id}":          whole[object]("HostVolume.Delete", both(named("VolumeID", "id"), flagged(map[string]string{"Force": "force"}))),
	"DELETE /v1/volumes/claim/{id}":        acknowledged("TaskGroupHostVolumeClaim.Delete", named("ClaimID", "id")),

	"PUT /v1/system/gc":                         acknowledged("System.GarbageCollect", nil),
	"PUT /v1/system/reconcile/summaries":        acknowledged("System.ReconcileJobSummaries", nil),
	"PUT /v1/operator/scheduler/configuration":  whole[object]("Operator.SchedulerSetConfiguration", needed(scheduler)),
	"PUT /v1/operator/autopilot/configuration":  plain[bool]("Operator.AutopilotSetConfiguration", needed(autopilot)),
	"DELETE /v1/operator/raft/peer":             acknowledged("Operator.RaftRemovePeerByID", peer),
	"PUT /v1/operator/raft/transfer-leadership": whole[object]("Operator.TransferLeadershipToPeer", peer),
	"PUT /v1/operator/keyring/rotate":           whole[object]("Keyring.Rotate", rotation),
	"DELETE /v1/operator/keyring/key/{id}":      whole[object]("Keyring.Delete", both(named("KeyID", "id"), flagged(map[string]string{"Force": "force"}))),
}

// The bodies of requests, of which a server is sent each field by its name.
type (
	dispatched struct {
		JobID            string
		Payload          []byte
		Meta             map[string]string
		IdPrefixTemplate string
		Priority         int
	}
	reverted struct {
		JobID                   string
		JobVersion              uint64
		EnforcePriorVersion     *uint64
		ConsulToken, VaultToken string
	}
	scaled struct {
		Count                 *int64
		Target                map[string]string
		Message               string
		Error, PolicyOverride bool
		Meta                  map[string]any
		JobModifyIndex        uint64
	}
	stable struct {
		JobID      string
		JobVersion uint64
		Stable     bool
	}
	promotion struct {
		DeploymentID string
		All          bool
		Groups       []string
	}
	paused struct {
		DeploymentID string
		Pause        bool
	}
	allocationHealth struct {
		DeploymentID                                 string
		HealthyAllocationIDs, UnhealthyAllocationIDs []string
	}
	eligibility  struct{ NodeID, Eligibility string }
	volumeWanted struct {
		Volume         *nomad.HostVolume
		PolicyOverride bool
	}
)

// volumeChanged is what servers answer for a volume.
type volumeChanged struct {
	Volume   *nomad.HostVolume
	Warnings string
	Index    uint64
}

// acknowledged passes on a change of which only the index is told.
func acknowledged(method string, args arguments) passedOn {
	return passOn(method, args, func(decode func(any) error) (any, told, error) {
		var t told
		err := decode(&t)
		return withStatus{status: http.StatusOK}, t, err
	})
}

// fields are those of the body, as arguments of their names. What the path names goes before them.
func fields[T any](r *http.Request) (map[string]any, error) {
	var body T
	if err := decode(r, &body); err != nil {
		return nil, err
	}
	all, v := map[string]any{}, reflect.ValueOf(body)
	for i := range v.NumField() {
		if f := v.Type().Field(i); !f.Anonymous {
			all[f.Name] = v.Field(i).Interface()
		}
	}
	return all, nil
}

// needed are arguments of a body that must not be empty: servers would take that for one whose values
// are all zero.
func needed(args arguments) arguments {
	return func(r *http.Request) (map[string]any, error) {
		body, err := readBody(r)
		if err != nil {
			return nil, err
		}
		if len(bytes.TrimSpace(body)) == 0 {
			return nil, badRequest("Request body is empty")
		}
		whole := r.Body
		defer func() { r.Body = whole }() // by which its place is known
		r.Body = io.NopCloser(bytes.NewReader(body))
		return args(r)
	}
}

// agreed are the arguments of a body and of what the path names: what the body says of that, too, has
// to be the same.
func agreed(ofBody, ofPath arguments) arguments {
	return func(r *http.Request) (map[string]any, error) {
		all, err := ofBody(r)
		if err != nil {
			return nil, err
		}
		named, err := ofPath(r)
		for name, value := range named {
			said, _ := all[name].(string)
			if err := sameName(said, value); err != nil {
				return nil, err
			}
			all[name] = value
		}
		return all, err
	}
}

// scaledJob is how a job is to be scaled, whose target may name it, too.
func scaledJob(r *http.Request) (map[string]any, error) {
	all, err := both(fields[scaled], ofJob)(r)
	if err != nil {
		return nil, err
	}
	return all, sameName(all["Target"].(map[string]string)["Job"], all["JobID"])
}

// sameName refuses a body that is about something else than its path; it may leave that out.
func sameName(said string, inPath any) error {
	if said == "" || said == inPath {
		return nil
	}
	return badRequest("the request is about %q, and its path names %q", said, inPath)
}

// one is the object of the body, as an argument that is a list of it. Its name has to be that of the
// path, where there is one, or is that.
func one[T any](argument, inPath string, nameOf func(*T) *string) arguments {
	return needed(func(r *http.Request) (map[string]any, error) {
		body := new(T)
		if err := decode(r, body); err != nil {
			return nil, err
		}
		if inPath != "" {
			name := nameOf(body)
			if err := sameName(*name, r.PathValue(inPath)); err != nil {
				return nil, err
			}
			*name = r.PathValue(inPath)
		}
		return map[string]any{argument: []*T{body}}, nil
	})
}

func nodePoolName(p *nomad.NodePool) *string   { return &p.Name }
func namespaceName(n *nomad.Namespace) *string { return &n.Name }

// list is a value of the path, as an argument that is a list of it.
func list(argument, inPath string) arguments {
	return func(r *http.Request) (map[string]any, error) {
		return map[string]any{argument: []string{r.PathValue(inPath)}}, nil
	}
}

var deploymentID = named("DeploymentID", "id")

// ofTag is the tag that a path names, which is removed where the request has none.
func ofTag(r *http.Request) (map[string]any, error) {
	id, name, _ := tagPath(r.PathValue("rest"))
	return map[string]any{"JobID": id, "Name": name}, nil
}

func tag(r *http.Request) (map[string]any, error) {
	var body nomad.TagVersionRequest
	if err := decode(r, &body); err != nil {
		return nil, err
	}
	all, err := ofTag(r)
	all["Version"], all["Latest"] = body.Version, body.Latest
	all["Tag"] = &nomad.JobVersionTag{Name: all["Name"].(string), Description: body.Description}
	return all, err
}

func deregistered(r *http.Request) (map[string]any, error) {
	all, err := both(ofJob, flagged(map[string]string{"Purge": "purge", "Global": "global", "NoShutdownDelay": "no_shutdown_delay"}))(r)
	if err != nil {
		return nil, err
	}
	if s := r.URL.Query().Get("eval_priority"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			return nil, badRequest("Failed to parse value of %q (%v) as a int: %v", "eval_priority", s, err)
		}
		all["EvalPriority"] = n
	}
	return all, nil
}

// stopped stops an allocation, which has to be known.
func stopped(h *handler, w http.ResponseWriter, r *http.Request) error {
	args := both(named("AllocID", "id"), flagged(map[string]string{"NoShutdownDelay": "no_shutdown_delay", "Reschedule": "reschedule"}))
	return missing(whole[object]("Alloc.Stop", args)(h, w, r))
}

// drain begins, changes or ends a drain: without a specification there is none any more.
func drain(r *http.Request) (map[string]any, error) {
	var body nomad.NodeUpdateDrainRequest
	if err := decode(r, &body); err != nil {
		return nil, err
	}
	all := map[string]any{"NodeID": r.PathValue("id"), "MarkEligible": body.MarkEligible, "Meta": body.Meta}
	if body.DrainSpec != nil {
		all["DrainStrategy"] = body.DrainSpec
	}
	return all, nil
}

// compared has a configuration of servers be changed only where it is of the index that a request names.
func compared(r *http.Request, config any, index *uint64) (map[string]any, error) {
	all := map[string]any{"Config": config}
	expected, err := expectedIndex(r)
	if expected != nil {
		*index, all["CAS"] = *expected, true
	}
	return all, err
}

func scheduler(r *http.Request) (map[string]any, error) {
	var c nomad.SchedulerConfiguration
	if err := decode(r, &c); err != nil {
		return nil, err
	}
	switch c.SchedulerAlgorithm {
	case "", nomad.SchedulerAlgorithmBinpack, nomad.SchedulerAlgorithmSpread:
	default: // servers take any
		return nil, badRequest("invalid scheduler algorithm: %q is neither %s nor %s", c.SchedulerAlgorithm, nomad.SchedulerAlgorithmBinpack, nomad.SchedulerAlgorithmSpread)
	}
	return compared(r, &c, &c.ModifyIndex)
}

func autopilot(r *http.Request) (map[string]any, error) {
	var c nomad.AutopilotConfiguration
	if err := decode(r, &c); err != nil {
		return nil, err
	}
	return compared(r, &c, &c.ModifyIndex)
}

// peer is the server that a request names.
func peer(r *http.Request) (map[string]any, error) {
	id, address := r.URL.Query().Get("id"), r.URL.Query().Get("address")
	switch {
	case id == "" && address == "":
		return nil, badRequest("must specify id or address")
	case id != "" && address != "":
		return nil, badRequest("must specify either id or address")
	case r.Method == http.MethodDelete && id == "":
		return nil, badRequest("Must specify the peer's ID to remove")
	}
	return map[string]any{"ID": id, "Address": address}, nil
}

func rotation(r *http.Request) (map[string]any, error) {
	v := r.URL.Query()
	full, err := boolParameter(r, "full")
	if err != nil {
		return nil, err
	}
	all := map[string]any{"Algorithm": v.Get("algo"), "Full": full || v.Has("full") && v.Get("full") == ""}
	if s := v.Get("publish_time"); s != "" {
		at, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			return nil, badRequest("publish_time: %q is no time", s)
		}
		all["PublishTime"] = at
	}
	return all, nil
}
