package agent

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/node"
	"github.com/wasmnode/wasmnode/structs"
)

// measuredNode measures the same of every allocation.
type measuredNode struct {
	usage  *structs.AllocationUsage
	checks map[string]structs.CheckResult
}

func (m measuredNode) AllocationUsage(context.Context, string, string) (*structs.AllocationUsage, error) {
	if m.usage == nil {
		return nil, errors.New("not measured")
	}
	return m.usage, nil
}

func (m measuredNode) AllocationChecks(string) (map[string]structs.CheckResult, error) {
	return m.checks, nil
}

func runningAllocs(n int) (list []*structs.Allocation) {
	for i := range n {
		list = append(list, &structs.Allocation{
			ID: fmt.Sprintf("alloc-%04d", i), JobID: "job", Namespace: "default", TaskGroup: "g", ClientStatus: structs.ClientRunning,
			CreateIndex: uint64(n - i), TaskStates: map[string]*structs.TaskState{"web": {State: structs.TaskRunning, Restarts: 2}},
			Resources: structs.AllocatedResources{Tasks: map[string]*structs.TaskResources{"web": {CPUMHz: 100, MemoryMB: 64}}},
		})
	}
	return list
}

func TestMetricsOfTasksAreWhatWasMeasured(t *testing.T) {
	user, rss := 30.0, uint64(5<<20)
	list := runningAllocs(1)
	list[0].JobID = "j\xff" // what no label may be
	m := taskMetrics{
		func() []*structs.Allocation {
			return append(list, &structs.Allocation{ID: "ended", ClientStatus: structs.ClientComplete})
		},
		measuredNode{
			&structs.AllocationUsage{Tasks: map[string]*structs.TaskUsage{"web": {
				CPU: &structs.CPUUsage{Total: 90 * time.Second, Percent: 40, MHz: 800, User: &user}, MemoryRSS: &rss,
			}}},
			map[string]structs.CheckResult{
				"1": {Service: "s", Check: "good", Status: structs.CheckSuccess}, "2": {Service: "s", Check: "good", Status: structs.CheckFailure},
				"3": {Service: "s", Check: "other", Status: structs.CheckSuccess},
			},
		},
	}
	const labels = `{alloc_id="alloc-0000",job="j�",namespace="default",task="web",task_group="g"}`
	require.NoError(t, testutil.CollectAndCompare(m, strings.NewReader(strings.ReplaceAll(`
# HELP nomad_client_allocs_cpu_total_percent Share of one processor that the task uses, in percent.
# TYPE nomad_client_allocs_cpu_total_percent gauge
nomad_client_allocs_cpu_total_percent LABELS 40
# HELP nomad_client_allocs_cpu_user The part of it in programs, in percent.
# TYPE nomad_client_allocs_cpu_user gauge
nomad_client_allocs_cpu_user LABELS 30
# HELP nomad_client_allocs_memory_rss Memory that the task uses, in bytes.
# TYPE nomad_client_allocs_memory_rss gauge
nomad_client_allocs_memory_rss LABELS 5.24288e+06
# HELP wasmnode_check_success 1 for a check that succeeds, 0 for one that fails or has not run yet.
# TYPE wasmnode_check_success gauge
wasmnode_check_success{alloc_id="alloc-0000",check="good",job="j�",namespace="default",service="s",task_group="g"} 0
wasmnode_check_success{alloc_id="alloc-0000",check="other",job="j�",namespace="default",service="s",task_group="g"} 1
# HELP wasmnode_task_cpu_seconds_total Processor time that the task has used since it started.
# TYPE wasmnode_task_cpu_seconds_total counter
wasmnode_task_cpu_seconds_total LABELS 90
# HELP wasmnode_task_restarts Restarts of the task since its allocation began.
# TYPE wasmnode_task_restarts gauge
wasmnode_task_restarts LABELS 2
`, " LABELS", labels)), "nomad_client_allocs_cpu_total_percent", "nomad_client_allocs_cpu_user", "nomad_client_allocs_cpu_system",
		"nomad_client_allocs_memory_rss", "nomad_client_allocs_memory_max_usage", "wasmnode_check_success", "wasmnode_task_cpu_seconds_total", "wasmnode_task_restarts"))
}

func TestMetricsOfTasksAreBounded(t *testing.T) {
	m := taskMetrics{func() []*structs.Allocation { return runningAllocs(maxMeasured + 100) }, measuredNode{}}
	require.Equal(t, maxMeasured, testutil.CollectAndCount(m, "wasmnode_task_restarts"))
	require.Equal(t, maxMeasured, testutil.CollectAndCount(m, "nomad_client_allocs_cpu_allocated"))
	require.Zero(t, testutil.CollectAndCount(m, "nomad_client_allocs_cpu_total_percent"), "what was not measured is left out")
	r := prometheus.NewPedanticRegistry()
	require.NoError(t, r.Register(m))
	families, err := r.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() == "wasmnode_allocations_measured" {
			require.Equal(t, float64(maxMeasured), f.Metric[0].Gauge.GetValue())
		}
	}
}

// plane is a control plane that fails at first.
type plane struct {
	node.ControlPlane
	failures int
}

func (p *plane) UpdateAllocations(context.Context, string, []*structs.AllocationState) error {
	if p.failures > 0 {
		p.failures--
		return errors.New("not now")
	}
	return nil
}

func TestWhatBecomesOfTasksIsCountedOnce(t *testing.T) {
	stored := map[string]*structs.Allocation{}
	o := newOutcomes()
	c := counted{&plane{failures: 1}, func(id string) *structs.Allocation { return stored[id] }, o, newEventLog(hclog.NewNullLogger(), "off")}
	event := func(kind string, at int64) *structs.TaskEvent {
		e := structs.NewTaskEvent(kind)
		e.Time = at
		return e
	}
	oom := event(structs.EventTerminated, 5).WithExit(&structs.ExitResult{ExitCode: 137, Signal: 9, OOMKilled: true})
	oom.Time = 5
	good := event(structs.EventTerminated, 9).WithExit(&structs.ExitResult{})
	good.Time = 9
	state := &structs.AllocationState{ID: "a", ClientStatus: structs.ClientRunning, TaskStates: map[string]*structs.TaskState{
		"t": {Restarts: 1, Events: []*structs.TaskEvent{event(structs.EventStarted, 4), oom, event(structs.EventRestarting, 6)}},
	}}
	report := func(s *structs.AllocationState) error {
		err := c.UpdateAllocations(t.Context(), "n", []*structs.AllocationState{s})
		if err == nil {
			stored[s.ID] = &structs.Allocation{ID: s.ID, ClientStatus: s.ClientStatus, TaskStates: s.TaskStates}
		}
		return err
	}
	require.Error(t, report(state), "what was not taken is reported again")
	require.NoError(t, report(state))
	require.NoError(t, report(state), "and perhaps once more")
	end := &structs.AllocationState{ID: "a", ClientStatus: structs.ClientComplete, TaskStates: map[string]*structs.TaskState{
		"t": {Restarts: 1, Events: append(state.TaskStates["t"].Events, good)},
	}}
	require.NoError(t, report(end))
	require.NoError(t, report(end))
	require.Equal(t, 1.0, testutil.ToFloat64(o.restarts))
	require.Equal(t, 1.0, testutil.ToFloat64(o.oomKills))
	require.Equal(t, 1.0, testutil.ToFloat64(o.exits.WithLabelValues(exitOOM)))
	require.Equal(t, 1.0, testutil.ToFloat64(o.exits.WithLabelValues(exitSuccess)))
	require.Equal(t, 1.0, testutil.ToFloat64(o.ended.WithLabelValues("complete")))
	require.Equal(t, 2.0, testutil.ToFloat64(o.events.WithLabelValues(structs.EventTerminated)))
}
