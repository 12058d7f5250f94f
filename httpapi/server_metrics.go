package httpapi

import (
	"cmp"
	"slices"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/wasmnode/wasmnode/httpapi/telemetry"
	"github.com/wasmnode/wasmnode/structs"
)

// maxSummaries bounds the task groups of jobs that are metrics, and the jobs that wait for room:
// of more, only those of the oldest jobs are.
const maxSummaries = 1024

// The metrics of Nomad's servers that mean something with one server, with the labels that they
// have there. What has no label is one series; the others are bounded by maxSummaries.
var (
	jobsByStatus = map[string]*prometheus.Desc{
		"pending": telemetry.Describe("nomad.nomad.job_status.pending", "Jobs that are pending."),
		"running": telemetry.Describe("nomad.nomad.job_status.running", "Jobs that are running."),
		"dead":    telemetry.Describe("nomad.nomad.job_status.dead", "Jobs that are dead."),
	}
	evalsBlocked       = telemetry.Describe("nomad.nomad.blocked_evals.total_blocked", "Evaluations that wait for room.")
	evalsEscaped       = telemetry.Describe("nomad.nomad.blocked_evals.total_escaped", "Of them those that any node may serve: none, since there is one node.")
	evalsQuota         = telemetry.Describe("nomad.nomad.blocked_evals.total_quota_limit", "Of them those that wait for a quota: none, since there are none.")
	evalsBlockedCPU    = telemetry.Describe("nomad.nomad.blocked_evals.cpu", "What they wait for, in MHz.", blockedLabels...)
	evalsBlockedMemory = telemetry.Describe("nomad.nomad.blocked_evals.memory", "What they wait for, in MiB.", blockedLabels...)
	jobBlockedCPU      = telemetry.Describe("nomad.nomad.blocked_evals.job.cpu", "What a job waits for, in MHz.", "namespace", "job")
	jobBlockedMemory   = telemetry.Describe("nomad.nomad.blocked_evals.job.memory", "What a job waits for, in MiB.", "namespace", "job")
	evalsReady         = telemetry.Describe("nomad.nomad.broker.total_ready", "Evaluations that are to be worked on: those that came while the broker is paused.")
	evalsUnacked       = telemetry.Describe("nomad.nomad.broker.total_unacked", "Evaluations that are worked on: none, since each is worked on as it is made.")
	evalsPending       = telemetry.Describe("nomad.nomad.broker.total_pending", "Evaluations that wait for another of their job: none, likewise.")
	evalsWaiting       = telemetry.Describe("nomad.nomad.broker.total_waiting", "Evaluations that are due later.")
	plansQueued        = telemetry.Describe("nomad.nomad.plan.queue_depth", "Plans that wait: none, since each is done as it is made.")
	heartbeats         = telemetry.Describe("nomad.nomad.heartbeat.active", "Nodes that are ready.")
	autopilotHealthy   = telemetry.Describe("nomad.nomad.autopilot.healthy", "1 while the server is healthy.")
	autopilotTolerance = telemetry.Describe("nomad.nomad.autopilot.failure_tolerance", "Servers that may fail: none, since there is one.")
	appliedIndex       = telemetry.Describe("nomad.raft.appliedIndex", "The index of the last change.")
	lastIndex          = telemetry.Describe("nomad.raft.lastIndex", "The same.")
	snapshotIndex      = telemetry.Describe("nomad.state.snapshotIndex", "The same.")
	changesApplied     = telemetry.Describe("nomad.raft.apply", "Changes, each of which has an index.")

	readyByType   = describeByType("ready", "Evaluations of such jobs that are to be worked on.")
	unackedByType = describeByType("unacked", "Evaluations of such jobs that are worked on.")
	blockedLabels = []string{"datacenter", "node_class", "node_pool"}
)

// describeByType describes a metric of the broker's for each type of jobs.
func describeByType(what, help string) map[string]*prometheus.Desc {
	of := map[string]*prometheus.Desc{}
	for _, kind := range []string{nomad.JobTypeService, nomad.JobTypeBatch, nomad.JobTypeSystem, nomad.JobTypeSysbatch} {
		of[kind] = telemetry.Describe("nomad.nomad.broker."+kind+"_"+what, help)
	}
	return of
}

// summaryStatuses are the metrics of a job's task group, with their numbers.
var summaryStatuses = []struct {
	desc  telemetry.JobDesc
	count func(structs.GroupSummary) int
}{
	{describeSummary("queued"), func(g structs.GroupSummary) int { return g.Queued }},
	{describeSummary("starting"), func(g structs.GroupSummary) int { return g.Starting }},
	{describeSummary("running"), func(g structs.GroupSummary) int { return g.Running }},
	{describeSummary("complete"), func(g structs.GroupSummary) int { return g.Complete }},
	{describeSummary("failed"), func(g structs.GroupSummary) int { return g.Failed }},
	{describeSummary("lost"), func(g structs.GroupSummary) int { return g.Lost }},
	{describeSummary("unknown"), func(structs.GroupSummary) int { return 0 }},
}

func describeSummary(status string) telemetry.JobDesc {
	return telemetry.DescribeJob("nomad.nomad.job_summary."+status, "Allocations of a task group that are "+status+".", "namespace", "job", "task_group")
}

// serverMetrics are what Nomad's servers measure of jobs and evaluations. It is unchecked, since
// children of jobs have labels that others do not.
type serverMetrics struct{ h *handler }

// Describe implements [prometheus.Collector].
func (serverMetrics) Describe(chan<- *prometheus.Desc) {}

// Collect implements [prometheus.Collector].
func (m serverMetrics) Collect(out chan<- prometheus.Metric) {
	jobs := slices.Clone(m.h.ControlPlane.Jobs())
	slices.SortFunc(jobs, func(a, b *nomad.Job) int {
		return cmp.Or(cmp.Compare(*a.CreateIndex, *b.CreateIndex), cmp.Compare(*a.Namespace, *b.Namespace), cmp.Compare(*a.ID, *b.ID))
	})
	m.collectJobs(out, jobs)
	m.collectEvaluations(out)
	ready := 0
	for _, n := range m.h.ControlPlane.Nodes() {
		if n.Status == structs.NodeReady {
			ready++
		}
	}
	gauge(out, heartbeats, float64(ready))
	healthy := 1.0
	if !m.h.healthy() {
		healthy = 0
	}
	gauge(out, autopilotHealthy, healthy)
	gauge(out, autopilotTolerance, 0)
	index := float64(m.h.lastIndex())
	for _, d := range []*prometheus.Desc{appliedIndex, lastIndex, snapshotIndex} {
		gauge(out, d, index)
	}
	out <- prometheus.MustNewConstMetric(changesApplied, prometheus.CounterValue, index)
}

func gauge(out chan<- prometheus.Metric, d *prometheus.Desc, value float64, labels ...string) {
	out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
}

func (m serverMetrics) collectJobs(out chan<- prometheus.Metric, jobs []*nomad.Job) {
	counts, groups := map[string]int{}, 0
	for _, j := range jobs {
		counts[*j.Status]++
		if j.Dispatched && m.h.Telemetry.HideDispatched {
			continue
		}
		if groups += len(j.TaskGroups); groups <= maxSummaries {
			collectSummary(out, m.h.ControlPlane.JobSummary(*j.Namespace, *j.ID))
		}
	}
	for status, d := range jobsByStatus {
		gauge(out, d, float64(counts[status]))
	}
}

func collectSummary(out chan<- prometheus.Metric, s *structs.JobSummary) {
	id := telemetry.Label(s.JobID)
	for name, g := range s.Groups {
		for _, status := range summaryStatuses {
			out <- status.desc.Metric(prometheus.GaugeValue, float64(status.count(g)), telemetry.JobOf(id), telemetry.Label(s.Namespace), id, telemetry.Label(name))
		}
	}
}

func (m serverMetrics) collectEvaluations(out chan<- prometheus.Metric) {
	blocked, waiting, ready := []*structs.Evaluation{}, 0, map[string]int{}
	for _, e := range m.h.ControlPlane.Evaluations() {
		switch {
		case e.Status == structs.EvaluationBlocked:
			blocked = append(blocked, e)
		case e.Status == structs.EvaluationPending && e.WaitUntil.After(time.Now()):
			waiting++
		case e.Status == structs.EvaluationPending:
			ready[e.Type]++
		}
	}
	total := 0
	for kind, d := range readyByType {
		total += ready[kind]
		gauge(out, d, float64(ready[kind]))
		gauge(out, unackedByType[kind], 0)
	}
	gauge(out, evalsReady, float64(total))
	gauge(out, evalsWaiting, float64(waiting))
	gauge(out, evalsBlocked, float64(len(blocked)))
	for _, none := range []*prometheus.Desc{evalsEscaped, evalsQuota, evalsUnacked, evalsPending, plansQueued} {
		gauge(out, none, 0)
	}
	m.collectBlocked(out, blocked)
}

// collectBlocked tells what evaluations wait for: of each job, and together.
func (m serverMetrics) collectBlocked(out chan<- prometheus.Metric, blocked []*structs.Evaluation) {
	type jobID struct{ namespace, id string }
	type resources struct{ cpu, memory float64 }
	var all resources
	jobs := map[jobID]resources{}
	slices.SortFunc(blocked, func(a, b *structs.Evaluation) int { return cmp.Compare(a.CreateIndex, b.CreateIndex) })
	for _, e := range blocked {
		job := m.h.ControlPlane.Job(e.Namespace, e.JobID)
		if job == nil {
			continue
		}
		key := jobID{telemetry.Label(e.Namespace), telemetry.Label(e.JobID)}
		of := jobs[key]
		for _, g := range job.TaskGroups {
			for _, t := range g.Tasks {
				queued, asked := float64(e.QueuedAllocations[*g.Name]), t.Resources
				cpu, memory := queued*float64(structs.Deref(asked.CPU)), queued*float64(structs.Deref(asked.MemoryMB))
				of.cpu, of.memory, all.cpu, all.memory = of.cpu+cpu, of.memory+memory, all.cpu+cpu, all.memory+memory
			}
		}
		if _, known := jobs[key]; known || len(jobs) < maxSummaries {
			jobs[key] = of
		}
	}
	for key, of := range jobs {
		gauge(out, jobBlockedCPU, of.cpu, key.namespace, key.id)
		gauge(out, jobBlockedMemory, of.memory, key.namespace, key.id)
	}
	if n := m.h.ControlPlane.Node(m.h.Agent.NodeID); n != nil {
		labels := []string{telemetry.Label(n.Datacenter), telemetry.Label(n.Class), telemetry.Label(n.Pool)}
		gauge(out, evalsBlockedCPU, all.cpu, labels...)
		gauge(out, evalsBlockedMemory, all.memory, labels...)
	}
}
