package agent

import (
	"maps"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/wasmnode/wasmnode/structs"
)

// maxDeviceSeries bounds the devices whose figures are metrics; of those beyond, in the
// order of groups and IDs, only the counts are.
const maxDeviceSeries = 1024

// The devices' metrics. Groups and devices are bounded for each plugin, and figures here
// once more.
var (
	deviceCount   = describe("wasmnode_devices", "Devices of the node, by group and health.", "group", "health")
	deviceSummary = describe("wasmnode_device_summary", "The most significant figure of a device, in the unit given: B, B/s, Hz, W, V, s, C, % or rpm.", "group", "device", "unit")
)

type deviceMetrics struct {
	devices func() []*structs.DeviceGroup
	stats   func() []*structs.DeviceGroupStats
}

// Describe implements [prometheus.Collector].
func (m deviceMetrics) Describe(out chan<- *prometheus.Desc) {
	out <- deviceCount
	out <- deviceSummary
}

// Collect implements [prometheus.Collector].
func (m deviceMetrics) Collect(out chan<- prometheus.Metric) {
	for _, g := range m.devices() {
		counts := map[structs.DeviceHealth]int{structs.DeviceHealthy: 0, structs.DeviceUnhealthy: 0, structs.DeviceUnconfirmed: 0}
		for _, d := range g.Devices {
			counts[d.Health]++
		}
		for health, n := range counts {
			out <- prometheus.MustNewConstMetric(deviceCount, prometheus.GaugeValue, float64(n), g.ID.String(), string(health))
		}
	}
	series := 0
	for _, g := range m.stats() {
		for _, id := range slices.Sorted(maps.Keys(g.Devices)) {
			number, unit, ok := g.Devices[id].Summary.Number()
			if !ok || series == maxDeviceSeries {
				continue
			}
			series++
			out <- prometheus.MustNewConstMetric(deviceSummary, prometheus.GaugeValue, number, g.ID.String(), id, unit)
		}
	}
}
