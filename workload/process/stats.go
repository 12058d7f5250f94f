package process

import (
	"context"
	"os"
	"time"

	"github.com/prometheus/procfs"

	"github.com/wasmnode/wasmnode/workload"
)

// Stats implements [workload.Supervisor].
func (s *Supervisor) Stats(_ context.Context, id string) (*workload.Stats, error) {
	p, err := s.Find(id)
	if err != nil {
		return nil, err
	}
	return p.stats(), nil
}

// stats returns what the process and those that it started use. Memory that they
// share counts for each.
func (p *process) stats() *workload.Stats {
	var memory uint64
	s := &workload.Stats{Time: time.Now(), MemoryBytes: &memory}
	p.mu.Lock()
	tree := p.tree
	p.mu.Unlock()
	if tree == nil {
		select {
		case <-p.done:
			cpu := p.cpu
			s.CPUTotal = &cpu
		default: // it is starting or ending
		}
		return s
	}
	if cpu, err := tree.cpu(); err == nil {
		s.CPUTotal = &cpu
	}
	pids, err := tree.processes()
	if err != nil {
		s.MemoryBytes = nil
	}
	for _, pid := range pids {
		memory += residentBytes(pid)
	}
	return s
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
