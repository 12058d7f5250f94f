package agent

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/wasmnode/wasmnode/structs"
)

var conditionMetric = describe("wasmnode_condition", "1 for each condition of the agent's health.", "name", "part", "unhealthy")

// conditionMetrics are the agent's conditions. What they are about has few names.
type conditionMetrics struct{ current func() []structs.Condition }

// Describe implements [prometheus.Collector].
func (m conditionMetrics) Describe(out chan<- *prometheus.Desc) { out <- conditionMetric }

// Collect implements [prometheus.Collector].
func (m conditionMetrics) Collect(out chan<- prometheus.Metric) {
	for _, c := range m.current() {
		part := "client"
		if c.Server {
			part = "server"
		}
		out <- prometheus.MustNewConstMetric(conditionMetric, prometheus.GaugeValue, 1, c.Name, part, strconv.FormatBool(c.Unhealthy))
	}
}
