package cluster

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/hashicorp/go-hclog"
	nomad "github.com/hashicorp/nomad/api"
	"github.com/klauspost/compress/snappy"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/controlplane/cluster/wire"
	"github.com/wasmnode/wasmnode/controlplane/standalone"
	"github.com/wasmnode/wasmnode/httpapi"
	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/structs/errdefs"
)

// passing is a node's API before a server that notes what it is asked.
type passing struct {
	*httptest.Server
	ofTasks *httptest.Server // the same as tasks reach it
	plane   *ControlPlane
	mu      sync.Mutex
	method  string
	args    map[string]any
	answer  func(method string) (any, error)
	// stream serves a streaming request once its arguments are noted.
	stream func(st *wire.Stream) error
}

// noAllocations is a node without any.
type noAllocations struct{ httpapi.Node }

func (noAllocations) AllocationChecks(string) (map[string]structs.CheckResult, error) {
	return nil, errdefs.New(errdefs.NotFound, "it is not here")
}

func passOn(t *testing.T) *passing {
	t.Helper()
	p := &passing{answer: func(string) (any, error) { return map[string]any{}, nil }}
	note := func(method string, decode func(any) error) error {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.method, p.args = method, map[string]any{}
		return decode(&p.args)
	}
	address, _ := listen(t, wire.Options{Handler: &wire.Handler{
		Call: func(_ context.Context, method string, decode func(any) error) (any, error) {
			if method == "Status.Leader" {
				return nil, nil
			}
			if err := note(method, decode); err != nil {
				return nil, err
			}
			return p.answer(method)
		},
		Streams: func(string) bool { return true },
		Stream: func(_ context.Context, method string, decode func(any) error, st *wire.Stream) error {
			if err := note(method, decode); err != nil {
				return err
			}
			return p.stream(st)
		},
	}})
	cp := join(t, address)
	_, err := cp.servers.await(t.Context(), nil)
	require.NoError(t, err)
	p.plane = cp
	plane, err := standalone.Open(standalone.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, plane.Close()) })
	api, tasks := httpapi.Handlers(httpapi.Config{
		Logger: hclog.NewNullLogger(), ControlPlane: plane, Servers: cp, Node: noAllocations{}, Metrics: prometheus.NewRegistry(),
		Agent:      httpapi.AgentInfo{NodeID: nodeID, Name: "n", Region: "global", Address: "127.0.0.1:4646"},
		Conditions: func() []structs.Condition { return nil },
	}, nil)
	p.Server, p.ofTasks = httptest.NewServer(api), httptest.NewServer(tasks)
	t.Cleanup(p.ofTasks.Close)
	t.Cleanup(p.Close)
	return p
}

// answered is what a request was answered with, besides its body.
type answered struct {
	StatusCode int
	Header     http.Header
}

// send sends a request with a token, and returns what is answered.
func (p *passing) send(t *testing.T, what, body string) (is answered, said string) {
	t.Helper()
	method, path, _ := strings.Cut(what, " ")
	r, err := http.NewRequestWithContext(t.Context(), method, p.URL+path, strings.NewReader(body))
	require.NoError(t, err)
	r.Header.Set("X-Nomad-Token", "caller's")
	answer, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer answer.Body.Close()
	b, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	return answered{answer.StatusCode, answer.Header}, string(b)
}

// asked is what the server was asked last, by the method and some of its arguments.
func (p *passing) asked(t *testing.T, method string, args map[string]any) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	require.Equal(t, method, p.method)
	require.Equal(t, "caller's", p.args["AuthToken"])
	if args["Region"] == nil {
		require.Equal(t, "global", p.args["Region"])
	}
	for name, value := range args {
		want, err := json.Marshal(value)
		require.NoError(t, err)
		got, err := json.Marshal(p.args[name])
		require.NoError(t, err)
		require.JSONEq(t, string(want), string(got), name)
	}
}

// passed is a request, what servers are asked for it, and what they and the node answer.
type passed struct {
	what, body string
	method     string
	args       map[string]any
	answer     any
	status     int // 0: 200
	said       string
}

var passedOn = []passed{
	{
		what: "PUT /v1/job/a/evaluate", body: `{"JobID":"a","EvalOptions":{"ForceReschedule":true}}`, method: "Job.Evaluate",
		args:   map[string]any{"JobID": "a", "EvalOptions": map[string]any{"ForceReschedule": true}},
		answer: map[string]any{"EvalID": "e", "EvalCreateIndex": 7, "Index": 7}, said: `{"EvalCreateIndex":7,"EvalID":"e","Index":7}`,
	},
	{what: "POST /v1/job/a/evaluate", method: "Job.Evaluate", args: map[string]any{"JobID": "a"}, said: `{}`},
	{
		what: "PUT /v1/job/a/dispatch?idempotency_token=i", body: `{"JobID":"a","Payload":"aGk=","Meta":{"k":"v"}}`, method: "Job.Dispatch",
		args:   map[string]any{"JobID": "a", "Payload": "hi", "Meta": map[string]any{"k": "v"}, "IdempotencyToken": "i"},
		answer: map[string]any{"DispatchedJobID": "a/x"}, said: `{"DispatchedJobID":"a/x"}`,
	},
	{what: "PUT /v1/job/a/b/periodic/force", method: "Periodic.Force", args: map[string]any{"JobID": "a/b"}, said: `{}`},
	{
		what: "PUT /v1/job/a/revert", body: `{"JobID":"a","JobVersion":2,"EnforcePriorVersion":3}`, method: "Job.Revert",
		args: map[string]any{"JobID": "a", "JobVersion": 2, "EnforcePriorVersion": 3}, said: `{}`,
	},
	{
		what: "PUT /v1/job/a/scale?namespace=x", body: `{"Target":{"Group":"g"},"Count":4,"Message":"m"}`, method: "Job.Scale",
		args: map[string]any{"JobID": "a", "Target": map[string]any{"Group": "g"}, "Count": 4, "Message": "m", "Namespace": "x"}, said: `{}`,
	},
	{what: "PUT /v1/job/a/stable", body: `{"JobID":"a","JobVersion":2,"Stable":true}`, method: "Job.Stable", args: map[string]any{"JobID": "a", "JobVersion": 2, "Stable": true}, said: `{}`},
	{
		what: "PUT /v1/job/a/versions/golden/tag", body: `{"Version":2,"Description":"d"}`, method: "Job.TagVersion",
		args: map[string]any{"JobID": "a", "Name": "golden", "Version": 2, "Tag": map[string]any{"Name": "golden", "Description": "d", "TaggedTime": 0}}, said: `{}`,
	},
	{what: "DELETE /v1/job/a/versions/golden/tag", method: "Job.TagVersion", args: map[string]any{"JobID": "a", "Name": "golden", "Tag": nil}, said: `{}`},
	{
		what: "DELETE /v1/job/a?purge=true&no_shutdown_delay=true&eval_priority=9", method: "Job.Deregister",
		args: map[string]any{"JobID": "a", "Purge": true, "Global": false, "NoShutdownDelay": true, "EvalPriority": 9}, said: `{}`,
	},
	{what: "GET /v1/job/a/actions", method: "Job.GetActions", args: map[string]any{"JobID": "a"}, answer: map[string]any{"Actions": []any{map[string]any{"Name": "n"}}}, said: `[{"Name":"n","TaskName":"","TaskGroupName":""}]`},
	{what: "GET /v1/scaling/policies?job=a&type=horizontal", method: "Scaling.ListPolicies", args: map[string]any{"Job": "a", "Type": "horizontal"}, said: `[]`},
	{what: "GET /v1/scaling/policy/x", method: "Scaling.GetPolicy", args: map[string]any{"ID": "x"}, status: 404, said: "policy not found"},

	{what: "PUT /v1/allocation/x/stop?no_shutdown_delay=true&reschedule=true", method: "Alloc.Stop", args: map[string]any{"AllocID": "x", "NoShutdownDelay": true, "Reschedule": true}, answer: map[string]any{"EvalID": "e"}, said: `{"EvalID":"e"}`},
	{what: "DELETE /v1/evaluations", body: `{"EvalIDs":["a"]}`, method: "Eval.Delete", args: map[string]any{"EvalIDs": []any{"a"}}, answer: map[string]any{"Count": 1}, said: `{"Count":1}`},
	{what: "DELETE /v1/evaluations", body: `{"Filter":"Status == x"}`, method: "Eval.Delete", args: map[string]any{"Filter": "Status == x"}, said: `{}`},
	{what: "PUT /v1/deployment/promote/d", body: `{"All":false,"Groups":["g"],"DeploymentID":"d"}`, method: "Deployment.Promote", args: map[string]any{"DeploymentID": "d", "All": false, "Groups": []any{"g"}}, said: `{}`},
	{what: "PUT /v1/deployment/pause/d", body: `{"Pause":true}`, method: "Deployment.Pause", args: map[string]any{"DeploymentID": "d", "Pause": true}, said: `{}`},
	{what: "PUT /v1/deployment/fail/d", method: "Deployment.Fail", args: map[string]any{"DeploymentID": "d"}, said: `{}`},
	{what: "PUT /v1/deployment/unblock/d", method: "Deployment.Unblock", args: map[string]any{"DeploymentID": "d"}, said: `{}`},
	{what: "PUT /v1/deployment/allocation-health/d", body: `{"HealthyAllocationIDs":["a"]}`, method: "Deployment.SetAllocHealth", args: map[string]any{"DeploymentID": "d", "HealthyAllocationIDs": []any{"a"}}, said: `{}`},

	{
		what: "PUT /v1/node/n/drain", body: `{"DrainSpec":{"Deadline":5,"IgnoreSystemJobs":true},"Meta":{"k":"v"}}`, method: "Node.UpdateDrain",
		args:   map[string]any{"NodeID": "n", "DrainStrategy": map[string]any{"Deadline": 5, "IgnoreSystemJobs": true}, "MarkEligible": false, "Meta": map[string]any{"k": "v"}},
		answer: map[string]any{"NodeModifyIndex": 3, "EvalIDs": nil}, said: `{"EvalIDs":null,"NodeModifyIndex":3}`,
	},
	{what: "PUT /v1/node/n/drain", body: `{"MarkEligible":true}`, method: "Node.UpdateDrain", args: map[string]any{"NodeID": "n", "DrainStrategy": nil, "MarkEligible": true}, said: `{}`},
	{what: "PUT /v1/node/n/eligibility", body: `{"Eligibility":"ineligible"}`, method: "Node.UpdateEligibility", args: map[string]any{"NodeID": "n", "Eligibility": "ineligible"}, said: `{}`},
	{what: "PUT /v1/node/n/evaluate", method: "Node.Evaluate", args: map[string]any{"NodeID": "n"}, said: `{}`},
	{what: "PUT /v1/node/n/purge", method: "Node.Deregister", args: map[string]any{"NodeID": "n"}, said: `{}`},
	{what: "PUT /v1/node/n/nothing", status: 501, said: "ask one of its servers"},
	{what: "PUT /v1/node/pool/p", body: `{"Name":"p","Description":"d"}`, method: "NodePool.UpsertNodePools", answer: map[string]any{"Index": 9}, said: ""},
	{what: "PUT /v1/node/pool/p", body: `{"Name":"q"}`, status: 400, said: `the request is about "q", and its path names "p"`},
	{what: "DELETE /v1/node/pool/p", method: "NodePool.DeleteNodePools", args: map[string]any{"Names": []any{"p"}}},
	{what: "PUT /v1/namespace", body: `{"Name":"x"}`, method: "Namespace.UpsertNamespaces"},
	{what: "DELETE /v1/namespace/x", method: "Namespace.DeleteNamespaces", args: map[string]any{"Namespaces": []any{"x"}}},
	{what: "DELETE /v1/service/web/i", method: "ServiceRegistration.DeleteByID", args: map[string]any{"ID": "i"}},
	{what: "GET /v1/volumes?type=host&node_pool=p", method: "HostVolume.List", args: map[string]any{"NodePool": "p"}, said: `[]`},
	{what: "GET /v1/volumes?type=csi&plugin_id=p", method: "CSIVolume.List", args: map[string]any{"PluginID": "p"}, said: `[]`},
	{what: "GET /v1/volume/host/v", method: "HostVolume.Get", args: map[string]any{"ID": "v"}, answer: map[string]any{"Volume": map[string]any{"Name": "data"}}, said: `"Name":"data"`},
	{what: "PUT /v1/volume/host/create", body: `{"Volume":{"Name":"data"}}`, method: "HostVolume.Create", answer: map[string]any{"Volume": map[string]any{"ID": "v"}, "Warnings": "w"}, said: `"Warnings":"w"`},
	{what: "DELETE /v1/volume/host/v?force=true", method: "HostVolume.Delete", args: map[string]any{"VolumeID": "v", "Force": true}, answer: map[string]any{"Index": 7}, said: `{"Index":7}`},
	{what: "GET /v1/volumes/claims?job_id=a", method: "TaskGroupHostVolumeClaim.List", args: map[string]any{"JobID": "a"}, said: `[]`},
	{what: "DELETE /v1/volumes/claim/c", method: "TaskGroupHostVolumeClaim.Delete", args: map[string]any{"ClaimID": "c"}},

	{what: "PUT /v1/system/gc?region=other", method: "System.GarbageCollect", args: map[string]any{"Region": "other"}},
	{what: "PUT /v1/system/reconcile/summaries", method: "System.ReconcileJobSummaries"},
	{what: "GET /v1/operator/scheduler/configuration", method: "Operator.SchedulerGetConfiguration", answer: map[string]any{"SchedulerConfig": map[string]any{"PauseEvalBroker": true}}, said: `{"SchedulerConfig":{"PauseEvalBroker":true}}`},
	{what: "PUT /v1/operator/scheduler/configuration?cas=7", body: `{"SchedulerAlgorithm":"spread"}`, method: "Operator.SchedulerSetConfiguration", args: map[string]any{"CAS": true}, answer: map[string]any{"Updated": true}, said: `{"Updated":true}`},
	{what: "PUT /v1/operator/scheduler/configuration?cas=x", body: `{}`, status: 400, said: `Error parsing cas value`},
	{what: "PUT /v1/operator/autopilot/configuration", body: `{"LastContactThreshold":"200ms"}`, method: "Operator.AutopilotSetConfiguration", answer: true, said: `true`},
	{what: "GET /v1/operator/autopilot/health", method: "Operator.ServerHealth", answer: map[string]any{"Healthy": false, "Servers": []any{map[string]any{"Name": "s", "SerfStatus": 1}}}, status: 429, said: `"SerfStatus":"alive"`},
	{what: "DELETE /v1/operator/raft/peer?id=s", method: "Operator.RaftRemovePeerByID", args: map[string]any{"ID": "s"}},
	{what: "PUT /v1/operator/raft/transfer-leadership", status: 400, said: "must specify id or address"},
	{what: "GET /v1/operator/keyring/keys", method: "Keyring.List", said: `[]`},
	{what: "PUT /v1/operator/keyring/rotate?full", method: "Keyring.Rotate", args: map[string]any{"Full": true}, said: `{}`},
	{what: "DELETE /v1/operator/keyring/key/k?force=true", method: "Keyring.Delete", args: map[string]any{"KeyID": "k", "Force": true}, said: `{}`},

	{what: "GET /.well-known/jwks.json", method: "Keyring.ListPublic", answer: map[string]any{"PublicKeys": []any{
		map[string]any{"KeyID": "k", "Algorithm": "EdDSA", "Use": "sig", "PublicKey": []byte(ed25519.NewKeyFromSeed(make([]byte, 32)).Public().(ed25519.PublicKey))},
		map[string]any{"KeyID": "bad", "Algorithm": "EdDSA", "PublicKey": make([]byte, 32)}, map[string]any{"KeyID": "of another time", "Algorithm": "ML-DSA-44"}, nil,
	}}, said: `{"keys":[{"use":"sig","kty":"OKP","kid":"k","crv":"Ed25519","alg":"EdDSA","x":"O2onvM62pC1io6jQKm8Nc2UyFXcd4kOmOsBIoYtZ2ik"}]}`},
	{what: "GET /.well-known/openid-configuration", method: "Keyring.GetConfig", status: 404, said: "OIDC Discovery endpoint disabled"},
	{what: "GET /.well-known/openid-configuration", method: "Keyring.GetConfig", answer: map[string]any{"OIDCDiscovery": map[string]any{"Issuer": "i", "JWKS": "j"}}, said: `"issuer":"i","jwks_uri":"j"`},
	{what: "GET /v1/job/a", method: "Job.GetJob", answer: map[string]any{"Job": map[string]any{"ID": "a", "Payload": snappy.Encode(nil, []byte("hi"))}}, said: `"Payload":"aGk="`},
	{what: "GET /v1/allocation/x", method: "Alloc.GetAlloc", answer: map[string]any{"Alloc": map[string]any{"Job": map[string]any{"Payload": snappy.Encode(nil, []byte("hi"))}}}, said: `"Payload":"aGk="`},
	{what: "GET /v1/allocation/x", method: "Alloc.GetAlloc", status: 404, said: "alloc not found"},

	{what: "PUT /v1/acl/bootstrap", body: `{"BootstrapSecret":"b"}`, method: "ACL.Bootstrap", args: map[string]any{"BootstrapSecret": "b"}, answer: map[string]any{"Tokens": []any{map[string]any{"SecretID": "made"}}}, said: `"SecretID":"made"`},
	{what: "PUT /v1/acl/token", body: `{"Name":"n","Type":"client"}`, method: "ACL.UpsertTokens", answer: map[string]any{"Tokens": []any{map[string]any{"AccessorID": "a", "CreateTime": time.Unix(1, 0)}}}, said: `"AccessorID":"a"`},
	{what: "PUT /v1/acl/token/a", body: `{"Name":"n"}`, method: "ACL.UpsertTokens"},
	{what: "GET /v1/acl/tokens?global=true", method: "ACL.ListTokens", args: map[string]any{"GlobalOnly": true}, said: `[]`},
	{what: "GET /v1/acl/token/a", method: "ACL.GetToken", args: map[string]any{"AccessorID": "a"}, status: 404, said: "ACL token not found"},
	{what: "DELETE /v1/acl/token/a", method: "ACL.DeleteTokens", args: map[string]any{"AccessorIDs": []any{"a"}}},
	{what: "PUT /v1/acl/policy/p", body: `{"Name":"p","Rules":"r"}`, method: "ACL.UpsertPolicies"},
	{what: "GET /v1/acl/policy/self", method: "ACL.ListPolicies", said: `[]`},
	{what: "DELETE /v1/acl/policy/p", method: "ACL.DeletePolicies", args: map[string]any{"Names": []any{"p"}}},
	{what: "PUT /v1/acl/role", body: `{"Name":"r"}`, method: "ACL.UpsertRoles", answer: map[string]any{"ACLRoles": []any{map[string]any{"ID": "i"}}}, said: `"ID":"i"`},
	{what: "GET /v1/acl/role/name/r", method: "ACL.GetRoleByName", args: map[string]any{"RoleName": "r"}, status: 404, said: "ACL role not found"},
	{what: "DELETE /v1/acl/role/i", method: "ACL.DeleteRolesByID", args: map[string]any{"ACLRoleIDs": []any{"i"}}},
	{what: "PUT /v1/acl/auth-method", body: `{"Name":"m","MaxTokenTTL":"1h"}`, method: "ACL.UpsertAuthMethods"},
	{what: "GET /v1/acl/auth-method/m", method: "ACL.GetAuthMethod", args: map[string]any{"MethodName": "m"}, answer: map[string]any{"AuthMethod": map[string]any{"Name": "m"}}, said: `"Name":"m"`},
	{what: "PUT /v1/acl/binding-rule", body: `{"AuthMethod":"m"}`, method: "ACL.UpsertBindingRules"},
	{what: "PUT /v1/acl/login", body: `{"AuthMethodName":"m","LoginToken":"t"}`, method: "ACL.Login", args: map[string]any{"LoginToken": "t"}, answer: map[string]any{"ACLToken": map[string]any{"SecretID": "made"}}, said: `"SecretID":"made"`},
	{what: "PUT /v1/acl/token/onetime/exchange", body: `{"OneTimeSecretID":"o"}`, method: "ACL.ExchangeOneTimeToken", args: map[string]any{"OneTimeSecretID": "o"}, answer: map[string]any{"Token": nil}, said: `{"Token":null}`},
	{what: "PUT /v1/acl/identity/client-introduction-token", body: `{"TTL":"1m","NodeName":"n"}`, method: "ACL.CreateClientIntroductionToken", args: map[string]any{"TTL": time.Minute, "NodeName": "n"}, answer: map[string]any{"JWT": "j"}, said: `{"JWT":"j"}`},

	{what: "PUT /v1/client/allocation/x/restart", body: `{"TaskName":"t"}`, method: "ClientAllocations.Restart", args: map[string]any{"AllocID": "x", "TaskName": "t", "AllTasks": false}, said: `{}`},
	{what: "PUT /v1/client/allocation/x/signal", body: `{"Task":"t","Signal":"SIGHUP"}`, method: "ClientAllocations.Signal", args: map[string]any{"AllocID": "x", "Task": "t", "Signal": "SIGHUP"}, said: `{}`},
	{what: "GET /v1/client/allocation/x/stats?task=t", method: "ClientAllocations.Stats", args: map[string]any{"AllocID": "x", "Task": "t"}, answer: map[string]any{"Stats": map[string]any{"Timestamp": 5}}, said: `"Timestamp":5`},
	{what: "GET /v1/client/allocation/x/checks", method: "ClientAllocations.Checks", args: map[string]any{"AllocID": "x"}, answer: map[string]any{"Results": map[string]any{"c": map[string]any{"Status": "success"}}}, said: `{"c":{"Status":"success"}}`},
	{what: "GET /v1/allocation/x/checks", method: "ClientAllocations.Checks", said: `{}`},
	{what: "PUT /v1/client/allocation/x/gc", method: "ClientAllocations.GarbageCollect", args: map[string]any{"AllocID": "x"}},
	{what: "PUT /v1/client/gc?node_id=o", method: "ClientAllocations.GarbageCollectAll", args: map[string]any{"NodeID": "o"}},
	{what: "GET /v1/client/stats?node_id=o", method: "ClientStats.Stats", args: map[string]any{"NodeID": "o"}, answer: map[string]any{"HostStats": map[string]any{"Uptime": 5}}, said: `"Uptime":5`},
	{what: "GET /v1/client/metadata?node_id=o", method: "NodeMeta.Read", args: map[string]any{"NodeID": "o"}, answer: map[string]any{"Meta": map[string]any{"k": "v"}}, said: `"Meta":{"k":"v"}`},
	{what: "PUT /v1/client/metadata", body: `{"NodeID":"o","Meta":{"k":null}}`, method: "NodeMeta.Apply", args: map[string]any{"NodeID": "o", "Meta": map[string]any{"k": nil}}, said: `"Meta":null`},
	{what: "GET /v1/client/identity", method: "NodeIdentity.Get", args: map[string]any{"NodeID": nodeID}, answer: map[string]any{"Claims": map[string]any{"sub": "s"}}, said: `{"Claims":{"sub":"s"}}`},
	{what: "PUT /v1/client/identity/renew", body: `{"NodeID":"o"}`, method: "NodeIdentity.Renew", args: map[string]any{"NodeID": "o"}, said: `{}`},
	{what: "GET /v1/client/fs/ls/x", method: "FileSystem.List", args: map[string]any{"AllocID": "x", "Path": "/"}, answer: map[string]any{"Files": []any{map[string]any{"Name": "f", "ModTime": time.Unix(1, 0)}}}, said: `"Name":"f"`},
	{what: "GET /v1/client/fs/stat/x?path=f", method: "FileSystem.Stat", args: map[string]any{"AllocID": "x", "Path": "f"}, answer: map[string]any{"Info": map[string]any{"Name": "f"}}, said: `"Name":"f"`},
	{what: "GET /v1/agent/host?server_id=s", method: "Agent.Host", args: map[string]any{"ServerID": "s"}, answer: map[string]any{"AgentID": "s"}, said: `"AgentID":"s"`},
	{what: "GET /v1/agent/host?server_id=s&node_id=o", status: 400, said: "Cannot target node and server simultaneously"},
	{what: "GET /v1/agent/pprof/heap?node_id=o&debug=1", method: "Agent.Profile", args: map[string]any{"NodeID": "o", "ReqType": "lookup", "Profile": "heap", "Debug": 1}, answer: map[string]any{"Payload": "bytes"}, said: "bytes"},
}

// What servers would take for a request that sets everything to zero, or for another one than it is, they
// are not asked.
var notPassedOn = []passed{
	{what: "PUT /v1/operator/scheduler/configuration", said: "Request body is empty"},
	{what: "PUT /v1/operator/scheduler/configuration", body: `{"SchedulerAlgorithm":"any"}`, said: `invalid scheduler algorithm: "any"`},
	{what: "PUT /v1/operator/autopilot/configuration", said: "Request body is empty"},
	{what: "PUT /v1/node/n/drain", body: " ", said: "Request body is empty"},
	{what: "PUT /v1/node/n/eligibility", said: "Request body is empty"},
	{what: "PUT /v1/node/n/eligibility", body: `{"NodeID":"m"}`, said: `the request is about "m", and its path names "n"`},
	{what: "PUT /v1/namespace/x", said: "Request body is empty"},
	{what: "PUT /v1/acl/policy/p", said: "Request body is empty"},
	{what: "PUT /v1/job/a/revert", said: "Request body is empty"},
	{what: "PUT /v1/job/a/revert", body: `{"JobID":"b"}`, said: `the request is about "b", and its path names "a"`},
	{what: "PUT /v1/job/a/stable", body: `{"JobID":"b"}`, said: `the request is about "b"`},
	{what: "PUT /v1/job/a/dispatch", body: `{"JobID":"b"}`, said: `the request is about "b"`},
	{what: "PUT /v1/job/a/scale", body: `{"Target":{"Job":"b"}}`, said: `the request is about "b"`},
	{what: "PUT /v1/deployment/promote/d", body: `{"DeploymentID":"other"}`, said: `the request is about "other"`},
	{what: "PUT /v1/deployment/pause/d", body: `{"DeploymentID":"other"}`, said: `the request is about "other"`},
	{what: "GET /v1/client/allocation/x/exec?task=t&command=%5B%22ls%22%5D", said: "a command runs over a websocket"},
	{what: "GET /v1/job/j/action?allocID=x&task=t&action=a", said: "a command runs over a websocket"},
}

func TestWhatServersWouldMisunderstandIsNotPassedOn(t *testing.T) {
	p := passOn(t)
	for _, c := range notPassedOn {
		answer, said := p.send(t, c.what, c.body)
		require.Equal(t, http.StatusBadRequest, answer.StatusCode, "%s: %s", c.what, said)
		require.Contains(t, said, c.said, c.what)
		require.Empty(t, p.method, c.what)
	}
}

// Without ACLs servers know no token from another, so that tasks may read and nothing else.
func TestTasksOfAClusterWithoutACLsChangeNothing(t *testing.T) {
	p := passOn(t)
	p.URL = p.ofTasks.URL
	p.answer = func(method string) (any, error) {
		if method == "ACL.WhoAmI" { // as where there are no ACLs
			return map[string]any{"Identity": map[string]any{"ACLToken": map[string]any{"Type": "management"}}}, nil
		}
		return map[string]any{}, nil
	}
	for what, status := range map[string]int{
		"GET /v1/jobs": 200, "PUT /v1/namespace/x": 403, "PUT /v1/acl/login": 403, "PUT /v1/client/allocation/x/restart": 403,
		"GET /v1/client/fs/logs/x?task=t&type=stdout": 403, "GET /v1/client/allocation/x/exec?task=t&command=%5B%22ls%22%5D": 403,
	} {
		answer, said := p.send(t, what, `{}`)
		require.Equal(t, status, answer.StatusCode, "%s: %s", what, said)
	}
}

// Who asks may bring about an answer beyond the bounds, which then is all that it costs.
func TestAnAnswerBeyondTheBoundsDoesNotCostTheConnection(t *testing.T) {
	p := passOn(t)
	p.answer = func(string) (any, error) { return nil, errors.New(strings.Repeat("x", 1<<20)) }
	for range 3 {
		answer, said := p.send(t, "PUT /v1/acl/login", `{"AuthMethodName":"m","LoginToken":"t"}`)
		require.Equal(t, http.StatusBadGateway, answer.StatusCode, said)
	}
	p.answer = func(string) (any, error) { return map[string]any{}, nil }
	answer, said := p.send(t, "PUT /v1/system/gc", "")
	require.Equal(t, http.StatusOK, answer.StatusCode, "by the same connection: %s", said)
}

// A question that waits for a change has the server wait, too, and is one of those that may be left open.
func TestAQuestionThatWaitsIsLeftOpen(t *testing.T) {
	p := passOn(t)
	for what, wait := range map[string]bool{"GET /v1/namespaces?index=7&wait=0s": true, "GET /v1/namespaces?index=7&wait=1s": true, "GET /v1/namespaces": false} {
		p.send(t, what, "")
		p.mu.Lock()
		require.Equal(t, wait, p.args["MaxQueryTime"] != int64(0), "%s: %v", what, p.args["MaxQueryTime"])
		p.mu.Unlock()
	}
}

// Each request that changes something, or is about another node, is one question to a server, with
// the caller's token and nothing of the node's.
func TestWhatIsPassedOnToServers(t *testing.T) {
	p := passOn(t)
	for _, c := range passedOn {
		t.Run(c.what+" "+c.body, func(t *testing.T) {
			p.method, p.args = "", nil
			p.answer = func(string) (any, error) {
				if c.answer == nil {
					return map[string]any{}, nil
				}
				return c.answer, nil
			}
			answer, said := p.send(t, c.what, c.body)
			require.Equal(t, max(c.status, http.StatusOK), answer.StatusCode, said)
			if c.method == "" {
				require.Empty(t, p.method)
			} else {
				p.asked(t, c.method, c.args)
			}
			if c.said == "" {
				require.Empty(t, said)
			}
			require.Contains(t, said, c.said)
		})
	}
}

func TestAJobIsPassedOnAsServersTakeIt(t *testing.T) {
	p := passOn(t)
	p.answer = func(string) (any, error) {
		return map[string]any{"EvalID": "e", "JobModifyIndex": 8, "Index": 9, "Warnings": ""}, nil
	}
	const job = `{"Job":{"ID":"a","UI":{"Links":[{"Label":"l","URL":"u"}]},"Update":{"MaxParallel":2,"Canary":1},"Nonsense":1,
		"TaskGroups":[{"Name":"g","Count":3,"Scaling":{"Max":5},"Services":[{"Name":"s","OnUpdate":"ignore","Checks":[{"Type":"http","TaskName":"t"}]}],
			"Tasks":[{"Name":"t","Driver":"d","Config":{"n":1,"deep":{"list":[true]}}}]}]}, "EnforceIndex":true,"JobModifyIndex":4,"Submission":{"Source":"s","Format":"hcl2"}}`
	answer, said := p.send(t, "PUT /v1/jobs?namespace=x", job)
	require.Equal(t, http.StatusOK, answer.StatusCode, said)
	require.Equal(t, "9", answer.Header.Get("X-Nomad-Index"))
	require.Contains(t, said, `"EvalID":"e"`)
	require.Contains(t, said, `\"Nonsense\" is no key of a job and is ignored`)
	p.asked(t, "Job.Register", map[string]any{"Namespace": "x", "EnforceIndex": true, "JobModifyIndex": 4})
	require.Equal(t, "s", p.args["Submission"].(map[string]any)["Source"])
	j := p.args["Job"].(map[string]any)
	require.Equal(t, map[string]any{"Description": "", "Links": []any{map[string]any{"Label": "l", "Url": "u"}}}, j["UI"])
	require.Equal(t, "x", j["Namespace"])
	require.Equal(t, "global", j["Region"])
	require.Equal(t, "service", j["Type"], "it is in full")
	require.EqualValues(t, 2, j["Update"].(map[string]any)["MaxParallel"])
	require.Nil(t, j["Update"].(map[string]any)["Canary"], "it is in the groups")
	g := j["TaskGroups"].([]any)[0].(map[string]any)
	require.EqualValues(t, 1, g["Update"].(map[string]any)["Canary"])
	scaling := g["Scaling"].(map[string]any)
	require.Equal(t, map[string]any{"Namespace": "x", "Job": "a", "Group": "g"}, scaling["Target"])
	require.EqualValues(t, 3, scaling["Min"])
	require.Equal(t, true, scaling["Enabled"])
	check := g["Services"].([]any)[0].(map[string]any)["Checks"].([]any)[0].(map[string]any)
	require.Equal(t, "ignore", check["OnUpdate"])
	require.Equal(t, "t", check["TaskName"])
	config := g["Tasks"].([]any)[0].(map[string]any)["Config"].(map[string]any)
	require.EqualValues(t, 1, config["n"])
	require.Equal(t, map[string]any{"list": []any{true}}, config["deep"])

	p.answer = func(string) (any, error) {
		return map[string]any{
			"JobModifyIndex": 8, "Index": 9, "NextPeriodicLaunch": time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
			"Diff": map[string]any{"Type": "Added"}, "Annotations": map[string]any{"DesiredTGUpdates": map[string]any{"g": map[string]any{"Place": 3}}},
		}, nil
	}
	answer, said = p.send(t, "PUT /v1/job/a/plan", `{"Job":{"ID":"a","Region":"east"},"Diff":true}`)
	require.Equal(t, http.StatusOK, answer.StatusCode, said)
	p.asked(t, "Job.Plan", map[string]any{"Diff": true, "Region": "east", "Namespace": "default"})
	for _, part := range []string{`"NextPeriodicLaunch":"2026-01-02T03:04:05Z"`, `"Index":9`, `"Type":"Added"`, `"Place":3`} {
		require.Contains(t, said, part)
	}
	p.answer = func(string) (any, error) { return map[string]any{"ValidationErrors": []string{"bad"}}, nil }
	_, said = p.send(t, "PUT /v1/validate/job", `{"Job":{"ID":"a"}}`)
	p.asked(t, "Job.Validate", nil)
	require.Contains(t, said, `"ValidationErrors":["bad"]`)

	for body, want := range map[string]string{
		`{}`: "Job must be specified", `{"Job":{}}`: "Job ID hasn't been provided", `{"Job":{"ID":"b"}}`: "Job ID does not match",
		`{"Job":{"ID":"a","TaskGroups":[null]}}`: "an empty object", `{`: "unexpected end",
	} {
		answer, said := p.send(t, "PUT /v1/job/a", body)
		require.Equal(t, http.StatusBadRequest, answer.StatusCode, body)
		require.Contains(t, said, want)
	}
	// Its links are told as they were given.
	p.answer = func(string) (any, error) {
		return map[string]any{"Job": map[string]any{"ID": "a", "UI": map[string]any{"Links": []any{map[string]any{"Label": "l", "Url": "u"}}}}}, nil
	}
	_, said = p.send(t, "GET /v1/job/a", "")
	require.Contains(t, said, `"UI":{"Description":"","Links":[{"Label":"l","Url":"u"}]}`)
	require.Contains(t, said, `"ID":"a"`)
}

func TestAVariableIsWrittenOnlyWhereItIsAsExpected(t *testing.T) {
	p := passOn(t)
	lock := map[string]any{"ID": "l", "TTL": 15 * time.Second, "LockDelay": 15 * time.Second}
	kept := map[string]any{"Namespace": "default", "Path": "a/b", "ModifyIndex": 5, "Items": map[string]string{"k": "v"}, "Lock": lock}
	p.answer = func(string) (any, error) { return map[string]any{"Output": kept, "Index": 5}, nil }
	answer, said := p.send(t, "PUT /v1/var/a/b?cas=3", `{"Items":{"k":"v"}}`)
	require.Equal(t, http.StatusOK, answer.StatusCode, said)
	require.Equal(t, "5", answer.Header.Get("X-Nomad-Index"))
	require.JSONEq(t, `{"Namespace":"default","Path":"a/b","CreateIndex":0,"ModifyIndex":5,"CreateTime":0,"ModifyTime":0,"Lock":{"ID":"l","TTL":"15s","LockDelay":"15s"},"Items":{"k":"v"}}`, said)
	p.asked(t, "Variables.Apply", map[string]any{"Op": "cas"})
	sent := p.args["Var"].(map[string]any)
	require.EqualValues(t, 3, sent["ModifyIndex"])
	require.Equal(t, map[string]any{"k": "v"}, sent["Items"])
	require.Equal(t, "a/b", sent["Path"])

	p.answer = func(string) (any, error) { return map[string]any{"Conflict": kept}, nil }
	for what, op := range map[string]string{"PUT /v1/var/a/b?cas=3": "cas", "PUT /v1/var/a/b": "set", "DELETE /v1/var/a/b?cas=3": "delete-cas", "DELETE /v1/var/a/b": "delete"} {
		answer, said = p.send(t, what, `{"Items":{"k":"v"}}`)
		require.Equal(t, http.StatusConflict, answer.StatusCode, said)
		require.Contains(t, said, `"ModifyIndex":5`)
		p.asked(t, "Variables.Apply", map[string]any{"Op": op})
	}
	p.answer = func(string) (any, error) { return nil, errors.New("cas error: it is another one") }
	answer, _ = p.send(t, "PUT /v1/var/a/b?cas=3", `{"Items":{"k":"v"}}`)
	require.Equal(t, http.StatusConflict, answer.StatusCode)
	p.answer = func(string) (any, error) { return map[string]any{"Index": 6}, nil }
	answer, said = p.send(t, "DELETE /v1/var/a/b", "")
	require.Equal(t, http.StatusNoContent, answer.StatusCode)
	require.Empty(t, said)

	p.answer = func(string) (any, error) { return map[string]any{"Output": kept, "VarMeta": kept, "Data": kept}, nil }
	_, _ = p.send(t, "PUT /v1/var/a/b?lock-acquire", `{"Lock":{"TTL":"15s","LockDelay":"15s"}}`)
	p.asked(t, "Variables.Apply", map[string]any{"Op": "lock-acquire"})
	require.EqualValues(t, map[string]any{"ID": "", "TTL": int64(15 * time.Second), "LockDelay": int64(15 * time.Second)}, p.args["Var"].(map[string]any)["Lock"])
	_, _ = p.send(t, "PUT /v1/var/a/b?lock-renew", `{"Lock":{"ID":"l"}}`)
	p.asked(t, "Variables.RenewLock", map[string]any{"Path": "a/b", "LockID": "l"})
	_, said = p.send(t, "GET /v1/var/a/b", "")
	require.Contains(t, said, `"TTL":"15s"`)
	for what, want := range map[string]string{
		"PUT /v1/var/a/b": "missing required Items", "PUT /v1/var/a/b?cas=x": "can not parse cas", "PUT /v1/var/a/b?cas=1&lock-acquire": "CAS can't be used", "PUT /v1/var/": "missing variable path",
	} {
		body := `{"Items":{"k":"v"}}`
		if want == "missing required Items" {
			body = "{}"
		}
		answer, said := p.send(t, what, body)
		require.Equal(t, http.StatusBadRequest, answer.StatusCode, what)
		require.Contains(t, said, want)
	}
}

func TestErrorsOfServersHaveNomadsStatus(t *testing.T) {
	p := passOn(t)
	for _, c := range []struct {
		what, text string
		status     int
	}{
		{"PUT /v1/system/gc", "Permission denied", 403},
		{"PUT /v1/system/gc", "rpc error: ACL token not found", 403},
		{"PUT /v1/node/n/purge", "node not found", 500},
		{"PUT /v1/node/n/purge", "RPC Error:: 400,bad", 400},
		{"PUT /v1/allocation/x/stop", `Unknown allocation "x"`, 404},
		{"PUT /v1/client/allocation/x/restart", "No path to node", 404},
		{"GET /v1/client/stats?node_id=o", `Unknown node "o"`, 404},
		{"GET /v1/client/fs/ls/x", "open: no such file or directory", 404},
		{"GET /v1/client/fs/ls/x", "other", 500},
		{"PUT /v1/jobs", "Job registration, dispatch, and scale are disabled by the scheduler configuration", 403},
		{"PUT /v1/system/gc?region=other", "No path to region", 500},
		{"GET /v1/volumes/claims", "rpc: can't find service TaskGroupHostVolumeClaim.List", 501},
	} {
		p.answer = func(string) (any, error) { return nil, errors.New(c.text) }
		answer, said := p.send(t, c.what, `{"Job":{"ID":"a"}}`)
		require.Equal(t, c.status, answer.StatusCode, "%s: %s", c.what, said)
	}
}

// frames has the server answer streams with some.
func frames(list ...string) func(*wire.Stream) error {
	return func(st *wire.Stream) error {
		for _, f := range list {
			if err := st.Send([]byte(f)); err != nil {
				return err
			}
		}
		return nil
	}
}

func TestStreamsArePassedOn(t *testing.T) {
	p := passOn(t)
	for _, c := range []struct {
		what, method, kind string
		args               map[string]any
	}{
		{"/v1/client/fs/logs/x?task=t&type=stdout&follow=true&offset=5&origin=end&plain=true", "FileSystem.Logs", "text/plain; charset=utf-8", map[string]any{"AllocID": "x", "Task": "t", "LogType": "stdout", "Follow": true, "Offset": 5, "Origin": "end", "PlainText": true}},
		{"/v1/client/fs/logs/x?task=t&type=stderr", "FileSystem.Logs", "application/json", map[string]any{"Follow": false, "Origin": "start", "PlainText": nil}},
		{"/v1/client/fs/cat/x?path=f", "FileSystem.Stream", "text/plain; charset=utf-8", map[string]any{"AllocID": "x", "Path": "f", "Origin": "start", "PlainText": true, "Follow": nil}},
		{"/v1/client/fs/readat/x?path=f&offset=2&limit=3", "FileSystem.Stream", "text/plain; charset=utf-8", map[string]any{"Offset": 2, "Limit": 3}},
		{"/v1/client/fs/stream/x?path=f", "FileSystem.Stream", "application/json", map[string]any{"Follow": true, "PlainText": nil}},
		{"/v1/agent/monitor?node_id=o&log_level=warn&log_json=true&plain=true", "Agent.Monitor", "text/plain; charset=utf-8", map[string]any{"NodeID": "o", "LogLevel": "warn", "LogJSON": true}},
		{"/v1/agent/monitor?server_id=leader", "Agent.Monitor", "application/json", map[string]any{"ServerID": "leader", "LogLevel": "INFO"}},
		{"/v1/agent/monitor/export?node_id=o&service_name=nomad", "Agent.MonitorExport", "application/json", map[string]any{"NodeID": "o", "ServiceName": "nomad", "LogsSince": "72h"}},
	} {
		p.stream = frames("one", "two")
		answer, said := p.send(t, "GET "+c.what, "")
		require.Equal(t, http.StatusOK, answer.StatusCode, said)
		require.Equal(t, "onetwo", said, c.what)
		require.Equal(t, c.kind, answer.Header.Get("Content-Type"))
		p.asked(t, c.method, c.args)

		p.stream = func(*wire.Stream) error { return &wire.CodedError{Code: 404, Text: `Unknown allocation "x"`} }
		answer, said = p.send(t, "GET "+c.what, "")
		require.Equal(t, http.StatusNotFound, answer.StatusCode, said)
		require.Contains(t, said, "Unknown allocation")
	}
	for _, what := range []string{"/v1/client/fs/logs/x?type=stdout", "/v1/client/fs/logs/x?task=t&type=x", "/v1/client/fs/cat/x", "/v1/client/fs/readat/x?path=f&offset=x", "/v1/event/stream?topic=:"} {
		answer, said := p.send(t, "GET "+what, "")
		require.Equal(t, http.StatusBadRequest, answer.StatusCode, said)
	}
}

func TestEventsArePassedOn(t *testing.T) {
	p := passOn(t)
	p.stream = func(st *wire.Stream) error {
		for _, e := range []string{"{}", `{"Index":5}`} {
			if err := st.SendValue(map[string]any{"Event": map[string]any{"Data": []byte(e)}}); err != nil {
				return err
			}
		}
		return nil
	}
	answer, said := p.send(t, "GET /v1/event/stream?topic=Job:a&topic=Job:b&topic=Node&index=4&namespace=x", "")
	require.Equal(t, http.StatusOK, answer.StatusCode)
	require.Equal(t, "{}\n{\"Index\":5}\n", said)
	p.asked(t, "Event.Stream", map[string]any{"Index": 4, "Namespace": "x", "Topics": map[string]any{"Job": []any{"a", "b"}, "Node": []any{"*"}}})

	p.stream = func(st *wire.Stream) error { return &wire.CodedError{Code: 403, Text: "Permission denied"} }
	answer, _ = p.send(t, "GET /v1/event/stream", "")
	require.Equal(t, http.StatusForbidden, answer.StatusCode)
	p.asked(t, "Event.Stream", map[string]any{"Topics": map[string]any{"*": []any{"*"}}})
}

func TestSnapshotsArePassedOn(t *testing.T) {
	p := passOn(t)
	p.stream = func(st *wire.Stream) error {
		_ = st.SendValue(map[string]any{"SnapshotChecksum": "sha-256=x"})
		return st.SendValue("raw") // a text of three bytes has a byte before them
	}
	answer, said := p.send(t, "GET /v1/operator/snapshot", "")
	require.Equal(t, http.StatusOK, answer.StatusCode, said)
	require.Equal(t, "sha-256=x", answer.Header.Get("Digest"))
	require.Equal(t, "\xa3raw", said)
	p.asked(t, "Operator.SnapshotSave", nil)

	p.stream = func(st *wire.Stream) error {
		return st.SendValue(map[string]any{"ErrorCode": 403, "ErrorMsg": "Permission denied"})
	}
	answer, said = p.send(t, "GET /v1/operator/snapshot", "")
	require.Equal(t, http.StatusForbidden, answer.StatusCode)
	require.Equal(t, "Permission denied", said)

	got := ""
	p.stream = func(st *wire.Stream) error {
		for {
			piece, err := st.Receive()
			if err != nil {
				require.ErrorContains(t, err, "EOF")
				return st.SendValue(map[string]any{})
			}
			got += string(piece)
		}
	}
	answer, said = p.send(t, "PUT /v1/operator/snapshot", "packed")
	require.Equal(t, http.StatusOK, answer.StatusCode, said)
	require.Equal(t, "packed", got)
}

func TestACommandOnAnotherNodeIsPassedOn(t *testing.T) {
	p := passOn(t)
	p.stream = func(st *wire.Stream) error {
		for {
			var in struct {
				Stdin   *struct{ Data []byte }
				TtySize *struct{ Height, Width int }
			}
			if err := st.Decode(&in); err != nil {
				return err
			}
			if in.TtySize != nil && in.TtySize.Width != 80 {
				return errors.New("wrong size")
			}
			if in.Stdin != nil {
				if err := st.Send([]byte(`{"stdout":{"data":"aGk="}}`)); err != nil {
					return err
				}
				return st.Send([]byte(`{"exited":true,"result":{"exit_code":7}}`))
			}
		}
	}
	for _, path := range []string{
		"/v1/client/allocation/x/exec?task=t&command=%5B%22ls%22%5D&tty=true",
		"/v1/job/j/action?allocID=x&task=t&action=a&tty=true",
	} {
		for _, later := range []bool{false, true} {
			header, url := http.Header{}, "ws"+strings.TrimPrefix(p.URL, "http")+path
			if later {
				url += "&ws_handshake=true"
			} else {
				header.Set("X-Nomad-Token", "caller's")
			}
			conn, answer, err := websocket.DefaultDialer.DialContext(t.Context(), url, header)
			require.NoError(t, err)
			require.NoError(t, answer.Body.Close())
			if later {
				require.NoError(t, conn.WriteJSON(map[string]any{"version": 1, "auth_token": "caller's"}))
			}
			require.NoError(t, conn.WriteJSON(nomad.ExecStreamingInput{TTYSize: &nomad.TerminalSize{Height: 24, Width: 80}}))
			require.NoError(t, conn.WriteJSON(nomad.ExecStreamingInput{Stdin: &nomad.ExecStreamingIOOperation{Data: []byte("x")}}))
			var out nomad.ExecStreamingOutput
			require.NoError(t, conn.ReadJSON(&out))
			require.Equal(t, "hi", string(out.Stdout.Data))
			require.NoError(t, conn.ReadJSON(&out))
			require.Equal(t, 7, out.Result.ExitCode)
			_, _, err = conn.ReadMessage()
			require.True(t, websocket.IsCloseError(err, websocket.CloseNormalClosure), "%v", err)
			_ = conn.Close()
			if strings.Contains(path, "action") {
				p.asked(t, "Allocations.Exec", map[string]any{"JobID": "j", "AllocID": "x", "Task": "t", "Action": "a", "Tty": true})
			} else {
				p.asked(t, "Allocations.Exec", map[string]any{"AllocID": "x", "Task": "t", "Cmd": []any{"ls"}, "Tty": true})
			}
		}
	}
}

// A command that ends does not wait for a client that has sent more than it has read.
func TestACommandThatEndsHoldsNothingOfItsClient(t *testing.T) {
	p := passOn(t)
	full := make(chan struct{})
	p.stream = func(st *wire.Stream) error {
		<-full
		if err := st.Send([]byte(`{"exited":true,"result":{"exit_code":0}}`)); err != nil {
			return err
		}
		if err := st.SendValue(map[string]any{"Error": map[string]any{"Message": "EOF"}}); err != nil {
			return err
		}
		<-t.Context().Done() // nothing is read, and it stays open for as long as the node has it
		return nil
	}
	url := "ws" + strings.TrimPrefix(p.URL, "http") + "/v1/client/allocation/x/exec?task=t&command=%5B%22ls%22%5D"
	conn, answer, err := websocket.DefaultDialer.DialContext(t.Context(), url, nil)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		in := nomad.ExecStreamingInput{Stdin: &nomad.ExecStreamingIOOperation{Data: make([]byte, 32<<10)}}
		for n := 0; conn.WriteJSON(in) == nil; n++ {
			if n == 32 { // 1 MiB, of which a stream takes a quarter
				close(full)
			}
		}
	}()
	for err == nil {
		_, _, err = conn.ReadMessage()
	}
	require.NoError(t, conn.Close())
	<-sent
	require.Eventually(t, func() bool { return len(p.plane.streamed) == 0 }, 10*time.Second, time.Millisecond)
}

// A stream has its place until it is closed, or its caller is gone.
func TestStreamsAreBounded(t *testing.T) {
	address, _ := listen(t, wire.Options{Handler: &wire.Handler{
		Call:    func(context.Context, string, func(any) error) (any, error) { return nil, nil },
		Streams: func(method string) bool { return method == "X.Y" },
		Stream: func(ctx context.Context, _ string, decode func(any) error, st *wire.Stream) error {
			gone, cancel := st.Gone(ctx)
			defer cancel()
			<-gone.Done()
			return nil
		},
	}})
	cp := join(t, address)
	session, err := cp.servers.await(t.Context(), nil)
	require.NoError(t, err)
	_, err = cp.Stream(t.Context(), "No.Such", "", nil)
	require.ErrorAs(t, err, new(*Refused))
	caller, leaves := context.WithCancel(t.Context())
	first, err := cp.Stream(caller, "X.Y", "", nil)
	require.NoError(t, err)
	for range MaxAsked - 1 {
		_, err := cp.Stream(caller, "X.Y", "", nil)
		require.NoError(t, err)
	}
	require.True(t, session.Busy(), "the server is not left for another one")
	var refused *Refused
	_, err = cp.Stream(t.Context(), "X.Y", "", nil)
	require.ErrorAs(t, err, &refused)
	require.Equal(t, http.StatusTooManyRequests, refused.Status)
	first.Close()
	first.Close()
	second, err := cp.Stream(t.Context(), "X.Y", "", nil)
	require.NoError(t, err)
	second.Close()
	leaves()
	require.Eventually(t, func() bool { return len(cp.streamed) == 0 && !session.Busy() }, 10*time.Second, time.Millisecond)
	_, err = first.Receive()
	require.ErrorIs(t, err, context.Canceled)
}
