package httpapi_test

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/stretchr/testify/require"
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
	require.Contains(t, text, "\nnomad_client_allocations{status=\"running\"} 1\n")
	find := func(name string, labels map[string]string) float32 {
		for _, g := range summary.Gauges {
			if g.Name == name && fmt.Sprint(g.DisplayLabels) == fmt.Sprint(labels) {
				return g.Value
			}
		}
		return -1
	}
	require.EqualValues(t, 1, find("nomad_client_allocations", map[string]string{"status": "running"}))
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
		require.Equal(t, "nomad_client_host_memory_total", p.Metric, "%s: it is Nomad's name that has _total in it", p.Text)
	}
}
