package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	nomad "github.com/hashicorp/nomad/api"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/clientapi"
	"github.com/wasmnode/wasmnode/controlplane/standalone"
	"github.com/wasmnode/wasmnode/httpapi/access"
	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/structs/errdefs"
)

// question is what servers were asked.
type question struct {
	method, token string
	wait          time.Duration
	args          map[string]any
}

// someServers are servers that answer what they are told to, in JSON. One goroutine uses them.
type someServers struct {
	answer string
	err    error
	asked  []question
	done   int               // of the answers
	rules  map[string]string // of a token
}

func (s *someServers) Ask(_ context.Context, method, token string, wait time.Duration, args map[string]any) (func(any) error, func(), error) {
	s.asked = append(s.asked, question{method, token, wait, args})
	return func(v any) error { return json.Unmarshal([]byte(s.answer), v) }, func() { s.done++ }, s.err
}

func (s *someServers) Stream(_ context.Context, method, token string, args map[string]any) (clientapi.ServerStream, error) {
	s.asked = append(s.asked, question{method: method, token: token, args: args})
	return &emptyStream{closed: &s.done}, s.err
}

// emptyStream ends at once.
type emptyStream struct {
	clientapi.ServerStream
	closed *int
}

func (e *emptyStream) Receive() ([]byte, error) { return nil, io.EOF }
func (e *emptyStream) Close()                   { *e.closed++ }

func (s *someServers) TokenRules(_ context.Context, token string) ([]string, bool, error) {
	rules, known := s.rules[token]
	switch {
	case token == "admin":
		return nil, true, nil
	case !known:
		return nil, false, answeredError(http.StatusForbidden)
	}
	return []string{rules}, false, nil
}

func (s *someServers) Connected() string   { return "192.0.2.1:4647" }
func (s *someServers) Addresses() []string { return []string{"192.0.2.1:4647", "192.0.2.2:4647"} }

// answeredError is a server's answer that is an error.
type answeredError int

func (e answeredError) Error() string   { return "as the server says" }
func (e answeredError) HTTPStatus() int { return int(e) }

// client is the API of a node of a cluster, and of its tasks.
func client(t *testing.T, s Servers, cfg Config) (api, tasks http.Handler) {
	t.Helper()
	plane, err := standalone.Open(standalone.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, plane.Close()) })
	if cfg.Logger == nil {
		cfg.Logger = hclog.NewNullLogger()
	}
	cfg.ControlPlane, cfg.Servers, cfg.Metrics = plane, s, prometheus.NewRegistry()
	cfg.Agent = AgentInfo{NodeID: "n", Region: "global", Address: "127.0.0.1:4646"}
	cfg.Conditions = func() []structs.Condition { return nil }
	return Handlers(cfg, access.NewBounds(access.DefaultLimits()))
}

func send(api http.Handler, method, path, body string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "http://127.0.0.1:4646"+path, strings.NewReader(body))
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	api.ServeHTTP(w, r)
	return w
}

func TestAClientPassesOnWhatIsRead(t *testing.T) {
	for path, want := range map[string]struct {
		method, answer, body string
		args                 map[string]any
	}{
		"/v1/jobs?meta=true&prefix=w&per_page=2&next_token=n&filter=ID==a&reverse=true&namespace=*": {
			"Job.List", `{"Jobs":[{"ID":"web"}],"Index":7,"NextToken":"more"}`, `"ID":"web"`,
			map[string]any{"Fields": map[string]any{"Meta": true}, "Prefix": "w", "PerPage": int32(2), "NextToken": "n", "Filter": "ID==a", "Reverse": true, "Namespace": "*"},
		},
		"/v1/jobs/statuses?include_children=true": {"Job.Statuses", `{"Jobs":[{"ID":"a","Allocs":[{"ID":"x"}]}]}`, `"Allocs":[{"ID":"x"`, map[string]any{"IncludeChildren": true}},
		"/v1/job/a/b":                    {"Job.GetJob", `{"Job":{"ID":"a/b"}}`, `"ID":"a/b"`, map[string]any{"JobID": "a/b", "Namespace": "default"}},
		"/v1/job/a/versions?diffs=1":     {"Job.GetJobVersions", `{"Versions":[{"ID":"a"}],"Diffs":null}`, `"Versions":[{`, map[string]any{"JobID": "a", "Diffs": true}},
		"/v1/job/a/submission?version=3": {"Job.GetJobSubmission", `{"Submission":{"Source":"s"}}`, `"Source":"s"`, map[string]any{"JobID": "a", "Version": uint64(3)}},
		"/v1/job/a/deployment":           {"Job.LatestDeployment", `{}`, `null`, map[string]any{"JobID": "a"}},
		"/v1/allocations":                {"Alloc.List", `{}`, `[]`, map[string]any{"Fields": map[string]any{"TaskStates": true, "Resources": false}}},
		"/v1/allocation/x":               {"Alloc.GetAlloc", `{"Alloc":{"ID":"x"}}`, `"ID":"x"`, map[string]any{"AllocID": "x"}},
		"/v1/evaluations?job=j":          {"Eval.List", `{}`, `[]`, map[string]any{"FilterJobID": "j"}},
		"/v1/evaluations/count":          {"Eval.Count", `{"Count":3}`, `"Count":3`, nil},
		"/v1/node/x/allocations":         {"Node.GetAllocs", `{}`, `[]`, map[string]any{"NodeID": "x"}},
		"/v1/var/a/b":                    {"Variables.Read", `{"Data":{"Items":{"k":"v"}}}`, `"k":"v"`, map[string]any{"Path": "a/b"}},
		"/v1/service/web?choose=1|k":     {"ServiceRegistration.GetService", `{}`, `[]`, map[string]any{"ServiceName": "web", "Choose": "1|k"}},
		"/v1/status/leader":              {"Status.Leader", `"192.0.2.1:4647"`, `"192.0.2.1:4647"`, nil},
		"/v1/agent/members":              {"Status.Members", `{"Members":[null,{"Name":"s","Addr":"wAACAQ=="}]}`, `"Addr":"192.0.2.1"`, nil},
		"/v1/acl/token/self":             {"ACL.ResolveToken", `{"Token":{"Name":"mine"}}`, `"Name":"mine"`, map[string]any{"SecretID": "secret"}},
		"/v1/node/pool/p/nodes?os=true":  {"NodePool.ListNodes", `{}`, `[]`, map[string]any{"Name": "p", "Fields": map[string]any{"OS": true, "Resources": false}}},
	} {
		t.Run(path, func(t *testing.T) {
			s := &someServers{answer: want.answer}
			api, _ := client(t, s, Config{})
			w := send(api, http.MethodGet, path, "", access.TokenHeader, "secret")
			require.Equal(t, http.StatusOK, w.Code, w.Body.String())
			require.Contains(t, w.Body.String(), want.body)
			require.Len(t, s.asked, 1)
			require.Equal(t, want.method, s.asked[0].method)
			require.Equal(t, "secret", s.asked[0].token, "the caller's, as it is")
			require.Zero(t, s.asked[0].wait)
			for name, value := range want.args {
				require.Equal(t, value, s.asked[0].args[name], name)
			}
		})
	}
	s := &someServers{answer: `{"Index":7,"NextToken":"more","KnownLeader":true,"LastContact":5000000}`}
	api, _ := client(t, s, Config{})
	w := send(api, http.MethodGet, "/v1/nodes?index=5&wait=1s&stale", "")
	for name, want := range map[string]string{"X-Nomad-Index": "7", "X-Nomad-NextToken": "more", "X-Nomad-KnownLeader": "true", "X-Nomad-LastContact": "5"} {
		require.Equal(t, want, w.Header().Get(name), name)
	}
	require.Equal(t, uint64(5), s.asked[0].args["MinQueryIndex"])
	require.GreaterOrEqual(t, s.asked[0].wait, time.Second)
	require.Less(t, s.asked[0].wait, 2*time.Second)
	w = send(api, http.MethodPut, "/v1/search", `{"Prefix":"ab","Context":"jobs","Namespace":"x"}`)
	require.Equal(t, http.StatusOK, w.Code)
	require.Equal(t, "Search.PrefixSearch", s.asked[1].method)
	require.Equal(t, "ab jobs x", strings.Join([]string{s.asked[1].args["Prefix"].(string), s.asked[1].args["Context"].(string), s.asked[1].args["Namespace"].(string)}, " "))
}

// A question with a body that waits is a stream, once that is read.
func TestAClientsQuestionThatWaitsLeavesThePlaceOfItsBody(t *testing.T) {
	s := &someServers{answer: `{}`}
	limits := access.DefaultLimits()
	limits.Streams = 0
	api, _ := client(t, s, Config{Bounds: access.NewBounds(limits)})
	require.Equal(t, http.StatusOK, send(api, http.MethodPut, "/v1/jobs/statuses", `{"Jobs":[{"ID":"a","Namespace":"b"}]}`).Code)
	require.Equal(t, []nomad.NamespacedID{{ID: "a", Namespace: "b"}}, s.asked[0].args["Jobs"])
	require.Equal(t, http.StatusTooManyRequests, send(api, http.MethodPut, "/v1/jobs/statuses?index=5", `{"Jobs":[]}`).Code)
	require.Len(t, s.asked, 1)
}

func TestAClientSaysWhatItDoesNotPassOn(t *testing.T) {
	s := &someServers{}
	api, _ := client(t, s, Config{ACL: true})
	const refusal = "this node is a client of a cluster and does not pass this on: ask one of its servers, such as 192.0.2.1 (HTTP is on port 4646 unless they say otherwise)"
	for _, what := range []string{
		"PUT /v1/job/x/allocations", "PUT /v1/node/n/nothing", "PUT /v1/volume/csi/x", "GET /v1/operator/unclaimed",
		"GET /v1/agent/schedulers", "PUT /v1/agent/join", "GET /v1/agent/keyring/list",
	} {
		method, path, _ := strings.Cut(what, " ")
		w := send(api, method, path, "")
		require.Equal(t, http.StatusNotImplemented, w.Code, what)
		require.Equal(t, refusal, w.Body.String(), what)
	}
	require.Empty(t, s.asked)
	require.Equal(t, http.StatusNotFound, send(api, http.MethodGet, "/v1/nothing", "").Code)
	require.Equal(t, http.StatusBadRequest, send(api, http.MethodGet, "/v1/jobs?odd=1", "").Code)

	// What the policy refuses comes to no server.
	w := send(api, http.MethodGet, "/v1/jobs", "", "Origin", "http://elsewhere.example")
	require.Equal(t, http.StatusForbidden, w.Code)
	require.Empty(t, s.asked)
}

// emptyNode has no allocations.
type emptyNode struct{ Node }

func (emptyNode) AllocationChecks(string) (map[string]structs.CheckResult, error) {
	return nil, errdefs.New(errdefs.NotFound, "allocation is not here")
}

// What is of another node's allocation is the servers' to allow, whoever asks: the node does not ask
// them for the caller's rights.
func TestAClientPassesOnWhatIsOfOtherNodes(t *testing.T) {
	for _, acl := range []bool{false, true} {
		s := &someServers{answer: `{}`}
		api, _ := client(t, s, Config{ACL: acl, Node: emptyNode{}})
		for _, what := range []string{
			"GET /v1/client/fs/logs/x?task=t&type=stdout", "GET /v1/client/fs/ls/x?path=/", "GET /v1/client/fs/cat/x?path=/a",
			"PUT /v1/client/allocation/x/restart", "GET /v1/client/gc?node_id=other", "GET /v1/agent/monitor?node_id=other",
		} {
			s.asked, s.done = nil, 0
			method, path, _ := strings.Cut(what, " ")
			w := send(api, method, path, "{}", access.TokenHeader, "unknown")
			require.Equal(t, http.StatusOK, w.Code, "%s: %s", what, w.Body)
			require.Len(t, s.asked, 1, what)
			require.Equal(t, "unknown", s.asked[0].token)
			require.Equal(t, 1, s.done, what)
		}
		s.asked = nil
		for _, what := range []string{"GET /v1/client/gc?node_id=other", "PUT /v1/client/allocation/x/restart"} {
			method, path, _ := strings.Cut(what, " ")
			w := send(api, method, path, "{}", "Sec-Fetch-Site", "cross-site", "Origin", "http://elsewhere.example")
			require.Equal(t, http.StatusForbidden, w.Code, what)
		}
		require.Empty(t, s.asked, "what the policy refuses comes to no server")
	}
}

// The first token is made on the node itself, as that of a node alone.
func TestAClientPassesOnForTheFirstTokenOnlyWhatIsAskedHere(t *testing.T) {
	s := &someServers{answer: `{"Tokens":[{"SecretID":"made"}]}`}
	api, _ := client(t, s, Config{})
	w := send(api, http.MethodPut, "/v1/acl/bootstrap", "{}") // of 192.0.2.1
	require.Equal(t, http.StatusForbidden, w.Code)
	require.Empty(t, s.asked)
}

func TestServersAnswersHaveTheirStatus(t *testing.T) {
	for want, s := range map[int]*someServers{
		http.StatusForbidden:           {err: answeredError(http.StatusForbidden)},
		http.StatusTeapot:              {err: answeredError(http.StatusTeapot)},
		http.StatusServiceUnavailable:  {err: errdefs.New(errdefs.Unavailable, "no server answers")},
		http.StatusNotFound:            {answer: `{}`},
		http.StatusInternalServerError: {err: errors.New("other")},
	} {
		api, _ := client(t, s, Config{})
		require.Equal(t, want, send(api, http.MethodGet, "/v1/job/x", "").Code)
	}
}

func TestAClientsOwnIsOfWhomTheServersKnow(t *testing.T) {
	s := &someServers{answer: `{}`, rules: map[string]string{"reader": `agent { policy = "read" }`, "": `namespace "default" { policy = "read" }`, "bad": "{", "a.b.c": `node { policy = "read" }`}}
	api, tasks := client(t, s, Config{ACL: true})
	for token, want := range map[string]int{"admin": 200, "reader": 200, "": 403, "unknown": 403, "bad": 500} {
		require.Equal(t, want, send(api, http.MethodGet, "/v1/agent/servers", "", access.TokenHeader, token).Code, "%q", token)
	}
	require.Equal(t, http.StatusOK, send(api, http.MethodGet, "/v1/agent/health", "").Code, "it needs none")
	require.Empty(t, s.asked)
	require.JSONEq(t, `["192.0.2.1:4647","192.0.2.2:4647"]`, send(api, http.MethodGet, "/v1/agent/servers", "", access.TokenHeader, "reader").Body.String())
	require.Equal(t, http.StatusForbidden, send(api, http.MethodPut, "/v1/agent/reload", "", access.TokenHeader, "reader").Code)
	self := send(api, http.MethodGet, "/v1/agent/self", "", access.TokenHeader, "reader").Body.String()
	require.Contains(t, self, `"known_servers":"192.0.2.1:4647,192.0.2.2:4647"`)
	require.NotContains(t, self, "leader")

	// Tasks show their token, on which servers decide; of the agent they get what it allows.
	require.Equal(t, http.StatusUnauthorized, send(tasks, http.MethodGet, "/v1/vars", "").Code)
	require.Equal(t, http.StatusOK, send(tasks, http.MethodGet, "/v1/vars", "", access.TokenHeader, "a.b.c").Code)
	require.Equal(t, "a.b.c", s.asked[0].token)
	require.Equal(t, http.StatusForbidden, send(tasks, http.MethodGet, "/v1/vars", "", access.TokenHeader, "x.y.z").Code)
	require.Len(t, s.asked, 1, "nobody is asked for a token that is not good")
	require.Equal(t, http.StatusForbidden, send(tasks, http.MethodGet, "/v1/agent/servers", "", access.TokenHeader, "a.b.c").Code)

	api, tasks = client(t, s, Config{})
	require.Equal(t, http.StatusOK, send(api, http.MethodGet, "/v1/agent/servers", "").Code, "without ACLs it is everybody's")
	require.Equal(t, http.StatusForbidden, send(tasks, http.MethodGet, "/v1/agent/servers", "", access.TokenHeader, "a.b.c").Code, "but no task's")
}

// An outage of the servers is in the log once, from who keeps the connection, and not with each request.
func TestWhatNoServerAnswersIsNoErrorOfTheNode(t *testing.T) {
	var said strings.Builder
	logger := hclog.New(&hclog.LoggerOptions{Output: &said, Level: hclog.Info})
	api, _ := client(t, &someServers{err: errdefs.NewRecoverable(errdefs.Unavailable, "no server answers")}, Config{Logger: logger})
	w := send(api, http.MethodGet, "/v1/jobs", "")
	require.Equal(t, http.StatusServiceUnavailable, w.Code)
	require.Contains(t, w.Body.String(), "no server answers")
	require.Empty(t, said.String())
}

func TestTheHealthOfAClientHasNoServer(t *testing.T) {
	api, _ := client(t, &someServers{}, Config{})
	w := send(api, http.MethodGet, "/v1/agent/health", "")
	require.JSONEq(t, `{"client":{"ok":true,"message":"ok"},"conditions":[]}`, w.Body.String())
	w = send(api, http.MethodGet, "/v1/agent/health?type=server", "")
	require.Equal(t, http.StatusInternalServerError, w.Code)
	require.Contains(t, w.Body.String(), "this node is no server")
}
