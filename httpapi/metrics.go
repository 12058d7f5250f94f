package httpapi

import (
	"net/http"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
)

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
			}
		}
	}
	return reply(w, r, out)
}
