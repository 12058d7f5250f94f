package agent

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/structs"
)

func allocation(id string, status structs.ClientStatus, phase structs.TaskPhase, r structs.TaskResources) *structs.Allocation {
	return &structs.Allocation{
		ID: id, NodeID: "n", ClientStatus: status, TaskStates: map[string]*structs.TaskState{"t": {State: phase}},
		Resources: structs.AllocatedResources{DiskMB: 300, Tasks: map[string]*structs.TaskResources{"t": &r}},
	}
}

func TestTheNodesMetricsAreOfWhatItRuns(t *testing.T) {
	waits := allocation("waits", structs.ClientPending, structs.TaskPending, structs.TaskResources{CPUMHz: 10, MemoryMB: 20, MemoryMaxMB: 30})
	waits.PreviousAllocation = "runs"
	stops := allocation("stops", structs.ClientRunning, structs.TaskRunning, structs.TaskResources{CPUMHz: 5000})
	stops.DesiredStatus = structs.DesiredStop
	elsewhere := allocation("elsewhere", structs.ClientRunning, structs.TaskRunning, structs.TaskResources{CPUMHz: 5000})
	elsewhere.NodeID = "other"
	after := allocation("after", structs.ClientPending, structs.TaskPending, structs.TaskResources{MemoryMB: 7})
	after.PreviousAllocation = "ended"
	all := []*structs.Allocation{
		waits, stops, elsewhere, after,
		allocation("runs", structs.ClientRunning, structs.TaskRunning, structs.TaskResources{CPUMHz: 100, MemoryMB: 200, MemoryMaxMB: structs.MemoryUnlimited}),
		allocation("ended", structs.ClientComplete, structs.TaskDead, structs.TaskResources{CPUMHz: 5000}),
		allocation("failed", structs.ClientFailed, structs.TaskDead, structs.TaskResources{CPUMHz: 5000}),
	}
	self := &structs.Node{
		ID: "n", Datacenter: "dc1", Pool: "default", Status: structs.NodeReady, Eligibility: "eligible",
		Resources: structs.NodeResources{CPUMHz: 4000, MemoryMB: 8000, DiskMB: 10000}, Reserved: structs.NodeResources{CPUMHz: 500, MemoryMB: 1000, DiskMB: 2000},
	}
	o := newOutcomes()
	o.oomKills.Inc()
	m := clientMetrics{func() *structs.Node { return self }, func() []*structs.Allocation { return all }, o}
	var want strings.Builder
	for name, value := range map[string]string{
		"allocated_cpu": "110", "allocated_memory": "227", "allocated_max_memory": "8037", "allocated_disk": "900",
		"unallocated_cpu": "3390", "unallocated_memory": "6773", "unallocated_disk": "7100",
		"allocations_blocked": "1", "allocations_pending": "1", "allocations_running": "2", "allocations_terminal": "2", "allocations_migrating": "0",
		"tasks_pending": "2", "tasks_running": "2", "tasks_dead": "2", "allocs_oom_killed": "1",
	} {
		want.WriteString("nomad_client_" + name + `{datacenter="dc1",node_class="none",node_id="n",node_pool="default",node_scheduling_eligibility="eligible",node_status="ready"} ` + value + "\n")
	}
	got := map[string]bool{}
	for line := range strings.Lines(gathered(t, m)) {
		got[line] = line[0] != '#'
	}
	for line := range strings.Lines(want.String()) {
		require.True(t, got[line], "%s is not in: %v", line, got)
		delete(got, line)
	}
	for line, value := range got {
		require.False(t, value, line)
	}
	require.Empty(t, gathered(t, clientMetrics{func() *structs.Node { return nil }, func() []*structs.Allocation { return all }, o}), "a node that is not known yet")
}

func TestTheEndOfTasksIsCounted(t *testing.T) {
	ended := runningAllocs(maxMeasured + 3)
	for i, a := range ended {
		a.ClientStatus = structs.ClientComplete
		a.TaskStates["web"] = &structs.TaskState{State: structs.TaskDead, Restarts: 1, Failed: i%2 == 1}
	}
	running := runningAllocs(1)
	running[0].ID = "runs"
	m := taskMetrics{func() []*structs.Allocation { return append(ended, running...) }, measuredNode{}}
	text := gathered(t, m)
	require.Equal(t, maxMeasured+1, strings.Count(text, "\nnomad_client_allocs_complete{"), "the newest, and what runs")
	const of = `alloc-%s",job="job",namespace="default",task="web",task_group="g"} `
	for id, want := range map[string][2]string{"0000": {"1", "0"}, "0001": {"0", "1"}} {
		labels := strings.Replace(of, "%s", id, 1)
		require.Contains(t, text, `nomad_client_allocs_complete{alloc_id="`+labels+want[0]+"\n")
		require.Contains(t, text, `nomad_client_allocs_failed{alloc_id="`+labels+want[1]+"\n")
	}
	require.NotContains(t, text, "alloc-0514", "the oldest of what has ended")
}

func TestTheProcessorsShareWhatIsUsed(t *testing.T) {
	m := hostMetrics{func() *structs.Node { return &structs.Node{ID: "n"} }, func() (*structs.HostUsage, error) {
		return &structs.HostUsage{CPUMHz: 3000, Processors: []structs.ProcessorUsage{{Name: "cpu0", User: 60, Idle: 0}, {Name: "cpu1", Idle: 50}}}, nil
	}}
	text := gathered(t, m)
	for name, want := range map[string]string{"total_percent": "100", "total": "100", "total_ticks": "2000", "user": "60"} {
		require.Regexp(t, `(?m)^nomad_client_host_cpu_`+name+`\{cpu="cpu0",.*\} `+want+`$`, text)
	}
	require.Regexp(t, `(?m)^nomad_client_host_cpu_total_ticks\{cpu="cpu1",.*\} 1000$`, text)
	idle := hostMetrics{m.node, func() (*structs.HostUsage, error) {
		return &structs.HostUsage{Processors: []structs.ProcessorUsage{{Name: "cpu0", Idle: 100}}}, nil
	}}
	require.Regexp(t, `(?m)^nomad_client_host_cpu_total_ticks\{.*\} 0$`, gathered(t, idle))
}

// gathered is what a collector tells, as Prometheus' text.
func gathered(t *testing.T, c prometheus.Collector) string {
	t.Helper()
	r := prometheus.NewPedanticRegistry()
	require.NoError(t, r.Register(c))
	families, err := r.Gather()
	require.NoError(t, err)
	var text strings.Builder
	for _, f := range families {
		_, err := expfmt.MetricFamilyToText(&text, f)
		require.NoError(t, err)
	}
	return text.String()
}
