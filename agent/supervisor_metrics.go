package agent

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/procfs"

	"github.com/wasmnode/wasmnode/workload/supervisor"
)

var supervisorMemory = describe("wasmnode_supervisor_resident_memory_bytes", "Memory of the supervisor's process, which has the tasks, without that of processes.")

// supervisorMetrics is of the process that the workloads belong to. While there is none, or it is
// this one, it has nothing to tell.
type supervisorMetrics struct {
	pid  func() int // 0: there is none
	data string     // the agent's data directory, which the supervisor's arguments name
}

// supervisorMetrics returns those of the supervisor that this agent uses.
func (a *agent) supervisorMetrics() supervisorMetrics {
	if client, is := a.workloads.(*supervisor.Client); is {
		return supervisorMetrics{client.PID, a.cfg.DataDir}
	}
	return supervisorMetrics{func() int { return 0 }, ""}
}

// Describe implements [prometheus.Collector].
func (supervisorMetrics) Describe(out chan<- *prometheus.Desc) { out <- supervisorMemory }

// Collect implements [prometheus.Collector]. A supervisor that ended may have left its number to
// another process, which has other arguments.
func (m supervisorMetrics) Collect(out chan<- prometheus.Metric) {
	pid := m.pid()
	if pid == 0 {
		return
	}
	p, err := procfs.NewProc(pid)
	if err != nil {
		return
	}
	arguments, err := p.CmdLine()
	if err != nil || !slices.Contains(arguments, "-data-dir="+m.data) {
		return
	}
	stat, err := p.Stat()
	if err != nil {
		return
	}
	out <- prometheus.MustNewConstMetric(supervisorMemory, prometheus.GaugeValue, float64(stat.ResidentMemory()))
}
