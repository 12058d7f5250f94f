package agent

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/wasmnode/wasmnode/structs"
)

const (
	// maxMeasured bounds the allocations whose tasks and checks are metrics: of more that
	// run, only the oldest are. Each has a dozen series for a task, and one for a check.
	maxMeasured = 512
	// measureTimeout bounds how long one reading of the metrics waits for drivers; what
	// was not measured by then is left out.
	measureTimeout = 5 * time.Second
	// measuredAtOnce bounds the allocations that drivers are asked about at the same time.
	measuredAtOnce = 16
)

// The metrics of the tasks that run, with the names that Nomad's clients give them where
// those have them. What a driver does not measure is left out. They go with the
// allocation; [outcomes] stay.
var (
	taskCPUPercent  = describeTask("nomad_client_allocs_cpu_total_percent", "Share of one processor that the task uses, in percent.")
	taskCPUTicks    = describeTask("nomad_client_allocs_cpu_total_ticks", "The same in MHz.")
	taskCPUUser     = describeTask("nomad_client_allocs_cpu_user", "The part of it in programs, in percent.")
	taskCPUSystem   = describeTask("nomad_client_allocs_cpu_system", "The part of it in the kernel, in percent.")
	taskCPUSeconds  = describeTask("wasmnode_task_cpu_seconds_total", "Processor time that the task has used since it started.")
	taskCPUGiven    = describeTask("nomad_client_allocs_cpu_allocated", "Processor that the task was given, in MHz.")
	taskMemory      = describeTask("nomad_client_allocs_memory_rss", "Memory that the task uses, in bytes.")
	taskMemoryMost  = describeTask("nomad_client_allocs_memory_max_usage", "The most memory that the task has used, in bytes.")
	taskMemoryGiven = describeTask("nomad_client_allocs_memory_allocated", "Memory that the task was given, in bytes.")
	taskRestarts    = describeTask("wasmnode_task_restarts", "Restarts of the task since its allocation began.")
	checkSucceeds   = describe("wasmnode_check_success", "1 for a check that succeeds, 0 for one that fails or has not run yet.",
		"namespace", "job", "task_group", "alloc_id", "service", "check")
	allocationsMeasured = describe("wasmnode_allocations_measured", "Allocations whose tasks and checks are among the metrics.")
)

func describeTask(name, help string) *prometheus.Desc {
	return describe(name, help, "namespace", "job", "task_group", "alloc_id", "task")
}

// clientMetrics is what the metrics of tasks need of the node.
type clientMetrics interface {
	AllocationUsage(ctx context.Context, allocID, task string) (*structs.AllocationUsage, error)
	AllocationChecks(allocID string) (map[string]structs.CheckResult, error)
}

type taskMetrics struct {
	allocations func() []*structs.Allocation
	node        clientMetrics
}

// Describe implements [prometheus.Collector].
func (m taskMetrics) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		taskCPUPercent, taskCPUTicks, taskCPUUser, taskCPUSystem, taskCPUSeconds, taskCPUGiven,
		taskMemory, taskMemoryMost, taskMemoryGiven, taskRestarts, checkSucceeds, allocationsMeasured,
	} {
		out <- d
	}
}

// Collect implements [prometheus.Collector].
func (m taskMetrics) Collect(out chan<- prometheus.Metric) {
	var running []*structs.Allocation
	for _, a := range m.allocations() {
		if a.ClientStatus == structs.ClientRunning {
			running = append(running, a)
		}
	}
	slices.SortFunc(running, func(a, b *structs.Allocation) int {
		return cmp.Or(cmp.Compare(a.CreateIndex, b.CreateIndex), cmp.Compare(a.ID, b.ID))
	})
	running = running[:min(len(running), maxMeasured)]
	out <- prometheus.MustNewConstMetric(allocationsMeasured, prometheus.GaugeValue, float64(len(running)))
	ctx, cancel := context.WithTimeout(context.Background(), measureTimeout)
	defer cancel()
	atOnce := make(chan struct{}, measuredAtOnce)
	var asked sync.WaitGroup
	for _, a := range running {
		atOnce <- struct{}{}
		asked.Go(func() {
			defer func() { <-atOnce }()
			m.collect(ctx, out, a)
		})
	}
	asked.Wait()
}

// collect gives the metrics of one allocation.
func (m taskMetrics) collect(ctx context.Context, out chan<- prometheus.Metric, a *structs.Allocation) {
	of := []string{plain(a.Namespace), plain(a.JobID), plain(a.TaskGroup), a.ID}
	for name, s := range a.TaskStates {
		labels := append(slices.Clone(of), plain(name))
		send(out, taskRestarts, prometheus.GaugeValue, new(float64(s.Restarts)), labels)
		if given := a.Resources.Tasks[name]; given != nil {
			send(out, taskCPUGiven, prometheus.GaugeValue, new(float64(given.CPUMHz)), labels)
			send(out, taskMemoryGiven, prometheus.GaugeValue, new(float64(given.MemoryMB)*(1<<20)), labels)
		}
	}
	m.collectChecks(out, a.ID, of)
	if ctx.Err() != nil {
		return // drivers have had their time
	}
	usage, err := m.node.AllocationUsage(ctx, a.ID, "")
	if err != nil {
		return
	}
	for name, u := range usage.Tasks {
		collectUsage(out, u, append(slices.Clone(of), plain(name)))
	}
}

func collectUsage(out chan<- prometheus.Metric, u *structs.TaskUsage, labels []string) {
	if c := u.CPU; c != nil {
		send(out, taskCPUPercent, prometheus.GaugeValue, &c.Percent, labels)
		send(out, taskCPUTicks, prometheus.GaugeValue, &c.MHz, labels)
		send(out, taskCPUUser, prometheus.GaugeValue, c.User, labels)
		send(out, taskCPUSystem, prometheus.GaugeValue, c.System, labels)
		send(out, taskCPUSeconds, prometheus.CounterValue, new(c.Total.Seconds()), labels)
	}
	send(out, taskMemory, prometheus.GaugeValue, number(u.MemoryRSS), labels)
	send(out, taskMemoryMost, prometheus.GaugeValue, number(u.MemoryMax), labels)
}

// collectChecks gives one series for each name of a check: where several have one, they
// succeed together.
func (m taskMetrics) collectChecks(out chan<- prometheus.Metric, allocID string, of []string) {
	results, err := m.node.AllocationChecks(allocID)
	if err != nil {
		return
	}
	type name struct{ service, check string }
	succeeds := map[name]bool{}
	for _, r := range results {
		n := name{plain(r.Service), plain(r.Check)}
		before, known := succeeds[n]
		succeeds[n] = (before || !known) && r.Status == structs.CheckSuccess
	}
	for n, ok := range succeeds {
		value := 0.0
		if ok {
			value = 1
		}
		send(out, checkSucceeds, prometheus.GaugeValue, &value, append(slices.Clone(of), n.service, n.check))
	}
}

// send sends a value unless it is nil: it was not measured.
func send(out chan<- prometheus.Metric, d *prometheus.Desc, kind prometheus.ValueType, value *float64, labels []string) {
	if value != nil {
		out <- prometheus.MustNewConstMetric(d, kind, *value, labels...)
	}
}

func number(n *uint64) *float64 {
	if n == nil {
		return nil
	}
	return new(float64(*n))
}

// plain is a text as a label can have it.
func plain(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
