package httpapi_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/clientapi"
	"github.com/wasmnode/wasmnode/httpapi"
	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/structs/errdefs"
	"github.com/wasmnode/wasmnode/workload"
)

// idle is a node that runs nothing.
type idle struct{}

var errIdle = errdefs.New(errdefs.NotFound, "nothing runs here")

func (idle) RestartAllocation(context.Context, string, string, bool) error   { return errIdle }
func (idle) SignalAllocation(context.Context, string, string, string) error  { return errIdle }
func (idle) Files(string) (clientapi.Files, error)                           { return nil, errIdle }
func (idle) CheckDriverConfig(string, map[string]any) ([]string, error)      { return nil, nil }
func (idle) HostUsage() (*structs.HostUsage, error)                          { return &structs.HostUsage{}, nil }
func (idle) CollectGarbage(context.Context)                                  {}
func (idle) CollectAllocation(context.Context, string) error                 { return errIdle }
func (idle) Unclaimed(context.Context) []structs.Unclaimed                   { return nil }
func (idle) Adopt(context.Context, string) error                             { return errIdle }
func (idle) Discard(context.Context, string) error                           { return errIdle }
func (idle) AllocationChecks(string) (map[string]structs.CheckResult, error) { return nil, errIdle }
func (idle) Metadata() structs.NodeMeta                                      { return structs.NodeMeta{} }
func (idle) ApplyMetadata(context.Context, map[string]*string) (structs.NodeMeta, error) {
	return structs.NodeMeta{}, errIdle
}
func (idle) CanExec(string, string) error { return errIdle }
func (idle) Exec(context.Context, string, string, *workload.ExecSpec) (*structs.ExitResult, error) {
	return nil, errIdle
}
func (idle) AllocationUsage(context.Context, string, string) (*structs.AllocationUsage, error) {
	return nil, errIdle
}

// intended reports whether an answer has the status 5xx because Nomad's has: of another region or plugin,
// and of what its community edition does not have; because it names what cannot be made here;
// or because the control plane's node does not run.
func intended(answer *httptest.ResponseRecorder) bool {
	switch text := answer.Body.String(); answer.Code {
	case http.StatusInternalServerError:
		return text == "No path to region" || text == "no such plugin"
	case http.StatusServiceUnavailable:
		return text == "the node is not there yet: try again"
	case http.StatusNotImplemented:
		return text == "Nomad Enterprise only endpoint" || slices.Contains(httpapi.Unmade, text)
	}
	return false
}

// FuzzRequest sends any request to a control plane that has a node and a job: whatever
// it is, it is answered, and what is wrong with it is not the agent's fault.
func FuzzRequest(f *testing.F) {
	for _, path := range []string{
		"jobs", "job/seed", "job/seed/allocations", "job/seed/evaluations", "job/seed/summary", "job/seed/versions", "job/seed/submission",
		"job/seed/scale", "job/seed/actions", "job/seed/action", "scaling/policies", "scaling/policy/x", "jobs/statuses", "allocations", "allocation/x", "evaluations", "evaluation/x", "evaluation/x/allocations", "nodes", "node/node",
		"node/node/allocations", "agent/self", "agent/members", "status/leader", "client/stats", "client/allocation/x/stats", "client/allocation/x/checks",
		"evaluations/count", "event/stream", "agent/monitor", "agent/pprof/cmdline", "agent/servers", "status/peers", "deployments", "deployment/x",
		"deployment/allocations/x", "job/seed/deployments", "job/seed/deployment", "job/seed/services", "job/seed/foo", "allocation/x/services",
		"scaling/policies", "scaling/policy/x", "namespaces", "namespace/default", "node/pools", "node/pool/default", "node/pool/default/nodes",
		"node/pool/default/jobs", "services", "service/x", "vars", "var/x/y", "volumes", "volume/csi/x", "plugins", "plugin/csi/x", "quotas",
		"operator/scheduler/configuration", "operator/raft/configuration", "operator/autopilot/configuration", "operator/autopilot/health",
		"operator/keyring/keys", "operator/license", "client/metadata", "jobs/statuses", "regions", "acl/tokens", "acl/token/self",
		"client/gc", "client/allocation/x/gc", "client/fs/ls/x", "client/fs/cat/x", "client/fs/readat/x", "client/fs/logs/x", "client/fs/stream/x",
	} {
		f.Add("GET", "/v1/"+path, "index=1&wait=1ms&prefix=se&per_page=1&next_token=default.seed&reverse=true&namespace=*&filter=ID+is+not+empty", "")
	}
	for _, path := range []string{"deployments", "deployment/x", "deployment/allocations/x", "job/seed/deployment", "job/seed/deployments"} {
		f.Add("GET", "/v1/"+path, "index=1&wait=1ms&prefix=aB&per_page=1&all=true", "")
	}
	for _, verb := range []string{"promote", "pause", "fail", "unblock", "allocation-health"} {
		f.Add("PUT", "/v1/deployment/"+verb+"/x", "", `{"DeploymentID":"x","All":false,"Groups":["g"],"Pause":true,"HealthyAllocationIDs":["x"]}`)
	}
	f.Add("GET", "/v1/client/fs/logs/x", "task=t&type=stdout&origin=end&offset=10&follow=true", "")
	f.Add("GET", "/v1/client/fs/readat/x", "path=/&offset=10&limit=-1", "")
	f.Add("GET", "/v1/jobs", `filter=Meta.x+==+"y"+and+TaskGroups.0.Name+matches+"("`, "")
	for path, body := range map[string]string{
		"jobs":                             `{"Job":{"ID":"x","Name":"x","Namespace":"default","Type":"service","Priority":50,"Datacenters":["dc1"],"Constraints":[{"LTarget":"${attr.x}","RTarget":"> 1.0","Operand":"version"}],"Affinities":[{"LTarget":"${node.class}","RTarget":"a","Operand":"=","Weight":50}],"Spreads":[{"Attribute":"${node.datacenter}","Weight":100,"SpreadTarget":[{"Value":"dc1","Percent":50}]}],"Update":{"MaxParallel":1},"TaskGroups":[{"Name":"g","Count":2,"Volumes":{"v":{"Type":"host","Source":"v"}},"Networks":[{"Mode":"host","ReservedPorts":[{"Label":"p","Value":80}],"DynamicPorts":[{"Label":"q"}]}],"RestartPolicy":{"Attempts":1,"Mode":"fail"},"ReschedulePolicy":{"Unlimited":true,"Delay":5000000000},"EphemeralDisk":{"SizeMB":10,"Sticky":true},"Services":[{"Name":"s","PortLabel":"p","Checks":[{"Type":"tcp","Interval":1000000000}],"Connect":{"SidecarService":{"Proxy":{"Upstreams":[{}]}}}}],"Scaling":{"Min":1,"Max":2},"Tasks":[{"Name":"t","Driver":"mock_driver","Config":{"run_for":"1s","nested":{"a":[null]}},"Env":{"A":"${NOMAD_ALLOC_ID}"},"Resources":{"CPU":1,"MemoryMB":10,"Devices":[{"Name":"gpu","Count":1}]},"Templates":[{"EmbeddedTmpl":"x","DestPath":"y"}],"Artifacts":[{"GetterSource":"http://x"}],"Lifecycle":{"Hook":"prestart"},"Vault":{"Policies":["p"]},"LogConfig":{"MaxFiles":1,"MaxFileSizeMB":1},"VolumeMounts":[{"Volume":"v"}]}]}]},"EnforceIndex":true,"JobModifyIndex":1}`,
		"job/seed":                         `{"Job":{"ID":"seed","Periodic":{"Spec":"* * * * *"},"ParameterizedJob":{"Payload":"optional"},"Multiregion":{"Regions":[{"Name":"r"}]}}}`,
		"job/seed/evaluate":                `{"JobID":"seed","EvalOptions":{"ForceReschedule":true}}`,
		"validate/job":                     `{"Job":{"ID":"x","TaskGroups":[{"Tasks":[{}]}]}}`,
		"allocation/x/stop":                ``,
		"node/node/eligibility":            `{"Eligibility":"ineligible"}`,
		"client/allocation/x/restart":      `{"TaskName":"t","AllTasks":true}`,
		"client/allocation/x/signal":       `{"Task":"t","Signal":"SIGHUP"}`,
		"search":                           `{"Prefix":"se","Context":"all"}`,
		"search/fuzzy":                     `{"Text":"se","Context":"all"}`,
		"job/seed/plan":                    `{"Job":{"ID":"seed","Type":"batch","Periodic":{"Spec":"@daily"},"TaskGroups":[{"Name":"g","Count":1,"Scaling":{"Max":2},"Tasks":[{"Name":"t","Driver":"mock_driver","Config":{"a":{"b.c":[null,{}]}},"Actions":[{"Name":"a","Command":"c"}]}]}]},"Diff":true}`,
		"job/seed/scale":                   `{"Count":2,"Target":{"Job":"seed","Group":"group"},"Message":"m","Meta":{"a":[1,null]}}`,
		"job/seed/revert":                  `{"JobID":"seed","JobVersion":0,"EnforcePriorVersion":1}`,
		"job/seed/stable":                  `{"JobID":"seed","JobVersion":0,"Stable":true}`,
		"job/seed/dispatch":                `{"Payload":"aGVsbG8=","Meta":{"a":"b"},"IdPrefixTemplate":"x"}`,
		"job/seed/periodic/force":          ``,
		"job/seed/versions/x/tag":          `{"Version":0,"Description":"d"}`,
		"jobs/parse":                       `{"JobHCL":"job \"x\" { group \"g\" { task \"t\" { driver = var.d } } }\nvariable \"d\" {}","Variables":"d = \"m\"","Canonicalize":true}`,
		"jobs/statuses":                    `{"Jobs":[{"Namespace":"default","ID":"seed"}],"IncludeChildren":true}`,
		"deployment/promote/x":             `{"All":true,"Groups":["g"]}`,
		"deployment/pause/x":               `{"Pause":true}`,
		"deployment/fail/x":                ``,
		"node/node/drain":                  `{"DrainSpec":{"Deadline":1000000000,"IgnoreSystemJobs":true},"MarkEligible":true,"Meta":{"a":"b"}}`,
		"node/node/purge":                  ``,
		"client/metadata":                  `{"NodeID":"node","Meta":{"a":"b","c":null}}`,
		"operator/scheduler/configuration": `{"SchedulerAlgorithm":"spread","PauseEvalBroker":true,"PreemptionConfig":{"BatchSchedulerEnabled":true}}`,
		"node/pool/x":                      `{"Name":"x"}`,
		"system/reconcile/summaries":       ``,
		"system/gc":                        ``,
		"job/seed/versions/tag/tag":        `{"Version":0,"Latest":true,"Description":"d"}`,
		"job/cron/periodic/force":          ``,
		"job/param/dispatch":               `{"JobID":"param","Payload":"eA==","Meta":{"a":"b"},"IdPrefixTemplate":"x","Priority":70}`,
	} {
		f.Add("PUT", "/v1/"+path, "", body)
	}
	f.Add("DELETE", "/v1/evaluations", "", `{"EvalIDs":["x"],"Filter":"Status == complete"}`)
	f.Add("DELETE", "/v1/job/seed/versions/x/tag", "", "")
	f.Add("DELETE", "/v1/node/pool/x", "", "")
	f.Add("GET", "/v1/event/stream", "topic=Job:seed&topic=*&namespace=*&index=1", "")
	f.Add("GET", "/v1/agent/monitor", "log_level=debug&log_json=true&plain=true", "")
	f.Add("DELETE", "/v1/job/seed", "purge=true&namespace=default", "")
	f.Fuzz(func(t *testing.T, method, path, query, body string) {
		if method == "" || strings.ContainsAny(method, " \r\n") {
			t.Skip("no HTTP server lets that through")
		}
		s := plane(t)
		_, err := s.ForNode().Register(t.Context(), &structs.Node{
			ID: "node", Name: "here", Datacenter: "dc1", Pool: "default", Status: structs.NodeReady,
			Resources: structs.NodeResources{CPUMHz: 1000, MemoryMB: 1000, DiskMB: 1000},
			Drivers:   map[string]*structs.DriverInfo{"mock_driver": {Detected: true, Healthy: true}},
		})
		require.NoError(t, err)
		cron, param := mock("cron", nil), parameterized("param", &nomad.ParameterizedJobConfig{MetaOptional: []string{"a"}})
		cron.Type, cron.Periodic = new(nomad.JobTypeBatch), &nomad.PeriodicConfig{Specs: []string{"@daily"}}
		for _, job := range []*nomad.Job{mock("seed", nil), cron, param} {
			_, err = s.RegisterJob(&structs.JobRegistration{Job: job})
			require.NoError(t, err)
		}
		handler := httpapi.Handler(httpapi.Config{Logger: hclog.NewNullLogger(), ControlPlane: s, Node: idle{}, Plugins: noPlugins{},
			Conditions: func() []structs.Condition { return nil }})
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
		defer cancel()
		r := (&http.Request{
			Method: method, URL: &url.URL{Path: path, RawQuery: query}, Header: http.Header{},
			Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Body: http.NoBody, Host: "127.0.0.1:4646",
		}).WithContext(ctx)
		if body != "" {
			r.Body = io.NopCloser(strings.NewReader(body))
		}
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, r)
		if intended(answer) {
			return
		}
		require.Less(t, answer.Code, http.StatusInternalServerError, "%s %s?%s %s: %s", method, path, query, body, answer.Body)
		// What was taken must also be readable, and runnable to its end.
		for _, a := range s.Allocations() {
			require.NoError(t, s.ForNode().UpdateAllocations(t.Context(), "node", []*structs.AllocationState{{ID: a.ID, ClientStatus: structs.ClientFailed}}))
		}
		for _, list := range []string{"/v1/jobs", "/v1/allocations", "/v1/evaluations", "/v1/nodes"} {
			again := httptest.NewRecorder()
			read := httptest.NewRequest(http.MethodGet, list, nil)
			read.Host = "localhost"
			handler.ServeHTTP(again, read)
			require.Equal(t, http.StatusOK, again.Code, again.Body)
		}
	})
}

// FuzzDispatch dispatches any body: it is refused, or makes one child that keeps to the
// job's bounds and runs.
func FuzzDispatch(f *testing.F) {
	for _, body := range []string{
		`{"JobID":"param","Payload":"eA==","Meta":{"a":"b"},"IdPrefixTemplate":"x","Priority":70}`, `{"Meta":{"a":"","b":"\u0000"}}`,
		`{"Priority":101}`, `{"IdPrefixTemplate":"a b"}`, `{"IdPrefixTemplate":"../../\u0000"}`, `{"Payload":null,"Meta":null}`, `{"Payload":"!"}`, ``, `[]`,
	} {
		f.Add(body, "")
		f.Add(body, "idempotency_token=x")
	}
	f.Fuzz(func(t *testing.T, body, query string) {
		s := plane(t)
		_, err := s.RegisterJob(&structs.JobRegistration{Job: parameterized("param", &nomad.ParameterizedJobConfig{MetaOptional: []string{"a", "b"}})})
		require.NoError(t, err)
		handler := httpapi.Handler(httpapi.Config{Logger: hclog.NewNullLogger(), ControlPlane: s, Node: idle{}, Plugins: noPlugins{},
			Conditions: func() []structs.Condition { return nil }})
		r := (&http.Request{
			Method: http.MethodPut, URL: &url.URL{Path: "/v1/job/param/dispatch", RawQuery: query}, Header: http.Header{},
			Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Body: io.NopCloser(strings.NewReader(body)), Host: "127.0.0.1:4646",
		}).WithContext(t.Context())
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, r)
		require.Less(t, answer.Code, http.StatusInternalServerError, "%s: %s", body, answer.Body)
		if answer.Code != http.StatusOK {
			require.Len(t, s.Jobs(), 1, "it was refused: %s", answer.Body)
			return
		}
		made := decoded[nomad.JobDispatchResponse](t, answer.Body.String())
		child := s.Job("default", made.DispatchedJobID)
		require.NotNil(t, child)
		require.NotContains(t, *child.ID, " ")
		require.LessOrEqual(t, len(child.Payload), 16<<10)
		for key := range child.Meta {
			require.Contains(t, []string{"a", "b"}, key)
		}
		require.NotNil(t, s.Evaluation(made.EvalID))
	})
}
