package httpapi_test

import (
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	nomad "github.com/hashicorp/nomad/api"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/clientapi"
	"github.com/wasmnode/wasmnode/controlplane/standalone"
	"github.com/wasmnode/wasmnode/httpapi"
	"github.com/wasmnode/wasmnode/httpapi/access"
	"github.com/wasmnode/wasmnode/structs"
)

// FuzzConversation sends one request after another to one control plane: of every endpoint
// that there is, with the parameters that it takes, of things that are there and that are
// not, and with bodies of the right type of which some fields are wrong. None is answered as
// the agent's own fault, and afterwards everything can still be read. The bytes are the
// choices; FuzzRequest sends what has no form at all.
func FuzzConversation(f *testing.F) {
	endpoints := httpapi.Endpoints(httpapi.Config{ControlPlane: plane(f)})
	endpoints = slices.DeleteFunc(endpoints, func(e httpapi.Endpoint) bool {
		return strings.Contains(e.Path, "quota") || strings.Contains(e.Path, "recommendation")
	})
	require.Greater(f, len(endpoints), 100)
	for i := range endpoints {
		f.Add([]byte{byte(i % 2), byte(i), 0, byte(i), 1, 2, 3, 4, 5, byte(i), 7, 7, 0, 9, 1, byte(i), 200, 100, 3, 3, 250, 9, 1, 1, 3, byte(i), 4, 8})
	}
	f.Fuzz(func(t *testing.T, bytes []byte) {
		c := &conversation{choices: choices{bytes}, endpoints: endpoints, plane: plane(t)}
		c.begin(t)
		for said := 0; len(c.bytes) > 0 && said < 100; said++ {
			c.say(t)
		}
		c.end(t)
	})
}

// choices are taken from bytes; when there are none left, each is the first.
type choices struct{ bytes []byte }

// upTo is a number below n.
func (c *choices) upTo(n int) int {
	if len(c.bytes) == 0 || n < 2 {
		return 0
	}
	b := int(c.bytes[0])
	c.bytes = c.bytes[1:]
	if n > 256 && len(c.bytes) > 0 {
		b = b<<8 | int(c.bytes[0])
		c.bytes = c.bytes[1:]
	}
	return b % n
}

func oneOf[T any](c *choices, list []T) T { return list[c.upTo(len(list))] }

// extremes are values of parameters, of IDs and of texts in bodies.
var extremes = []string{
	"", "0", "1", "-1", "true", "false", "*", "default", "seed", "param", "cron", "se", "A", "a0", "abc", "no-such", "18446744073709551615",
	"9223372036854775807", "-9223372036854775808", "1e400", "0x10", "1ms", "-1s", "9999999h", "2540400h10m10.000000000s", "\x00", "a\nb", "ü\xff", "..", "../../etc", "a/b", "/", "%2F",
	"ID == \"seed\"", "ID is not empty", "Meta.x matches \"(\"", "TaskGroups.0.Tasks.0.Name == 1", "not (a", `["x"]`, `{"a":1}`, "00000000-0000-0000-0000-000000000000",
	"default.seed", "Job:seed", "*:*", "all", "jobs", "stdout", "start", "end", "debug", "prometheus", "${attr.x}", "${env[\"", "job \"x\" {", strings.Repeat("x", 5000),
}

// fitting are values that parameters are meant to have; the others have none that is needed.
var fitting = map[string]string{
	"task": "task", "type": "stdout", "path": "x", "offset": "1", "command": `["x"]`, "action": "act", "group": "group", "version": "0",
	"purge": "true", "diffs": "true", "all": "true", "topic": "Job", "status": "complete", "job": "seed", "cas": "1", "index": "1", "wait": "1ms",
	"per_page": "1", "filter": "ID is not empty", "region": "global", "namespace": "*", "follow": "true", "include_children": "true",
}

// anAllocation stands for the ID of one that there is.
const anAllocation = "an-allocation"

var job = &nomad.Job{ID: new("seed")} // which of them it is, is chosen

// bodies are those of the endpoints that read one; all are right.
var bodies = map[string]any{
	"/v1/acl/bootstrap":                     nomad.BootstrapRequest{},
	"/v1/acl/token":                         nomad.ACLToken{Name: "n", Type: "client", Policies: []string{"readonly"}},
	"/v1/acl/token/{accessor}":              nomad.ACLToken{Name: "n"},
	"/v1/client/allocation/{id}/restart":    nomad.AllocationRestartRequest{TaskName: "task"},
	"/v1/client/allocation/{id}/signal":     nomad.AllocSignalRequest{Task: "task", Signal: "SIGHUP"},
	"/v1/client/metadata":                   nomad.NodeMetaApplyRequest{Meta: map[string]*string{"a": new("b")}},
	"/v1/deployment/allocation-health/{id}": nomad.DeploymentAllocHealthRequest{HealthyAllocationIDs: []string{anAllocation}},
	"/v1/deployment/fail/{id}":              nomad.DeploymentFailRequest{},
	"/v1/deployment/pause/{id}":             nomad.DeploymentPauseRequest{Pause: true},
	"/v1/deployment/promote/{id}":           nomad.DeploymentPromoteRequest{All: true},
	"/v1/deployment/unblock/{id}":           nomad.DeploymentUnblockRequest{},
	"/v1/evaluations":                       nomad.EvalDeleteRequest{Filter: `Status == "complete"`},
	"/v1/job/{id}":                          nomad.JobRegisterRequest{Job: job},
	"/v1/job/{id}/dispatch":                 nomad.JobDispatchRequest{Meta: map[string]string{"a": "b"}},
	"/v1/job/{id}/evaluate":                 nomad.JobEvaluateRequest{EvalOptions: nomad.EvalOptions{ForceReschedule: true}},
	"/v1/job/{id}/plan":                     nomad.JobPlanRequest{Job: job, Diff: true},
	"/v1/job/{id}/revert":                   nomad.JobRevertRequest{},
	"/v1/job/{id}/scale":                    nomad.ScalingRequest{Count: new(int64(2)), Target: map[string]string{"Group": "group"}},
	"/v1/job/{id}/stable":                   nomad.JobStabilityRequest{Stable: true},
	"/v1/job/{id}/versions/{name}/tag":      nomad.TagVersionRequest{},
	"/v1/jobs":                              nomad.JobRegisterRequest{Job: job, Submission: &nomad.JobSubmission{Source: "job", Format: "hcl2"}},
	"/v1/jobs/parse":                        nomad.JobsParseRequest{JobHCL: "job \"x\" {\ngroup \"g\" {\ntask \"t\" {\ndriver = var.d\n}\n}\n}\nvariable \"d\" {}", Variables: `d = "m"`},
	"/v1/jobs/statuses":                     nomad.JobStatusesRequest{Jobs: []nomad.NamespacedID{{Namespace: "default", ID: "seed"}}},
	"/v1/node/pool/{pool}":                  nomad.NodePool{Name: "x"},
	"/v1/node/pools":                        nomad.NodePool{Name: "x"},
	"/v1/node/{id}/drain":                   nomad.NodeUpdateDrainRequest{DrainSpec: &nomad.DrainSpec{Deadline: time.Hour}},
	"/v1/node/{id}/eligibility":             nomad.NodeUpdateEligibilityRequest{Eligibility: "eligible"},
	"/v1/operator/scheduler/configuration":  nomad.SchedulerConfiguration{SchedulerAlgorithm: "spread", PauseEvalBroker: true},
	"/v1/search":                            nomad.SearchRequest{Prefix: "se", Context: "all"},
	"/v1/search/fuzzy":                      nomad.FuzzySearchRequest{Text: "se", Context: "all"},
	"/v1/validate/job":                      nomad.JobValidateRequest{Job: job},
}

// conversation is one with a control plane that has a node and some jobs.
type conversation struct {
	choices
	endpoints []httpapi.Endpoint
	plane     *standalone.ControlPlane
	api       http.Handler
	secret    string // of the token; "": there are no ACLs
	texts     []string
	said      []string
}

func (c *conversation) begin(t *testing.T) {
	_, err := c.plane.ForNode().Register(t.Context(), &structs.Node{
		ID: "node", Name: "here", Datacenter: "dc1", Pool: "default", Status: structs.NodeReady,
		Resources: structs.NodeResources{CPUMHz: 1000, MemoryMB: 2000, DiskMB: 4000},
		Drivers:   map[string]*structs.DriverInfo{"mock_driver": {Detected: true, Healthy: true}},
	})
	require.NoError(t, err)
	cron, param, seed := mock("cron", nil), parameterized("param", &nomad.ParameterizedJobConfig{MetaOptional: []string{"a"}}), mock("seed", nil)
	cron.Type, cron.Periodic = new(nomad.JobTypeBatch), &nomad.PeriodicConfig{Specs: []string{"@daily"}}
	seed.Type, seed.Update = new(nomad.JobTypeService), &nomad.UpdateStrategy{MaxParallel: new(1), Canary: new(1)}
	for _, job := range []*nomad.Job{seed, cron, param} {
		_, err = c.plane.RegisterJob(&structs.JobRegistration{Job: job})
		require.NoError(t, err)
	}
	cfg := httpapi.Config{
		Logger: hclog.NewNullLogger(), ControlPlane: c.plane, Node: running{plane: c.plane, files: oneFile{logs: t.TempDir()}}, Plugins: noPlugins{},
		Agent:      httpapi.AgentInfo{NodeID: "node", Name: "here", Region: "global", Datacenter: "dc1", Address: "127.0.0.1:4646"},
		Conditions: func() []structs.Condition { return nil }, Metrics: prometheus.NewRegistry(),
		Logs: hclog.NewInterceptLogger(&hclog.LoggerOptions{Output: io.Discard}), Debug: true,
	}
	if c.upTo(2) == 1 {
		_, c.secret, err = c.plane.BootstrapACL("")
		require.NoError(t, err)
		cfg.ACL = true
	}
	c.api = httpapi.Handler(cfg)
	c.texts = extremes
}

// say sends a request, or has the node report.
func (c *conversation) say(t *testing.T) {
	if c.upTo(8) == 7 {
		c.report(t)
		return
	}
	at := oneOf(&c.choices, c.endpoints)
	if c.upTo(16) == 15 {
		at.Method = oneOf(&c.choices, []string{"GET", "PUT", "POST", "DELETE", "PATCH", "HEAD", "OPTIONS"})
	}
	r := (&http.Request{
		Method: at.Method, URL: &url.URL{Path: c.path(at.Path), RawQuery: c.query(at)}, Header: http.Header{access.TokenHeader: {c.secret}},
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Body: http.NoBody, Host: "127.0.0.1:4646", RemoteAddr: "127.0.0.1:1",
	}).WithContext(t.Context())
	body := ""
	if at.Method != http.MethodGet {
		body = c.body(at.Path)
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
	}
	if c.waits(r) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Millisecond)
		defer cancel()
		r = r.WithContext(ctx)
	}
	c.said = append(c.said, r.Method+" "+r.URL.String()+" "+body)
	c.ask(t, r)
}

// waits reports whether a request may have no end.
func (c *conversation) waits(r *http.Request) bool {
	v := r.URL.Query()
	return v.Get("index") != "" || v.Get("follow") != "" || v.Get("seconds") != "" || strings.Contains(r.URL.Path, "/event/stream") ||
		strings.Contains(r.URL.Path, "/fs/stream") ||
		strings.Contains(r.URL.Path, "/pprof/") || strings.Contains(r.URL.Path, "/agent/monitor")
}

func (c *conversation) ask(t *testing.T, r *http.Request) *httptest.ResponseRecorder {
	answer := httptest.NewRecorder()
	c.api.ServeHTTP(answer, r)
	if !intended(answer) && answer.Code >= http.StatusInternalServerError {
		require.Less(t, answer.Code, http.StatusInternalServerError, "%s\n%s", answer.Body, strings.Join(c.said, "\n"))
	}
	return answer
}

// path puts IDs into a path: most are of what is there.
func (c *conversation) path(pattern string) string {
	for {
		from, to := strings.IndexByte(pattern, '{'), strings.IndexByte(pattern, '}')
		if from < 0 {
			return pattern
		}
		pattern = pattern[:from] + c.id(pattern[:from], pattern[from+1:to]) + pattern[to+1:]
	}
}

// id is one of what a path is about.
func (c *conversation) id(before, name string) string {
	if c.upTo(8) == 7 {
		return strings.NewReplacer("{", "", "}", "").Replace(oneOf(&c.choices, c.texts))
	}
	var ids []string
	add := func(id string) { ids = append(ids, id) }
	switch {
	case strings.HasPrefix(before, "/v1/job/") && name == "id":
		ids = append(ids, "seed", "param", "cron")
		for _, j := range c.plane.Jobs() {
			add(*j.ID)
		}
	case strings.Contains(before, "evaluation"):
		for _, e := range c.plane.Evaluations() {
			add(e.ID)
		}
	case strings.Contains(before, "deployment"):
		for _, d := range c.plane.Deployments() {
			add(d.ID)
		}
	case strings.Contains(before, "node/pool"):
		ids = append(ids, "default", "all", "x")
	case strings.Contains(before, "node"):
		add("node")
	case strings.Contains(before, "acl/token"):
		for _, a := range c.plane.ACLTokens() {
			add(a.AccessorID)
		}
	case strings.Contains(before, "scaling"):
		for _, p := range c.plane.ScalingPolicies() {
			add(p.ID)
		}
	case strings.Contains(before, "alloc"), strings.Contains(before, "client/fs"):
		for _, a := range c.plane.Allocations() {
			add(a.ID)
		}
	}
	if len(ids) == 0 {
		return "x"
	}
	slices.Sort(ids)
	return strings.ReplaceAll(oneOf(&c.choices, ids), "{", "")
}

// query has some of the parameters that an endpoint takes, at their extremes.
func (c *conversation) query(at httpapi.Endpoint) string {
	v := url.Values{}
	if c.upTo(3) > 0 {
		for _, name := range at.Own {
			if value := fitting[name]; value != "" {
				v.Set(name, value)
			}
		}
	}
	for range c.upTo(4) {
		name := oneOf(&c.choices, append(httpapi.Everywhere(), append(at.Own, at.Own...)...))
		value := oneOf(&c.choices, c.texts)
		if fits := fitting[name]; fits != "" && c.upTo(4) > 0 {
			value = fits
		}
		v.Set(name, value)
	}
	return v.Encode()
}

// body is one of the type that an endpoint reads, with a few wrong fields, or any text.
func (c *conversation) body(path string) string {
	if c.upTo(16) == 15 {
		return oneOf(&c.choices, c.texts)
	}
	as := bodies[path]
	if as == nil {
		return ""
	}
	shape := reflect.TypeOf(as)
	v := asJSON(as)
	if _, has := v["Job"]; has {
		v["Job"] = asJSON(c.job())
	}
	for range c.upTo(6) {
		if mutated, is := c.graft(v, shape, 0).(map[string]any); is {
			v = mutated
		}
	}
	b, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	text := string(b)
	if strings.Contains(text, anAllocation) {
		text = strings.ReplaceAll(text, anAllocation, c.id("/v1/allocation/", "id"))
	}
	return text
}

// asJSON is a value as JSON that was decoded without its type.
func asJSON(of any) (v map[string]any) {
	b, err := json.Marshal(of)
	if err == nil {
		err = json.Unmarshal(b, &v)
	}
	if err != nil {
		panic(err)
	}
	return v
}

// job is one that can be registered.
func (c *conversation) job() *nomad.Job {
	id := oneOf(&c.choices, []string{"seed", "param", "cron", "other", "x/y"})
	job := mock(id, nil)
	switch c.upTo(8) {
	case 1:
		job.Type = new(nomad.JobTypeSystem)
	case 2:
		job.Type, job.Periodic = new(nomad.JobTypeBatch), &nomad.PeriodicConfig{Specs: []string{"*/5 * * * *"}}
	case 3:
		job = parameterized(id, &nomad.ParameterizedJobConfig{Payload: "optional"})
	case 4:
		job.Type, job.Update = new(nomad.JobTypeService), &nomad.UpdateStrategy{MaxParallel: new(1), Canary: new(2), AutoRevert: new(true)}
		job.TaskGroups[0].Count = new(3)
	case 5:
		job.TaskGroups[0].Scaling = &nomad.ScalingPolicy{Min: new(int64(0)), Max: new(int64(4))}
	}
	return job
}

var wrong = []any{nil, true, -1, 0, 1, 3, 1 << 31, 1 << 53, 9.223372036854775807e18, 1e300, 0.5, "", "x", "1h", []any{}, []any{nil}, map[string]any{}, map[string]any{"": nil, "a.b": []any{map[string]any{}}}}

// graft changes one place of a value that is to be decoded to a type.
func (c *conversation) graft(v any, shape reflect.Type, depth int) any {
	if c.upTo(32) == 31 {
		return oneOf(&c.choices, wrong)
	}
	switch shape.Kind() {
	case reflect.Pointer:
		return c.graft(v, shape.Elem(), depth)
	case reflect.Struct:
		members, _ := v.(map[string]any)
		fields := slices.DeleteFunc(reflect.VisibleFields(shape), func(f reflect.StructField) bool { return !f.IsExported() || f.Tag.Get("json") == "-" })
		if len(fields) == 0 || depth > 12 {
			return oneOf(&c.choices, wrong)
		}
		field := oneOf(&c.choices, fields)
		if job, has := shape.FieldByName("Job"); has && c.upTo(4) > 0 {
			field = job
		}
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "" {
			name = field.Name
		}
		members = maps.Clone(members)
		if members == nil {
			members = map[string]any{}
		}
		members[name] = c.graft(members[name], field.Type, depth+1)
		return members
	case reflect.Slice:
		list, _ := v.([]any)
		if shape.Elem().Kind() == reflect.Uint8 {
			return "eA=="
		}
		if n := c.upTo(3); n == 0 || len(list) == 0 {
			return append(slices.Clone(list), c.graft(nil, shape.Elem(), depth+1))
		}
		at := c.upTo(len(list))
		list = slices.Clone(list)
		list[at] = c.graft(list[at], shape.Elem(), depth+1)
		return list
	case reflect.Map:
		members, _ := v.(map[string]any)
		members = maps.Clone(members)
		if members == nil {
			members = map[string]any{}
		}
		key := oneOf(&c.choices, c.texts)
		members[key] = c.graft(members[key], shape.Elem(), depth+1)
		return members
	case reflect.String:
		return oneOf(&c.choices, c.texts)
	case reflect.Bool:
		return c.upTo(2) == 1
	case reflect.Interface:
		return oneOf(&c.choices, wrong)
	}
	return oneOf(&c.choices, []any{0, 1, 2, -1, 100, 1 << 20, 1 << 31, 1000000000, 3600000000000, int64(1) << 62, -1 << 62, 0.5, "1h"})
}

// report has the node say how its allocations are.
func (c *conversation) report(t *testing.T) {
	status := oneOf(&c.choices, []structs.ClientStatus{structs.ClientRunning, structs.ClientFailed, structs.ClientComplete})
	all := c.plane.Allocations()
	if len(all) == 0 {
		return
	}
	slices.SortFunc(all, func(a, b *structs.Allocation) int { return strings.Compare(a.ID, b.ID) })
	a := oneOf(&c.choices, all)
	c.said = append(c.said, "the node: "+a.Name+" is "+string(status))
	require.NoError(t, c.plane.ForNode().UpdateAllocations(t.Context(), "node", []*structs.AllocationState{{
		ID: a.ID, ClientStatus: status,
		DeploymentStatus: oneOf(&c.choices, []*structs.DeploymentStatus{nil, {Healthy: new(true)}, {Healthy: new(false)}}),
	}}), strings.Join(c.said, "\n"))
}

// end requires that everything can still be read, and runs to its end.
func (c *conversation) end(t *testing.T) {
	for _, a := range c.plane.Allocations() {
		require.NoError(t, c.plane.ForNode().UpdateAllocations(t.Context(), "node", []*structs.AllocationState{{ID: a.ID, ClientStatus: structs.ClientFailed}}))
	}
	for _, list := range []string{"jobs", "jobs/statuses", "allocations", "evaluations", "deployments", "nodes", "node/pools", "scaling/policies"} {
		r := httptest.NewRequest(http.MethodGet, "/v1/"+list, nil)
		r.Host = "localhost"
		r.Header.Set(access.TokenHeader, c.secret)
		if answer := c.ask(t, r); c.secret == "" {
			require.Equal(t, http.StatusOK, answer.Code, "%s: %s\n%s", list, answer.Body, strings.Join(c.said, "\n"))
		}
	}
}

// running is a node on which whatever the control plane placed runs.
type running struct {
	idle
	plane *standalone.ControlPlane
	files oneFile
}

// known returns no error for an allocation that there is.
func (n running) known(id string) error {
	if n.plane.Allocation(id) == nil {
		return errIdle
	}
	return nil
}

func (n running) RestartAllocation(_ context.Context, id, _ string, _ bool) error { return n.known(id) }
func (n running) SignalAllocation(_ context.Context, id, _, _ string) error       { return n.known(id) }
func (n running) CollectAllocation(_ context.Context, id string) error            { return n.known(id) }
func (n running) Files(id string) (clientapi.Files, error)                        { return n.files, n.known(id) }
func (n running) ApplyMetadata(context.Context, map[string]*string) (structs.NodeMeta, error) {
	return structs.NodeMeta{}, nil
}

func (n running) AllocationChecks(id string) (map[string]structs.CheckResult, error) {
	return map[string]structs.CheckResult{}, n.known(id)
}

func (n running) AllocationUsage(_ context.Context, id, _ string) (*structs.AllocationUsage, error) {
	return &structs.AllocationUsage{}, n.known(id)
}

// oneFile is a directory with the file "x".
type oneFile struct{ logs string }

func (f oneFile) LogPath(task, stream string) string { return filepath.Join(f.logs, task+"."+stream) }

func (oneFile) List(path string) ([]clientapi.File, error) {
	if path != "/" {
		return nil, errIdle
	}
	return []clientapi.File{{Name: "x"}}, nil
}

func (oneFile) Stat(path string) (clientapi.File, error) {
	switch path {
	case "/":
		return clientapi.File{Name: path, IsDir: true}, nil
	case "x":
		return clientapi.File{Name: path}, nil
	}
	return clientapi.File{}, errIdle
}

func (oneFile) ReadAt(path string, offset int64) (io.ReadCloser, error) {
	if path != "x" {
		return nil, errIdle
	}
	return io.NopCloser(strings.NewReader("contents"[min(offset, 8):])), nil
}
