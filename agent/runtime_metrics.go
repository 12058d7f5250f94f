package agent

import (
	"runtime"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/wasmnode/wasmnode/httpapi/telemetry"
)

// The metrics of the agent's own memory, with the names that Nomad has for them.
var (
	runtimeAllocated  = telemetry.Describe("nomad.runtime.alloc_bytes", "Memory of the agent's heap that is in use, in bytes.")
	runtimeSystem     = telemetry.Describe("nomad.runtime.sys_bytes", "Memory that the agent's runtime has of the machine, in bytes.")
	runtimeMallocs    = telemetry.Describe("nomad.runtime.malloc_count", "Objects that were made on the heap.")
	runtimeFrees      = telemetry.Describe("nomad.runtime.free_count", "Objects of them that are no more.")
	runtimeObjects    = telemetry.Describe("nomad.runtime.heap_objects", "Objects on the heap.")
	runtimeGoroutines = telemetry.Describe("nomad.runtime.num_goroutines", "Goroutines of the agent.")
	runtimePause      = telemetry.Describe("nomad.runtime.total_gc_pause_ns", "Time that the agent was stopped for its garbage, in nanoseconds.")
	runtimeRuns       = telemetry.Describe("nomad.runtime.total_gc_runs", "How often its garbage was collected.")
	runtimePauses     = telemetry.Describe("nomad.runtime.gc_pause_ns", "The times of these, in nanoseconds.")
)

type runtimeMetrics struct{}

// Describe implements [prometheus.Collector].
func (runtimeMetrics) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		runtimeAllocated, runtimeSystem, runtimeMallocs, runtimeFrees, runtimeObjects, runtimeGoroutines, runtimePause, runtimeRuns, runtimePauses,
	} {
		out <- d
	}
}

// Collect implements [prometheus.Collector].
func (runtimeMetrics) Collect(out chan<- prometheus.Metric) {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	for d, value := range map[*prometheus.Desc]float64{
		runtimeAllocated: float64(m.Alloc), runtimeSystem: float64(m.Sys), runtimeMallocs: float64(m.Mallocs), runtimeFrees: float64(m.Frees),
		runtimeObjects: float64(m.HeapObjects), runtimeGoroutines: float64(runtime.NumGoroutine()),
		runtimePause: float64(m.PauseTotalNs), runtimeRuns: float64(m.NumGC),
	} {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value)
	}
	out <- prometheus.MustNewConstSummary(runtimePauses, uint64(m.NumGC), float64(m.PauseTotalNs), nil)
}
