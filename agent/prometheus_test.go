package agent_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/agent/agenttest"
	"github.com/wasmnode/wasmnode/internal/certtest"
	"github.com/wasmnode/wasmnode/internal/enginetest"
)

// A real Prometheus reads an agent that has jobs, and one with TLS and tokens: it takes every
// sample, evaluates every rule and every query of the dashboard, has data where there is some to
// have, and knows every name of Nomad's that the page of metrics promises.
func TestPrometheusReadsAgents(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts prometheus")
	}
	enginetest.Program(t, "prometheus", "prometheus")
	o := options(t)
	o.ConfigPaths = []string{file(t, o.DataDir+".hcl")}
	require.NoError(t, os.WriteFile(o.ConfigPaths[0], fmt.Appendf(nil, `client {
  gc_disk_usage_threshold = 100 # what has ended is kept, however full the machine's disk is
}
server { default_scheduler_config { memory_oversubscription_enabled = true } }
plugin "raw_exec" { grant { process { commands = ["*"] } } }
event_sink "disk" {
  type = "file"
  path = %q
}`, filepath.Join(t.TempDir(), "events")), 0o600))
	plain := agenttest.Run(t, o)
	busy(t, clientAt(t, plain))
	authority := certtest.NewAuthority(t)
	cert, key := authority.Write(t, t.TempDir(), "127.0.0.1")
	secured := agenttest.Run(t, bare(t, fmt.Sprintf("tls {\n http = true\n cert_file = %q\n key_file = %q\n}\nacl {\n enabled = true\n}", cert, key)))

	rules, err := filepath.Abs("../docs/monitoring/alerts.yml")
	require.NoError(t, err)
	config := file(t, filepath.Join(t.TempDir(), "prometheus.yml"))
	require.NoError(t, os.WriteFile(config, fmt.Appendf(nil, `global: {scrape_interval: 2s, scrape_timeout: 2s, evaluation_interval: 2s}
rule_files: [%q]
scrape_configs:
  - job_name: nomad
    metrics_path: /v1/metrics
    params: {format: [prometheus]}
    static_configs: [{targets: [%q]}]
  - job_name: wasmnode
    scheme: https
    tls_config: {ca_file: %q}
    metrics_path: /v1/metrics
    params: {format: [prometheus]}
    static_configs: [{targets: [%q]}]
`, rules, plain, authority.File(t), secured), 0o600))
	p := prometheus{enginetest.Prometheus(t, config)}

	within(t, "both are read", func(t *assert.CollectT) {
		assert.Len(t, p.query(t, `up == 1`), 2)
		assert.Len(t, p.query(t, `count_over_time(process_resident_memory_bytes{job="nomad"}[1m]) >= 2`), 1)
	})
	queries := dashboardQueries(t)
	within(t, "the dashboard has data", func(t *assert.CollectT) {
		for _, query := range queries {
			found := p.query(t, query)
			if !mayBeEmpty.MatchString(query) {
				assert.NotEmpty(t, found, query)
			}
		}
	})
	within(t, "the alerts are evaluated", func(t *assert.CollectT) {
		var answer struct {
			Groups []struct {
				Rules []struct{ Name, Health, LastError string }
			}
		}
		p.get(t, "/api/v1/rules", &answer)
		if !assert.NotEmpty(t, answer.Groups) {
			return
		}
		for _, rule := range answer.Groups[0].Rules {
			assert.Equal(t, "ok", rule.Health, "%s: %s", rule.Name, rule.LastError)
		}
	})
	within(t, "names", func(t *assert.CollectT) {
		var names []string
		p.get(t, "/api/v1/label/__name__/values?match[]="+url.QueryEscape(`{job="nomad"}`), &names)
		for _, name := range nomadsNames(t) {
			assert.True(t, slices.Contains(names, name) || slices.Contains(names, name+"_count"), name)
		}
	})
	own := p.own(t)
	for _, rejected := range []string{"sample_out_of_order", "sample_duplicate_timestamp", "sample_out_of_bounds", "exceeded_sample_limit"} {
		require.Regexp(t, `(?m)^prometheus_target_scrapes_`+rejected+`_total 0$`, own)
	}
}

// busy has an agent run what there are metrics of: a service whose check fails, a task that is
// started again and fails, and a job that waits for room.
func busy(t *testing.T, c *nomad.Client) {
	t.Helper()
	run := func(job *nomad.Job) {
		_, _, err := c.Jobs().Register(job, nil)
		require.NoError(t, err)
	}
	service := agenttest.Job("service", "raw_exec", map[string]any{"command": "/bin/sleep", "args": []string{"1000"}})
	kind := "service"
	service.Type = &kind
	service.TaskGroups[0].Services = []*nomad.Service{{Name: "s", Provider: "nomad", Address: "127.0.0.1", PortLabel: "1", Checks: []nomad.ServiceCheck{
		{Name: "c", Type: "tcp", Interval: time.Second, Timeout: time.Second},
	}}}
	most := 32
	service.TaskGroups[0].Tasks[0].Resources.MemoryMaxMB = &most
	run(service)
	failing := agenttest.Job("failing", "mock_driver", map[string]any{"exit_code": 1})
	attempts, delay := 1, time.Millisecond
	failing.TaskGroups[0].RestartPolicy = &nomad.RestartPolicy{Attempts: &attempts, Delay: &delay}
	failing.TaskGroups[0].ReschedulePolicy = &nomad.ReschedulePolicy{Attempts: new(int)}
	run(failing)
	large := agenttest.Job("large", "mock_driver", map[string]any{})
	memory := 1 << 24
	large.TaskGroups[0].Tasks[0].Resources.MemoryMB = &memory
	run(large)
	awaitRunning(t, c, "service")
}

// mayBeEmpty are the queries about what a node that is well does not have, nor one in a test, whose
// tasks are in the agent's own process.
var mayBeEmpty = regexp.MustCompile(`^wasmnode_condition|state!=|plugin_faults|http_refused|^wasmnode_supervisor`)

// dashboardQueries are what the dashboard asks for, as Grafana would of every node.
func dashboardQueries(t *testing.T) (queries []string) {
	t.Helper()
	text, err := os.ReadFile("../docs/monitoring/dashboard.json")
	require.NoError(t, err)
	var dashboard struct {
		Panels []struct{ Targets []struct{ Expr string } }
	}
	require.NoError(t, json.Unmarshal(text, &dashboard))
	for _, panel := range dashboard.Panels {
		for _, target := range panel.Targets {
			queries = append(queries, strings.NewReplacer("$instance", ".*", "$__rate_interval", "5m").Replace(target.Expr))
		}
	}
	require.Greater(t, len(queries), 30)
	return queries
}

// nomadsNames are those that the page of metrics says a node has.
func nomadsNames(t require.TestingT) (names []string) {
	page, err := os.ReadFile("../docs/metrics.md")
	require.NoError(t, err)
	_, rest, _ := strings.Cut(string(page), "\n## Nomad's names\n")
	section, _, found := strings.Cut(rest, "\n## ")
	require.True(t, found)
	for _, row := range regexp.MustCompile("(?m)^\\| (`[^|]*)").FindAllString(section, -1) {
		for _, name := range regexp.MustCompile(`nomad_\w+`).FindAllString(row, -1) {
			if name != "nomad_client_allocs_memory_max_usage" { // this driver does not tell it on every machine
				names = append(names, name)
			}
		}
	}
	return names
}

// within tries until something is true.
func within(t *testing.T, what string, try func(t *assert.CollectT)) {
	t.Helper()
	require.EventuallyWithT(t, try, 2*time.Minute, 200*time.Millisecond, what)
}

// prometheus is a server's API.
type prometheus struct{ url string }

func (p prometheus) get(t require.TestingT, path string, data any) {
	response, err := http.Get(p.url + path)
	require.NoError(t, err)
	defer response.Body.Close()
	answer := struct {
		Status, Error string
		Data          any
	}{Data: data}
	require.NoError(t, json.NewDecoder(response.Body).Decode(&answer))
	require.Equal(t, "success", answer.Status, "%s: %s", path, answer.Error)
}

// query returns the series that a query has now.
func (p prometheus) query(t require.TestingT, query string) []any {
	var answer struct{ Result []any }
	p.get(t, "/api/v1/query?query="+url.QueryEscape(query), &answer)
	return answer.Result
}

// own are the server's own metrics.
func (p prometheus) own(t *testing.T) string {
	t.Helper()
	return started{address: strings.TrimPrefix(p.url, "http://")}.text(t, "/metrics")
}
