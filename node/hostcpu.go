package node

import (
	"sync"
	"time"

	"github.com/wasmnode/wasmnode/internal/hostinfo"

	"github.com/wasmnode/wasmnode/structs"
)

// cpuWindow is the shortest time that the processors' use is measured over: the kernel
// counts in hundredths of a second.
const cpuWindow = time.Second

// hostCPU measures how much of the machine's processors is used. Its zero value is
// ready, and its first answer is the use since the machine started.
type hostCPU struct {
	mu     sync.Mutex
	taken  time.Time
	times  []hostinfo.Times // at that time
	shares []structs.ProcessorUsage
}

// measure returns each processor's use since it was last measured, a [cpuWindow] ago or
// longer. The caller must not write to it. Nil: the machine does not report it.
func (h *hostCPU) measure(now time.Time, read func() ([]hostinfo.Times, error)) []structs.ProcessorUsage {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.shares != nil && now.Sub(h.taken) < cpuWindow {
		return h.shares
	}
	times, err := read()
	if err != nil {
		return h.shares
	}
	h.shares = cpuShares(h.times, times)
	h.taken, h.times = now, times
	return h.shares
}

// cpuShares is what part of the time between two readings, in percent, each processor
// spent on what. One that there was not at the first is counted from its start.
func cpuShares(before, after []hostinfo.Times) (shares []structs.ProcessorUsage) {
	started := map[string]hostinfo.Times{}
	for _, t := range before {
		started[t.CPU] = t
	}
	for _, t := range after {
		b := started[t.CPU]
		user, system, idle := t.User+t.Nice-b.User-b.Nice, t.System-b.System, t.Idle+t.Iowait-b.Idle-b.Iowait
		total := user + system + idle + t.Irq + t.Softirq + t.Steal - b.Irq - b.Softirq - b.Steal
		if total > 0 {
			shares = append(shares, structs.ProcessorUsage{Name: t.CPU, User: 100 * user / total, System: 100 * system / total, Idle: 100 * idle / total})
		}
	}
	return shares
}

// cpuMHz is the processors' use in MHz.
func cpuMHz(shares []structs.ProcessorUsage, mhz int) (used float64) {
	for _, s := range shares {
		used += (100 - s.Idle) / 100 * float64(mhz) / float64(len(shares))
	}
	return used
}
