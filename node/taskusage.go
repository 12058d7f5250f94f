package node

import (
	"time"

	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/runners/task"
	"github.com/wasmnode/wasmnode/structs"
)

// taskUsage is what a measurement says of a task that started at that time.
func (n *Node) taskUsage(m task.Usage, started time.Time) *structs.TaskUsage {
	self := n.self.get().Resources
	return &structs.TaskUsage{
		CPU:       cpuUsage(m, started, float64(self.CPUMHz)/float64(max(1, self.Cores))),
		MemoryRSS: m.Now.MemoryRssBytes, MemoryMax: m.Now.MemoryMaxBytes, TimeNs: m.Now.TimeNs,
	}
}

// cpuUsage is a task's use of processors of that frequency; nil: its driver does not
// measure it.
func cpuUsage(m task.Usage, started time.Time, mhz float64) *structs.CPUUsage {
	before := m.Before
	if before == nil {
		none := new(uint64)
		before = &wasmnodev1.TaskStats{TimeNs: started.UnixNano(), CpuTotalNs: none, CpuUserNs: none, CpuSystemNs: none}
	}
	elapsed := float64(m.Now.TimeNs - before.TimeNs)
	if m.Before == nil {
		elapsed = max(elapsed, float64(time.Second)) // it may have used some before it was reported to run
	}
	percent := func(now, then *uint64) *float64 {
		if now == nil || then == nil || elapsed <= 0 {
			return nil
		}
		return new(100 * float64(*now-min(*then, *now)) / elapsed)
	}
	all := percent(m.Now.CpuTotalNs, before.CpuTotalNs)
	if all == nil {
		return nil
	}
	return &structs.CPUUsage{
		Total:   time.Duration(*m.Now.CpuTotalNs),
		Percent: *all, MHz: *all / 100 * mhz,
		User:   percent(m.Now.CpuUserNs, before.CpuUserNs),
		System: percent(m.Now.CpuSystemNs, before.CpuSystemNs),
	}
}
