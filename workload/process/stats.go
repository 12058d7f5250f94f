package process

import (
	"context"
	"os"
	"time"

	"github.com/prometheus/procfs"

	"github.com/wasmnode/wasmnode/workload"
)

// Stats implements [workload.Runtime].
func (r *Runtime) Stats(_ context.Context, id string) (*workload.Stats, error) {
	p, err := r.Find(id)
	if err != nil {
		return nil, err
	}
	return p.stats(), nil
}

// stats returns what the process and those that it started use.
func (p *process) stats() *workload.Stats {
	p.mu.Lock()
	tree := p.tree
	p.mu.Unlock()
	s := &workload.Stats{Time: time.Now()}
	if tree != nil {
		s.MemoryBytes, s.MemoryMaxBytes = p.measureMemory(tree)
		if cpu, err := tree.cpu(); err == nil {
			p.used(cpu).into(s)
		}
		return s
	}
	var none uint64 // it is starting, ending or has ended
	s.MemoryBytes = &none
	p.used(cpuTime{}).into(s)
	p.mu.Lock()
	s.MemoryMaxBytes = p.memoryMost
	p.mu.Unlock()
	return s
}

// measureMemory returns the memory in use, and the most that ever was; nil: it cannot
// be measured.
func (p *process) measureMemory(t tree) (now, most *uint64) {
	used, most, err := t.memory()
	if err != nil {
		return nil, nil
	}
	p.mu.Lock()
	p.memoryMost = most
	p.mu.Unlock()
	return &used, most
}

// used takes note of a measurement and returns the most that was measured.
func (p *process) used(cpu cpuTime) cpuTime {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cpu = cpu.atLeast(p.cpu)
	return p.cpu
}

func (c cpuTime) into(s *workload.Stats) {
	s.CPUTotal, s.CPUUser, s.CPUSystem = &c.total, &c.user, &c.system
}

// residents returns the memory of processes. What they share counts for each.
func residents(pids []int) (sum uint64) {
	for _, pid := range pids {
		sum += residentBytes(pid)
	}
	return sum
}

// residentBytes is 0 for a process that has gone.
func residentBytes(pid int) uint64 {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return 0
	}
	stat, err := p.Stat()
	if err != nil {
		return 0
	}
	return uint64(max(0, stat.RSS)) * uint64(os.Getpagesize())
}
