package httpapi_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	nomad "github.com/hashicorp/nomad/api"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/agent/agenttest"
	"github.com/wasmnode/wasmnode/httpapi"
	"github.com/wasmnode/wasmnode/structs"
)

func TestLatenciesAreOfRoutesAndBounded(t *testing.T) {
	w := newWorld(t, "mock")
	for i := range 50 {
		w.get(t, fmt.Sprintf("/v1/allocation/00000000-0000-0000-0000-%012d", i))
		w.get(t, fmt.Sprintf("/v1/nothing-%d", i))
		w.do(t, http.MethodDelete, fmt.Sprintf("/v1/nodes?%d", i), "")
	}
	w.get(t, "/v1/jobs?index=1&wait=1ms") // waits because it is to
	text := w.get(t, "/v1/metrics?format=prometheus").body
	routes := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^wasmnode_http_request_seconds_count\{route="([^"]*)"\} (\d+)$`).FindAllStringSubmatch(text, -1) {
		routes[m[1]] = m[2]
	}
	require.Equal(t, "50", routes["GET /v1/allocation/{id}"])
	require.Equal(t, "100", routes["none"])
	require.NotContains(t, routes, "GET /v1/jobs")
	require.Less(t, len(routes), 10, "one for each route that was asked for: %v", routes)
	require.Contains(t, text, `wasmnode_http_requests_total{code="404"} 100`)
	require.Contains(t, text, `wasmnode_http_requests_total{code="405"} 50`)
}

func TestMetricsInJSONHaveTheSameNumbers(t *testing.T) {
	w := newWorld(t, "mock")
	w.run(t, mock("job", nil), "running")
	text := w.get(t, "/v1/metrics?format=prometheus").body
	summary := decoded[nomad.MetricsSummary](t, w.get(t, "/v1/metrics").body)
	require.Contains(t, text, "\nwasmnode_allocations{status=\"running\"} 1\n")
	find := func(name string, labels map[string]string) float32 {
		for _, g := range summary.Gauges {
			if g.Name == name && fmt.Sprint(g.DisplayLabels) == fmt.Sprint(labels) {
				return g.Value
			}
		}
		return -1
	}
	require.EqualValues(t, 1, find("wasmnode_allocations", map[string]string{"status": "running"}))
	host, err := os.Hostname()
	require.NoError(t, err)
	require.EqualValues(t, 1, find("nomad.nomad.job_summary.running", map[string]string{"namespace": "default", "job": "job", "task_group": "group", "host": host}),
		"Nomad's own are called as Nomad calls them")
	i := 0
	for summary.Samples[i].DisplayLabels["route"] != "PUT /v1/jobs" {
		i++
	}
	put := summary.Samples[i]
	require.Equal(t, "wasmnode_http_request_seconds", put.Name)
	require.Equal(t, 1, put.Count)
	require.Equal(t, put.Sum, put.Mean)
	require.LessOrEqual(t, put.Min, put.Sum)
	require.GreaterOrEqual(t, put.Max, put.Sum)
	names := strings.Count(text, "\n# TYPE ")
	require.Greater(t, names, 50)
}

func TestPrometheusHasNothingToSayAgainstTheMetrics(t *testing.T) {
	w := newWorld(t, "mock")
	w.run(t, mock("measured", nil), nomad.AllocClientStatusRunning)
	problems, err := promlint.New(strings.NewReader(w.get(t, "/v1/metrics?format=prometheus").body)).Lint()
	require.NoError(t, err)
	for _, p := range problems {
		require.True(t, strings.HasPrefix(p.Metric, "nomad_"), "%s: %s: the name is not Nomad's", p.Metric, p.Text)
	}
}

// families are an agent's metrics as Prometheus reads them, with one of each kind: it has a task
// that runs, with a check, one that has ended, a child, a job that waits for room, and an event sink
// that nothing can be delivered to.
func families(t *testing.T) map[string]*dto.MetricFamily {
	t.Helper()
	w := &world{agenttest.Start(t, agenttest.Options{Drivers: []string{"mock", "raw_exec"}, CodeCache: codeCache, Config: `
event_sink "down" {
  type = "webhook"
  url  = "http://127.0.0.1:1/"
}`}), t, http.DefaultClient}
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	_, _, err := w.Client.Operator().SchedulerSetConfiguration(&nomad.SchedulerConfiguration{MemoryOversubscriptionEnabled: true}, nil)
	require.NoError(t, err)
	job := agenttest.Job("runs", "raw_exec", map[string]any{"command": "/bin/sleep", "args": []any{"600"}})
	job.TaskGroups[0].Tasks[0].Resources.MemoryMaxMB = new(512)
	job.TaskGroups[0].Services = []*nomad.Service{{Name: "none", Provider: "nomad", PortLabel: "1", Checks: []nomad.ServiceCheck{{
		Name: "fails", Type: "tcp", Interval: time.Minute, Timeout: time.Second,
	}}}}
	w.run(t, job, nomad.AllocClientStatusRunning)
	large := mock("waits", nil)
	large.TaskGroups[0].Tasks[0].Resources.MemoryMB = new(1 << 30)
	_, _, err = w.Client.Jobs().Register(large, nil)
	require.NoError(t, err)
	once := mock("param", map[string]any{"run_for": "1ms"})
	once.Type, once.ParameterizedJob = new(nomad.JobTypeBatch), &nomad.ParameterizedJobConfig{}
	_, _, err = w.Client.Jobs().Register(once, nil)
	require.NoError(t, err)
	child, _, err := w.Client.Jobs().Dispatch("param", nil, nil, "", nil)
	require.NoError(t, err)
	w.Await(t, child.DispatchedJobID, nomad.AllocClientStatusComplete)
	text := w.get(t, "/v1/metrics?format=prometheus").body
	parser := expfmt.NewTextParser(model.LegacyValidation)
	all, err := parser.TextToMetricFamilies(strings.NewReader(text))
	require.NoError(t, err)
	return all
}

// TestPublishedDashboardsAreAnswered holds the metrics against what dashboards ask for, and against
// the page that has them all: what they ask for is there with its labels, or the page says why not.
func TestPublishedDashboardsAreAnswered(t *testing.T) {
	all := families(t)
	testMetricsOfChildren(t, all)
	testMonitoring(t, all)
	page, err := os.ReadFile("../docs/metrics.md")
	require.NoError(t, err)
	here, missing, found := strings.Cut(string(page), "## What there is not")
	require.True(t, found)
	rows := regexp.MustCompile("(?m)^\\| ((?:`nomad_[a-zA-Z_*]+`(?:, )?)+) \\|")
	named := func(text string) (names []string) {
		for _, m := range rows.FindAllStringSubmatch(text, -1) {
			for name := range strings.SplitSeq(m[1], ", ") {
				names = append(names, strings.Trim(name, "`"))
			}
		}
		return names
	}
	for _, name := range named(here) {
		// Only drivers whose tasks have a control group measure the most memory.
		require.True(t, all[name] != nil || name == "nomad_client_allocs_memory_max_usage", "%s is on the page and not there", name)
	}
	for name := range all {
		require.True(t, !strings.HasPrefix(name, "nomad_") || slices.Contains(named(here), name), "%s is not on the page", name)
	}
	absent := named(missing)
	asked, err := os.ReadFile("testdata/dashboards.txt")
	require.NoError(t, err)
	answered := map[string]bool{}
	for line := range strings.Lines(string(asked)) {
		words := strings.Fields(line)
		if len(words) == 0 || words[0] == "#" {
			continue
		}
		family := all[words[0]]
		if summary := all[strings.TrimSuffix(words[0], "_sum")]; family == nil && summary.GetType() == dto.MetricType_SUMMARY {
			family = summary
		}
		if family == nil {
			require.True(t, slices.ContainsFunc(absent, func(p string) bool { return matches(p, words[0]) }), "%s is neither answered nor on the page", words[0])
			continue
		}
		answered[words[0]] = true
		for _, label := range words[1:] {
			for _, m := range family.Metric {
				require.True(t, slices.ContainsFunc(m.Label, func(l *dto.LabelPair) bool { return l.GetName() == label && l.GetValue() != "" }), "%s has no %s: %v", words[0], label, m)
			}
		}
	}
	require.GreaterOrEqual(t, len(answered), 75, "names that dashboards ask for")
	for _, name := range absent {
		for has := range all {
			require.False(t, matches(name, has), "%s is on the page as one that there is not", has)
		}
	}
}

// matches reports whether a name is that of a pattern, which may end in a star.
func matches(pattern, name string) bool {
	start, any := strings.CutSuffix(pattern, "*")
	return name == start || any && strings.HasPrefix(name, start)
}

// testMetricsOfChildren looks whether what is of a child names its parent.
func testMetricsOfChildren(t *testing.T, all map[string]*dto.MetricFamily) {
	t.Helper()
	for _, name := range []string{"nomad_nomad_job_summary_complete", "nomad_client_allocs_complete"} {
		labels := map[string]string{}
		for _, m := range all[name].Metric {
			for _, l := range m.Label {
				if l.GetName() == "parent_id" || l.GetName() == "dispatch_id" {
					labels[l.GetName()] = l.GetValue()
					require.Equal(t, 1.0, m.GetGauge().GetValue()+m.GetCounter().GetValue())
				}
			}
		}
		require.Equal(t, "param", labels["parent_id"], name)
		require.NotEmpty(t, labels["dispatch_id"], name)
	}
}

func TestMetricsAreLeftOutAsTheConfigurationSays(t *testing.T) {
	a := agenttest.Start(t, agenttest.Options{Drivers: []string{"mock"}, CodeCache: codeCache, Config: `
telemetry {
  publish_allocation_metrics             = false
  publish_node_metrics                   = false
  disable_hostname                       = true
  prefix_filter                          = ["-nomad.runtime"]
  disable_dispatched_job_summary_metrics = true
}`})
	w := &world{a, t, http.DefaultClient}
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	w.run(t, mock("runs", nil), nomad.AllocClientStatusRunning)
	param := mock("param", nil)
	param.Type, param.ParameterizedJob = new(nomad.JobTypeBatch), &nomad.ParameterizedJobConfig{}
	_, _, err := w.Client.Jobs().Register(param, nil)
	require.NoError(t, err)
	_, _, err = w.Client.Jobs().Dispatch("param", nil, nil, "", nil)
	require.NoError(t, err)
	text := w.get(t, "/v1/metrics?format=prometheus").body
	for _, absent := range []string{"nomad_client_allocs_cpu", "nomad_client_allocs_running", "wasmnode_task_restarts{", "nomad_client_host", "host=", "nomad_runtime", "dispatch_id"} {
		require.NotContains(t, text, absent)
	}
	for _, present := range []string{"nomad_client_allocations_running{", `nomad_nomad_job_summary_running{job="runs",`, "go_goroutines"} {
		require.Contains(t, text, present)
	}
}

// manyJobs is a control plane with so many jobs, each of one group and with an evaluation that
// waits for room for two allocations of it.
type manyJobs struct {
	httpapi.ControlPlane
	count int
}

func (m manyJobs) Jobs() (jobs []*nomad.Job) {
	for i := range m.count {
		jobs = append(jobs, m.Job("default", fmt.Sprintf("job-%d", i)))
	}
	return jobs
}

func (manyJobs) Job(namespace, id string) *nomad.Job {
	index, _ := strconv.ParseUint(strings.TrimPrefix(id, "job-"), 10, 64)
	task := &nomad.Task{Name: "t", Resources: &nomad.Resources{CPU: new(100), MemoryMB: new(20)}}
	return &nomad.Job{
		Namespace: &namespace, ID: &id, Status: new("pending"), CreateIndex: &index,
		TaskGroups: []*nomad.TaskGroup{{Name: new("g"), Tasks: []*nomad.Task{task, {Name: "cores", Resources: &nomad.Resources{Cores: new(1)}}}}},
	}
}

func (manyJobs) JobSummary(namespace, id string) *structs.JobSummary {
	return &structs.JobSummary{Namespace: namespace, JobID: id, Groups: map[string]structs.GroupSummary{"g": {Queued: 2}}}
}

func (m manyJobs) Evaluations() (list []*structs.Evaluation) {
	for i := range m.count {
		list = append(list, &structs.Evaluation{
			Namespace: "default", JobID: fmt.Sprintf("job-%d", i), Status: structs.EvaluationBlocked, CreateIndex: uint64(i), QueuedAllocations: map[string]int{"g": 2},
		})
	}
	later := &structs.Evaluation{Status: structs.EvaluationPending, WaitUntil: time.Now().Add(time.Hour)}
	return append(list, later, &structs.Evaluation{Status: structs.EvaluationPending, Type: "batch"}, &structs.Evaluation{Status: structs.EvaluationComplete})
}

func (manyJobs) Nodes() []*structs.Node {
	return []*structs.Node{{Status: structs.NodeReady}, {Status: structs.NodeDown}}
}

func (manyJobs) Node(string) *structs.Node { return &structs.Node{Datacenter: "dc1", Pool: "default"} }

func (manyJobs) Index(string) uint64 { return 42 }

func TestMetricsOfJobsAreBounded(t *testing.T) {
	for count, shown := range map[int]int{1024: 1024, 1025: 1024} {
		h := httpapi.Handler(httpapi.Config{
			Logger: hclog.NewNullLogger(), ControlPlane: manyJobs{count: count}, Metrics: prometheus.NewRegistry(), Conditions: func() []structs.Condition {
				return []structs.Condition{{Server: true, Unhealthy: true}}
			},
		})
		answer := httptest.NewRecorder()
		h.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "http://localhost/v1/metrics?format=prometheus", nil))
		require.Equal(t, http.StatusOK, answer.Code, answer.Body)
		text := answer.Body.String()
		require.Equal(t, shown, strings.Count(text, "\nnomad_nomad_job_summary_queued{"))
		require.Equal(t, shown, strings.Count(text, "\nnomad_nomad_blocked_evals_job_cpu{"))
		require.Contains(t, text, `nomad_nomad_job_summary_queued{job="job-1023",namespace="default",task_group="g"} 2`, "those of the oldest jobs")
		for line, value := range map[string]int{
			"nomad_nomad_job_status_pending": count, "nomad_nomad_blocked_evals_total_blocked": count,
			`nomad_nomad_blocked_evals_job_memory{job="job-7",namespace="default"}`:                40,
			`nomad_nomad_blocked_evals_memory{datacenter="dc1",node_class="",node_pool="default"}`: 40 * count,
			`nomad_nomad_blocked_evals_cpu{datacenter="dc1",node_class="",node_pool="default"}`:    200 * count,
			"nomad_nomad_broker_total_waiting":                                                     1, "nomad_nomad_broker_total_ready": 1, "nomad_nomad_broker_batch_ready": 1, "nomad_nomad_broker_service_ready": 0,
			"nomad_nomad_heartbeat_active": 1, "nomad_nomad_autopilot_healthy": 0, "nomad_raft_appliedIndex": 42,
		} {
			require.Contains(t, text, "\n"+line+" "+strconv.Itoa(value)+"\n")
		}
	}
}
