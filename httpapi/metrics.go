package httpapi

import (
	"net/http"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
)

// requestMetrics are of the API itself. Their labels are bounded by the number of routes
// and of HTTP statuses.
type requestMetrics struct {
	registry *prometheus.Registry
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
}

func newRequestMetrics() requestMetrics {
	m := requestMetrics{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "wasmnode_http_requests_total", Help: "Answers of the HTTP API, by status.",
		}, []string{"code"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "wasmnode_http_request_seconds",
			Help:    "Time to answer, by route. What waits because it is to, as streams and blocking queries do, is not in it.",
			Buckets: []float64{.001, .005, .025, .1, .5, 2.5, 10},
		}, []string{"route"}),
	}
	m.registry.MustRegister(m.requests, m.seconds)
	return m
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
				out.Gauges = append(out.Gauges, nomad.GaugeValue{Name: f.GetName(), Value: float32(m.Gauge.GetValue()), DisplayLabels: labels})
			case dto.MetricType_COUNTER:
				v := m.Counter.GetValue()
				out.Counters = append(out.Counters, nomad.SampledValue{Name: f.GetName(), AggregateSample: &nomad.AggregateSample{Count: int(v), Sum: v}, DisplayLabels: labels})
			case dto.MetricType_HISTOGRAM:
				out.Samples = append(out.Samples, sampled(f.GetName(), m.Histogram, labels))
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
