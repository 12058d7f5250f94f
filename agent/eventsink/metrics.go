package eventsink

import "github.com/prometheus/client_golang/prometheus"

// Metrics are those of all sinks of an agent. The only label is a sink's name, of which the
// configuration has few.
type Metrics struct {
	delivered, failures, lost *prometheus.CounterVec
	failing                   *prometheus.GaugeVec
}

// NewMetrics makes them.
func NewMetrics() *Metrics {
	counter := func(name, help string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "wasmnode_event_sink_" + name, Help: help}, []string{"sink"})
	}
	return &Metrics{
		delivered: counter("delivered_total", "Lines of events that a sink took."),
		failures:  counter("failures_total", "Tries to deliver a line that failed."),
		lost:      counter("lost_total", "Changes that were kept no more before a sink was told of them, or that it refused."),
		failing:   prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "wasmnode_event_sink_failing", Help: "1 while nothing can be delivered to a sink."}, []string{"sink"}),
	}
}

// begin has a sink's metrics there before anything happens: a rate needs a first value.
func (m *Metrics) begin(sink string) {
	m.delivered.WithLabelValues(sink)
	m.failures.WithLabelValues(sink)
	m.lost.WithLabelValues(sink)
	m.failing.WithLabelValues(sink)
}

func (m *Metrics) all() []prometheus.Collector {
	return []prometheus.Collector{m.delivered, m.failures, m.lost, m.failing}
}

// Describe implements [prometheus.Collector].
func (m *Metrics) Describe(out chan<- *prometheus.Desc) {
	for _, c := range m.all() {
		c.Describe(out)
	}
}

// Collect implements [prometheus.Collector].
func (m *Metrics) Collect(out chan<- prometheus.Metric) {
	for _, c := range m.all() {
		c.Collect(out)
	}
}
