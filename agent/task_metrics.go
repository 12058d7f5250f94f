package agent

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/wasmnode/wasmnode/httpapi/telemetry"
	"github.com/wasmnode/wasmnode/structs"
)

const (
	// maxMeasured bounds the allocations whose tasks and checks are metrics: of more that
	// run, only the oldest are. Each has 20 series for a task, and one for a check. As many that
	// have ended, the newest, have four for a task.
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
	taskCPUPercent  = describeNomadTask("cpu.total_percent", "Share of one processor that the task uses, in percent.")
	taskCPUTicks    = describeNomadTask("cpu.total_ticks", "The same in MHz.")
	taskCPUUser     = describeNomadTask("cpu.user", "The part of it in programs, in percent.")
	taskCPUSystem   = describeNomadTask("cpu.system", "The part of it in the kernel, in percent.")
	taskCPUSeconds  = describeTask("wasmnode_task_cpu_seconds_total", "Processor time that the task has used since it started.")
	taskCPUGiven    = describeNomadTask("cpu.allocated", "Processor that the task was given, in MHz.")
	taskMemory      = describeNomadTask("memory.rss", "Memory that the task uses, in bytes.")
	taskMemoryUsage = describeNomadTask("memory.usage", "The same.")
	taskMemoryMost  = describeNomadTask("memory.max_usage", "The most memory that the task has used, in bytes.")
	taskMemoryGiven = describeNomadTask("memory.allocated", "Memory that the task was given, in bytes.")
	taskMemoryLimit = describeNomadTask("memory.max_allocated", "Memory that the task may use where that is more, in bytes.")
	taskStarted     = describeNomadTask("running", "Starts of the task since its allocation began.")
	taskRestarted   = describeNomadTask("restart", "Restarts of the task since its allocation began.")
	taskCompleted   = describeNomadTask("complete", "1 for a task that has ended well.")
	taskFailed      = describeNomadTask("failed", "1 for a task that has failed.")
	taskRestarts    = describeTask("wasmnode_task_restarts", "Restarts of the task since its allocation began.")
	checkSucceeds   = describe("wasmnode_check_success", "1 for a check that succeeds, 0 for one that fails or has not run yet.",
		"namespace", "job", "task_group", "alloc_id", "service", "check")
	allocationsMeasured = describe("wasmnode_allocations_measured", "Allocations whose tasks and checks are among the metrics.")
)

func describeTask(name, help string) *prometheus.Desc {
	return describe(name, help, "namespace", "job", "task_group", "alloc_id", "task")
}

func describeNomadTask(name, help string) telemetry.JobDesc {
	return telemetry.DescribeJob("nomad.client.allocs."+name, help, "namespace", "job", "task_group", "alloc_id", "task")
}

// measuringNode is what the metrics of tasks need of the node.
type measuringNode interface {
	AllocationUsage(ctx context.Context, allocID, task string) (*structs.AllocationUsage, error)
	AllocationChecks(allocID string) (map[string]structs.CheckResult, error)
}

// taskMetrics are unchecked, see [telemetry.JobDesc].
type taskMetrics struct {
	allocations func() []*structs.Allocation
	node        measuringNode
}

// Describe implements [prometheus.Collector].
func (taskMetrics) Describe(chan<- *prometheus.Desc) {}

// Collect implements [prometheus.Collector].
func (m taskMetrics) Collect(out chan<- prometheus.Metric) {
	var running, ended []*structs.Allocation
	for _, a := range m.allocations() {
		switch {
		case a.ClientStatus == structs.ClientRunning:
			running = append(running, a)
		case a.ClientStatus.Terminal():
			ended = append(ended, a)
		}
	}
	oldest := func(a, b *structs.Allocation) int {
		return cmp.Or(cmp.Compare(a.CreateIndex, b.CreateIndex), cmp.Compare(a.ID, b.ID))
	}
	slices.SortFunc(running, oldest)
	slices.SortFunc(ended, func(a, b *structs.Allocation) int { return oldest(b, a) })
	for _, a := range ended[:min(len(ended), maxMeasured)] {
		for name, s := range a.TaskStates {
			seriesOf(a).task(name, out).count(s)
		}
	}
	m.collectRunning(out, running[:min(len(running), maxMeasured)])
}

func (m taskMetrics) collectRunning(out chan<- prometheus.Metric, running []*structs.Allocation) {
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
	of := seriesOf(a)
	for name, s := range a.TaskStates {
		task := of.task(name, out)
		task.count(s)
		task.gauge(taskRestarts, new(float64(s.Restarts)))
		if given := a.Resources.Tasks[name]; given != nil {
			task.given(given)
		}
	}
	m.collectChecks(out, a.ID, of.labels)
	if ctx.Err() != nil {
		return // drivers have had their time
	}
	usage, err := m.node.AllocationUsage(ctx, a.ID, "")
	if err != nil {
		return
	}
	for name, u := range usage.Tasks {
		of.task(name, out).used(u)
	}
}

// series are what an allocation's metrics have in common.
type series struct {
	job    telemetry.Job
	labels []string // namespace, job, group and allocation
}

func seriesOf(a *structs.Allocation) series {
	id := telemetry.Label(a.JobID)
	return series{telemetry.JobOf(id), []string{telemetry.Label(a.Namespace), id, telemetry.Label(a.TaskGroup), a.ID}}
}

func (s series) task(name string, out chan<- prometheus.Metric) taskSeries {
	return taskSeries{s.job, append(slices.Clone(s.labels), telemetry.Label(name)), out}
}

// taskSeries are the metrics of one task. A value that is nil was not measured, and is left out.
type taskSeries struct {
	job    telemetry.Job
	labels []string
	out    chan<- prometheus.Metric
}

func (t taskSeries) gauge(d *prometheus.Desc, value *float64) {
	send(t.out, d, prometheus.GaugeValue, value, t.labels)
}

func (t taskSeries) nomad(d telemetry.JobDesc, kind prometheus.ValueType, value *float64) {
	if value != nil {
		t.out <- d.Metric(kind, *value, t.job, t.labels...)
	}
}

// count tells what has happened to the task.
func (t taskSeries) count(s *structs.TaskState) {
	starts, completed, failed := float64(s.Restarts), 0.0, 0.0
	if !s.StartedAt.IsZero() {
		starts++
	}
	switch {
	case s.Successful():
		completed = 1
	case s.State == structs.TaskDead:
		failed = 1
	}
	t.nomad(taskStarted, prometheus.CounterValue, &starts)
	t.nomad(taskRestarted, prometheus.CounterValue, new(float64(s.Restarts)))
	t.nomad(taskCompleted, prometheus.CounterValue, &completed)
	t.nomad(taskFailed, prometheus.CounterValue, &failed)
}

// given tells what the task may use.
func (t taskSeries) given(r *structs.TaskResources) {
	t.nomad(taskCPUGiven, prometheus.GaugeValue, new(float64(r.CPUMHz)))
	t.nomad(taskMemoryGiven, prometheus.GaugeValue, new(float64(r.MemoryMB)*(1<<20)))
	if r.MemoryMaxMB > 0 {
		t.nomad(taskMemoryLimit, prometheus.GaugeValue, new(float64(r.MemoryMaxMB)*(1<<20)))
	}
}

// used tells what the task uses.
func (t taskSeries) used(u *structs.TaskUsage) {
	if c := u.CPU; c != nil {
		t.nomad(taskCPUPercent, prometheus.GaugeValue, &c.Percent)
		t.nomad(taskCPUTicks, prometheus.GaugeValue, &c.MHz)
		t.nomad(taskCPUUser, prometheus.GaugeValue, c.User)
		t.nomad(taskCPUSystem, prometheus.GaugeValue, c.System)
		send(t.out, taskCPUSeconds, prometheus.CounterValue, new(c.Total.Seconds()), t.labels)
	}
	t.nomad(taskMemory, prometheus.GaugeValue, number(u.MemoryRSS))
	t.nomad(taskMemoryUsage, prometheus.GaugeValue, number(u.MemoryRSS))
	t.nomad(taskMemoryMost, prometheus.GaugeValue, number(u.MemoryMax))
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
		n := name{telemetry.Label(r.Service), telemetry.Label(r.Check)}
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
