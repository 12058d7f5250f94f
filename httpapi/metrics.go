package httpapi

import (
	"net/http"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"

	"github.com/wasmnode/wasmnode/httpapi/telemetry"
)

// requestMetrics are of the API itself. Their labels are bounded by the number of routes
// and of HTTP statuses.
type requestMetrics struct {
	registry *prometheus.Registry
	requests *prometheus.CounterVec // by status and method, to be summed
	seconds  *prometheus.HistogramVec
}

func newRequestMetrics() requestMetrics {
	m := requestMetrics{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "requests"}, []string{"code", "method"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "wasmnode_http_request_seconds",
			Help:    "Time to answer, by route. What waits because it is to, as streams and blocking queries do, is not in it.",
			Buckets: []float64{.001, .005, .025, .1, .5, 2.5, 10},
		}, []string{"route"}),
	}
	m.registry.MustRegister(requestCounts{m.requests}, m.seconds)
	return m
}

// requestCounts are of what the API was asked: ours by status, and Nomad's of what its servers
// are asked, which is all of it here.
type requestCounts struct{ requests *prometheus.CounterVec }

var (
	answers     = prometheus.NewDesc("wasmnode_http_requests_total", "Answers of the HTTP API, by status.", []string{"code"}, nil)
	rpcRequests = telemetry.Describe("nomad.nomad.rpc.request", "Requests to the API: there are no others.")
	rpcQueries  = telemetry.Describe("nomad.nomad.rpc.query", "Of them those that change nothing.")
	rpcErrors   = telemetry.Describe("nomad.nomad.rpc.request_error", "Of all those that were not answered with what they asked for.")
)

// Describe implements [prometheus.Collector].
func (requestCounts) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{answers, rpcRequests, rpcQueries, rpcErrors} {
		out <- d
	}
}

// Collect implements [prometheus.Collector].
func (c requestCounts) Collect(out chan<- prometheus.Metric) {
	counter := func(d *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, value, labels...)
	}
	byCode, queries := c.sum()
	var all, failed float64
	for code, n := range byCode {
		counter(answers, n, code)
		all += n
		if code >= "400" {
			failed += n
		}
	}
	counter(rpcRequests, all)
	counter(rpcQueries, queries)
	counter(rpcErrors, failed)
}

// sum returns the numbers of requests by status, and of those that are reads.
func (c requestCounts) sum() (byCode map[string]float64, reads float64) {
	counts := make(chan prometheus.Metric) // taken until it is closed
	go func() {
		defer close(counts)
		c.requests.Collect(counts)
	}()
	byCode = map[string]float64{}
	for count := range counts {
		var one dto.Metric
		if count.Write(&one) != nil {
			continue
		}
		for _, l := range one.Label {
			switch {
			case l.GetName() == "code":
				byCode[l.GetValue()] += one.Counter.GetValue()
			case l.GetValue() == "get":
				reads += one.Counter.GetValue()
			}
		}
	}
	return byCode, reads
}

// noRoute is the label of what no route takes.
const noRoute = "none"

// observe measures what a handler answers.
func (m requestMetrics) observe(next http.Handler) http.Handler {
	timed := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		next.ServeHTTP(w, r)
		if waits(r) {
			return
		}
		route := r.Pattern // the multiplexer has set it
		if route == "" || route == "/" {
			route = noRoute
		}
		m.seconds.WithLabelValues(route).Observe(time.Since(began).Seconds())
	})
	return promhttp.InstrumentHandlerCounter(m.requests, timed)
}

// streams are the routes whose answers take as long as what they show.
var streams = map[string]bool{
	"GET /v1/client/allocation/{id}/exec": true,
	"GET /v1/client/fs/logs/{id}":         true,
	"GET /v1/client/fs/stream/{id}":       true,
	"GET /v1/client/fs/cat/{id}":          true,
	"GET /v1/client/fs/readat/{id}":       true,
}

// waits reports whether a request is not to be answered as fast as it can be.
func waits(r *http.Request) bool {
	if streams[r.Pattern] {
		return true
	}
	index := r.URL.Query().Get("index")
	return index != "" && index != "0"
}

func (h *handler) metricRoutes() {
	prometheus := promhttp.HandlerFor(h.Metrics, promhttp.HandlerOpts{})
	h.method("/v1/metrics", func(w http.ResponseWriter, r *http.Request) error {
		switch format := r.URL.Query().Get("format"); format {
		case "prometheus":
			prometheus.ServeHTTP(w, r)
			return nil
		case "":
			return h.metricsSummary(w, r)
		default:
			return badRequest("format %q: it is prometheus, or left out for JSON", format)
		}
	}, http.MethodGet)
}

// metricsSummary answers in the form of Nomad's own metrics.
func (h *handler) metricsSummary(w http.ResponseWriter, r *http.Request) error {
	families, err := h.Metrics.Gather()
	if err != nil {
		return err
	}
	out := nomad.MetricsSummary{Timestamp: time.Now().UTC().Format("2006-01-02 15:04:05 +0000 UTC"), Gauges: []nomad.GaugeValue{}, Points: []nomad.PointValue{}, Counters: []nomad.SampledValue{}, Samples: []nomad.SampledValue{}}
	for _, f := range families {
		for _, m := range f.Metric {
			labels := map[string]string{}
			for _, l := range m.Label {
				labels[l.GetName()] = l.GetValue()
			}
			switch f.GetType() {
			case dto.MetricType_GAUGE:
				out.Gauges = append(out.Gauges, nomad.GaugeValue{Name: telemetry.Name(f.GetName()), Value: float32(m.Gauge.GetValue()), DisplayLabels: labels})
			case dto.MetricType_COUNTER:
				v := m.Counter.GetValue()
				out.Counters = append(out.Counters, nomad.SampledValue{Name: telemetry.Name(f.GetName()), AggregateSample: &nomad.AggregateSample{Count: int(v), Sum: v}, DisplayLabels: labels})
			case dto.MetricType_HISTOGRAM:
				out.Samples = append(out.Samples, sampled(f.GetName(), m.Histogram, labels))
			case dto.MetricType_SUMMARY:
				n, sum := m.Summary.GetSampleCount(), m.Summary.GetSampleSum()
				out.Samples = append(out.Samples, nomad.SampledValue{
					Name: telemetry.Name(f.GetName()), DisplayLabels: labels, Mean: sum / float64(max(1, n)),
					AggregateSample: &nomad.AggregateSample{Count: int(n), Sum: sum},
				})
			}
		}
	}
	return h.reply(w, r, out)
}

// sampled renders a histogram. Its smallest and largest value are known as far as the
// buckets tell them apart: Min is at most, and Max at least, what was measured.
func sampled(name string, h *dto.Histogram, labels map[string]string) nomad.SampledValue {
	n, sum := h.GetSampleCount(), h.GetSampleSum()
	out := nomad.SampledValue{
		Name: name, DisplayLabels: labels, Mean: sum / float64(max(1, n)),
		AggregateSample: &nomad.AggregateSample{Count: int(n), Sum: sum},
	}
	var below uint64
	for _, b := range h.Bucket {
		if b.GetCumulativeCount() == 0 {
			out.Min = b.GetUpperBound()
		}
		if b.GetCumulativeCount() > below {
			out.Max = b.GetUpperBound()
		}
		below = b.GetCumulativeCount()
	}
	if n > below {
		out.Max = sum // beyond the last bucket: none is larger than all together
	}
	return out
}
