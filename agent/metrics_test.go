package agent

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/managers/catalog"
	"github.com/wasmnode/wasmnode/sandbox"
)

func TestPluginMetricsAreThoseOfTheActivePlugin(t *testing.T) {
	m := pluginMetrics{
		func() []catalog.PluginStatus {
			return []catalog.PluginStatus{
				{File: "a.wasm", Name: "a", State: catalog.StateHealthy, Stats: host.Stats{
					Calls: 7, Faults: map[host.FaultKind]uint64{host.FaultTrap: 2}, Denied: 1, GuestTime: 1500 * time.Millisecond,
					LongestGap: time.Millisecond, Instances: 5, Copies: 3, AtRest: 1, AtWork: 2,
					HelpersRunning: 2, KeptValues: 3, KeptBytes: 50, Helpers: map[string]uint64{"timeout": 4},
					Uses: []host.CapabilityUses{{Module: "wasmnode:kv/v1", Function: "set", Outcome: host.UseExhausted, Count: 6}},
				}},
				{File: "b.wasm", Name: "a", State: catalog.StateRejected},
				{File: "c.wasm", State: catalog.StateRejected},
			}
		},
		func() map[sandbox.Stage]uint64 { return map[sandbox.Stage]uint64{sandbox.StageScan: 4} },
	}
	require.NoError(t, testutil.CollectAndCompare(m, strings.NewReader(`
# HELP wasmnode_plugin_calls_total Calls that entered the plugin.
# TYPE wasmnode_plugin_calls_total counter
wasmnode_plugin_calls_total{plugin="a"} 7
# HELP wasmnode_plugin_faults_total Calls that ended without an answer, by kind.
# TYPE wasmnode_plugin_faults_total counter
wasmnode_plugin_faults_total{kind="trapped",plugin="a"} 2
# HELP wasmnode_plugin_capability_uses_total Uses of a function of a capability, by what came of it: done, denied, exhausted (a bound), failed, or ended with the call.
# TYPE wasmnode_plugin_capability_uses_total counter
wasmnode_plugin_capability_uses_total{capability="wasmnode:kv/v1",function="set",outcome="exhausted",plugin="a"} 6
# HELP wasmnode_plugin_helpers_running Helpers of the plugin, and commands in its tasks' workloads, that run now; there are eight at most.
# TYPE wasmnode_plugin_helpers_running gauge
wasmnode_plugin_helpers_running{plugin="a"} 2
# HELP wasmnode_plugin_helpers_total Helpers that the plugin ran, and commands in its tasks' workloads, by how that ended: ended, timeout or failed.
# TYPE wasmnode_plugin_helpers_total counter
wasmnode_plugin_helpers_total{outcome="ended",plugin="a"} 0
wasmnode_plugin_helpers_total{outcome="failed",plugin="a"} 0
wasmnode_plugin_helpers_total{outcome="timeout",plugin="a"} 4
# HELP wasmnode_plugin_kept_bytes Bytes of those values and of their keys; 1 MiB at most.
# TYPE wasmnode_plugin_kept_bytes gauge
wasmnode_plugin_kept_bytes{plugin="a"} 50
# HELP wasmnode_plugin_kept_values Values that the plugin keeps in the node's database, once it has asked for one; there are 1,024 at most.
# TYPE wasmnode_plugin_kept_values gauge
wasmnode_plugin_kept_values{plugin="a"} 3
# HELP wasmnode_plugin_instances Instances that the plugin has now, by whether one is busy with a call or idle.
# TYPE wasmnode_plugin_instances gauge
wasmnode_plugin_instances{plugin="a",state="busy"} 2
wasmnode_plugin_instances{plugin="a",state="idle"} 1
# HELP wasmnode_plugin_instances_total Instances that were made, by their origin: a module's start, or a copy of one that had started.
# TYPE wasmnode_plugin_instances_total counter
wasmnode_plugin_instances_total{origin="copy",plugin="a"} 3
wasmnode_plugin_instances_total{origin="start",plugin="a"} 2
# HELP wasmnode_plugin_refusals_total Files that were refused, by the stage that did.
# TYPE wasmnode_plugin_refusals_total counter
wasmnode_plugin_refusals_total{stage="scan"} 4
# HELP wasmnode_plugin_state 1 for the state that a plugin's file is in.
# TYPE wasmnode_plugin_state gauge
wasmnode_plugin_state{file="a.wasm",plugin="a",state="healthy"} 1
wasmnode_plugin_state{file="b.wasm",plugin="a",state="rejected"} 1
wasmnode_plugin_state{file="c.wasm",plugin="",state="rejected"} 1
`), "wasmnode_plugin_calls_total", "wasmnode_plugin_capability_uses_total", "wasmnode_plugin_faults_total", "wasmnode_plugin_helpers_running", "wasmnode_plugin_helpers_total", "wasmnode_plugin_kept_bytes", "wasmnode_plugin_kept_values", "wasmnode_plugin_instances", "wasmnode_plugin_instances_total", "wasmnode_plugin_refusals_total", "wasmnode_plugin_state"))
}
