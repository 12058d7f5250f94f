package agent

import (
	"os"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/httpapi/telemetry"
	"github.com/wasmnode/wasmnode/managers/catalog"
	"github.com/wasmnode/wasmnode/sandbox"
	"github.com/wasmnode/wasmnode/structs"
)

// newMetrics returns what the agent's metrics are gathered from.
func (a *agent) newMetrics() prometheus.Gatherer {
	r := prometheus.NewRegistry()
	self := func() *structs.Node { return a.plane.Node(a.node.ID()) }
	if a.cluster != nil {
		self = a.node.Structs
	}
	r.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		runtimeMetrics{},
		a.supervisorMetrics(),
		pluginMetrics{a.catalog.Status, a.host.Refusals},
		allocationMetrics{a.allocations},
		clientMetrics{self, a.allocations, a.outcomes},
		a.deviceMetrics(),
		a.outcomes,
		a.sinkMetrics,
		conditionMetrics{a.currentConditions},
		a.bounds,
	)
	if a.cfg.Telemetry.PublishAllocations {
		r.MustRegister(taskMetrics{a.allocations, a.node})
	}
	if a.cfg.Telemetry.PublishNode {
		r.MustRegister(hostMetrics{self, a.node.HostUsage})
	}
	return r
}

// shownMetrics is what is shown of the metrics.
func (a *agent) shownMetrics() telemetry.Options {
	t := a.cfg.Telemetry
	o := telemetry.Options{Filter: t.PrefixFilter, HideRest: !t.FilterDefault, HideDispatched: t.HideDispatched}
	switch host, err := os.Hostname(); {
	case t.DisableHostname:
	case t.UseNodeName || err != nil:
		o.Host = telemetry.Label(a.cfg.Name)
	default:
		o.Host = telemetry.Label(host)
	}
	return o
}

// The plugins' metrics. Their labels are bounded by the number of files in the
// plugin directory; a plugin that is replaced counts from zero.
var (
	pluginRefusals  = describe("wasmnode_plugin_refusals_total", "Files that were refused, by the stage that did.", "stage")
	pluginState     = describe("wasmnode_plugin_state", "1 for the state that a plugin's file is in.", "file", "plugin", "state")
	pluginCalls     = describe("wasmnode_plugin_calls_total", "Calls that entered the plugin.", "plugin")
	pluginFaults    = describe("wasmnode_plugin_faults_total", "Calls that ended without an answer, by kind.", "plugin", "kind")
	pluginDenied    = describe("wasmnode_plugin_denied_total", "Uses of a capability that were not granted.", "plugin")
	pluginTime      = describe("wasmnode_plugin_guest_seconds_total", "Time in the plugin's own code.", "plugin")
	pluginGap       = describe("wasmnode_plugin_longest_gap_seconds", "The longest time for which the plugin could not have been interrupted.", "plugin")
	pluginInstances = describe("wasmnode_plugin_instances", "Instances that the plugin has now, by whether one is busy with a call or idle.", "plugin", "state")
	pluginMemory    = describe("wasmnode_plugin_memory_bytes", "Memory of the plugin's instances, idle ones included.", "plugin")
	pluginExhausted = describe("wasmnode_plugin_exhausted_total", "Calls that failed because the plugin had used up a budget, by which: memory or time.", "plugin", "budget")
	pluginStreams   = describe("wasmnode_plugin_streams", "Streams that the plugin has open now.", "plugin")
	pluginOpened    = describe("wasmnode_plugin_streams_opened_total", "Streams that were opened, by the capability: connections by net, requests by http.", "plugin", "capability")
	pluginMoved     = describe("wasmnode_plugin_stream_bytes_total", "Bytes that the plugin read from streams, and wrote.", "plugin", "direction")
	pluginHelpers   = describe("wasmnode_plugin_helpers_total", "Helpers that the plugin ran, and commands in its tasks' workloads, by how that ended: ended, timeout or failed.", "plugin", "outcome")
	pluginRunning   = describe("wasmnode_plugin_helpers_running", "Helpers of the plugin, and commands in its tasks' workloads, that run now; there are eight at most.", "plugin")
	pluginUses      = describe("wasmnode_plugin_capability_uses_total", "Uses of a function of a capability, by what came of it: done, denied, exhausted (a bound), failed, or ended with the call.", "plugin", "capability", "function", "outcome")
	pluginKept      = describe("wasmnode_plugin_kept_values", "Values that the plugin keeps in the node's database, once it has asked for one; there are 1,024 at most.", "plugin")
	pluginKeptBytes = describe("wasmnode_plugin_kept_bytes", "Bytes of those values and of their keys; 1 MiB at most.", "plugin")
	pluginMade      = describe("wasmnode_plugin_instances_total", "Instances that were made, by their origin: a module's start, or a copy of one that had started.", "plugin", "origin")
)

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

type pluginMetrics struct {
	status   func() []catalog.PluginStatus
	refusals func() map[sandbox.Stage]uint64
}

// Describe implements [prometheus.Collector].
func (m pluginMetrics) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{pluginRefusals, pluginState, pluginCalls, pluginFaults, pluginDenied, pluginTime, pluginGap, pluginInstances, pluginMemory, pluginExhausted, pluginStreams, pluginOpened, pluginMoved, pluginHelpers, pluginRunning, pluginUses, pluginKept, pluginKeptBytes, pluginMade} {
		out <- d
	}
}

// Collect implements [prometheus.Collector].
func (m pluginMetrics) Collect(out chan<- prometheus.Metric) {
	for stage, n := range m.refusals() {
		out <- prometheus.MustNewConstMetric(pluginRefusals, prometheus.CounterValue, float64(n), string(stage))
	}
	serves := map[string]bool{}
	for _, p := range m.status() {
		out <- prometheus.MustNewConstMetric(pluginState, prometheus.GaugeValue, 1, p.File, p.Name, string(p.State))
		if p.Name == "" || p.State == catalog.StateRejected || serves[p.Name] {
			continue // two files may claim a name, and one of them has it
		}
		serves[p.Name] = true
		collectPlugin(out, p)
	}
}

func collectPlugin(out chan<- prometheus.Metric, p catalog.PluginStatus) {
	counter := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, append([]string{p.Name}, labels...)...)
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, append([]string{p.Name}, labels...)...)
	}
	s := p.Stats
	counter(pluginCalls, float64(s.Calls))
	for kind, n := range s.Faults {
		counter(pluginFaults, float64(n), string(kind))
	}
	counter(pluginDenied, float64(s.Denied))
	counter(pluginTime, s.GuestTime.Seconds())
	gauge(pluginGap, s.LongestGap.Seconds())
	gauge(pluginInstances, float64(s.AtRest), "idle")
	gauge(pluginInstances, float64(s.AtWork), "busy")
	gauge(pluginMemory, float64(s.MemoryBytes))
	counter(pluginExhausted, float64(s.OutOfMemory), "memory")
	counter(pluginExhausted, float64(s.OutOfTime), "time")
	gauge(pluginStreams, float64(s.Streams))
	for module, n := range s.Opened {
		counter(pluginOpened, float64(n), module)
	}
	counter(pluginMoved, float64(s.StreamRead), "read")
	counter(pluginMoved, float64(s.StreamWritten), "write")
	for _, outcome := range host.HelperOutcomes {
		counter(pluginHelpers, float64(s.Helpers[outcome]), outcome)
	}
	gauge(pluginRunning, float64(s.HelpersRunning))
	for _, u := range s.Uses {
		counter(pluginUses, float64(u.Count), u.Module, u.Function, u.Outcome)
	}
	gauge(pluginKept, float64(s.KeptValues))
	gauge(pluginKeptBytes, float64(s.KeptBytes))
	counter(pluginMade, float64(s.Instances-s.Copies), "start")
	counter(pluginMade, float64(s.Copies), "copy")
}

var allocations = describe("wasmnode_allocations", "Allocations of the node, by client status.", "status")

type allocationMetrics struct{ allocations func() []*structs.Allocation }

// Describe implements [prometheus.Collector].
func (m allocationMetrics) Describe(out chan<- *prometheus.Desc) { out <- allocations }

// Collect implements [prometheus.Collector].
func (m allocationMetrics) Collect(out chan<- prometheus.Metric) {
	counts := map[structs.ClientStatus]int{structs.ClientPending: 0, structs.ClientRunning: 0, structs.ClientComplete: 0, structs.ClientFailed: 0, structs.ClientLost: 0}
	for _, a := range m.allocations() {
		counts[a.ClientStatus]++
	}
	for status, n := range counts {
		out <- prometheus.MustNewConstMetric(allocations, prometheus.GaugeValue, float64(n), string(status))
	}
}
