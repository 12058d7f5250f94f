package agent

import (
	"cmp"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/wasmnode/wasmnode/httpapi/telemetry"
	"github.com/wasmnode/wasmnode/structs"
)

// nodeLabels are those of Nomad's metrics of a client.
var nodeLabels = []string{"node_id", "datacenter", "node_class", "node_pool", "node_status", "node_scheduling_eligibility"}

// labelsOf are a node's values of nodeLabels.
func labelsOf(n *structs.Node) []string {
	return []string{n.ID, telemetry.Label(n.Datacenter), telemetry.Label(cmp.Or(n.Class, "none")), telemetry.Label(n.Pool), string(n.Status), n.Eligibility}
}

// The metrics of the node and of all that it runs, with the names and the labels that Nomad's
// clients give them: one series each.
var (
	allocatedCPU       = describeClient("allocated.cpu", "Processor that allocations were given, in MHz.")
	allocatedMemory    = describeClient("allocated.memory", "Memory that they were given, in MiB.")
	allocatedMaxMemory = describeClient("allocated.max_memory", "Memory that they may use, in MiB.")
	allocatedDisk      = describeClient("allocated.disk", "Disk that they were given, in MiB.")
	unallocatedCPU     = describeClient("unallocated.cpu", "Processor that there is to be given, in MHz.")
	unallocatedMemory  = describeClient("unallocated.memory", "Memory that there is to be given, in MiB.")
	unallocatedDisk    = describeClient("unallocated.disk", "Disk that there is to be given, in MiB.")
	allocsBlocked      = describeClient("allocations.blocked", "Allocations that wait for others to end.")
	allocsMigrating    = describeClient("allocations.migrating", "Allocations whose data is on its way here: none, since there is one node.")
	allocsPending      = describeClient("allocations.pending", "Allocations that are about to start.")
	allocsRunning      = describeClient("allocations.running", "Allocations that run.")
	allocsTerminal     = describeClient("allocations.terminal", "Allocations that have ended.")
	tasksPending       = describeClient("tasks.pending", "Tasks that are about to start.")
	tasksRunning       = describeClient("tasks.running", "Tasks that run.")
	tasksDead          = describeClient("tasks.dead", "Tasks that have ended.")
	allocsKilled       = describeClient("allocs.oom_killed", "Tasks that were killed for want of memory. Since the agent started.")
)

func describeClient(name, help string) *prometheus.Desc {
	return telemetry.Describe("nomad.client."+name, help, nodeLabels...)
}

type clientMetrics struct {
	node        func() *structs.Node // nil: it is not known yet
	allocations func() []*structs.Allocation
	outcomes    *outcomes
}

// Describe implements [prometheus.Collector].
func (clientMetrics) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		allocatedCPU, allocatedMemory, allocatedMaxMemory, allocatedDisk, unallocatedCPU, unallocatedMemory, unallocatedDisk,
		allocsBlocked, allocsMigrating, allocsPending, allocsRunning, allocsTerminal, tasksPending, tasksRunning, tasksDead, allocsKilled,
	} {
		out <- d
	}
}

// Collect implements [prometheus.Collector].
func (m clientMetrics) Collect(out chan<- prometheus.Metric) {
	n := m.node()
	if n == nil {
		return
	}
	here := map[string]*structs.Allocation{}
	for _, a := range m.allocations() {
		if a.NodeID == n.ID {
			here[a.ID] = a
		}
	}
	labels := labelsOf(n)
	for _, values := range []map[*prometheus.Desc]float64{countAllocations(here), countTasks(here), countGiven(n, here)} {
		for d, value := range values {
			out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
		}
	}
	out <- prometheus.MustNewConstMetric(allocsKilled, prometheus.CounterValue, m.outcomes.killed(), labels...)
}

func countAllocations(here map[string]*structs.Allocation) map[*prometheus.Desc]float64 {
	counts := map[*prometheus.Desc]float64{allocsBlocked: 0, allocsMigrating: 0, allocsPending: 0, allocsRunning: 0, allocsTerminal: 0}
	for _, a := range here {
		switch {
		case a.ClientStatus.Terminal():
			counts[allocsTerminal]++
		case a.ClientStatus == structs.ClientRunning:
			counts[allocsRunning]++
		case waits(a, here):
			counts[allocsBlocked]++
		default:
			counts[allocsPending]++
		}
	}
	return counts
}

// waits reports whether an allocation that it starts after has not ended.
func waits(a *structs.Allocation, here map[string]*structs.Allocation) bool {
	for id := range a.WaitsFor {
		if before := here[id]; before != nil && !before.ClientStatus.Terminal() {
			return true
		}
	}
	return false
}

func countTasks(here map[string]*structs.Allocation) map[*prometheus.Desc]float64 {
	counts := map[*prometheus.Desc]float64{tasksPending: 0, tasksRunning: 0, tasksDead: 0}
	for _, a := range here {
		for _, s := range a.TaskStates {
			switch s.State {
			case structs.TaskRunning:
				counts[tasksRunning]++
			case structs.TaskDead:
				counts[tasksDead]++
			default:
				counts[tasksPending]++
			}
		}
	}
	return counts
}

// countGiven counts what allocations that have not ended were given of the node, and what is left.
func countGiven(n *structs.Node, here map[string]*structs.Allocation) map[*prometheus.Desc]float64 {
	cpu, memory, most, disk := 0, 0, 0, 0
	for _, a := range here {
		if a.Terminal() {
			continue
		}
		disk += a.Resources.DiskMB
		for _, t := range a.Resources.Tasks {
			cpu, memory = cpu+t.CPUMHz, memory+t.MemoryMB
			if t.MemoryMaxMB == structs.MemoryUnlimited {
				most += n.Resources.MemoryMB
			} else {
				most += max(t.MemoryMB, t.MemoryMaxMB)
			}
		}
	}
	return map[*prometheus.Desc]float64{
		allocatedCPU: float64(cpu), unallocatedCPU: float64(n.Resources.CPUMHz - n.Reserved.CPUMHz - cpu),
		allocatedMemory: float64(memory), unallocatedMemory: float64(n.Resources.MemoryMB - n.Reserved.MemoryMB - memory),
		allocatedDisk: float64(disk), unallocatedDisk: float64(n.Resources.DiskMB - n.Reserved.DiskMB - disk),
		allocatedMaxMemory: float64(most),
	}
}
