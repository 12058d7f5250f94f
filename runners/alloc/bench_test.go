package alloc_test

import (
	"fmt"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/runners/alloc"
	"github.com/wasmnode/wasmnode/runners/watcher"
	"github.com/wasmnode/wasmnode/structs"
)

// BenchmarkAllocations runs allocations of one task each, all at once, to running, stops
// them, and destroys them: on the scripted driver and a store in memory, which is the
// runners alone, and on the mock driver plugin and a store on disk. The last line of each
// is the cost of one among 10,000 over that of one among 1,000.
func BenchmarkAllocations(b *testing.B) {
	for _, on := range []string{"script", "plugin"} {
		b.Run(on, func(b *testing.B) {
			costs := map[int]cost{}
			for _, n := range []int{1000, 10000} {
				b.Run(fmt.Sprint(n), func(b *testing.B) {
					for b.Loop() {
						costs[n] = newCrowd(b, n).live()
					}
					costs[n].report(b, "")
				})
			}
			b.Run("ratio", func(b *testing.B) {
				if costs[1000].running == 0 || costs[10000].running == 0 {
					b.Skip("both sizes are needed")
				}
				for b.Loop() {
				}
				costs[10000].over(costs[1000]).report(b, "×")
			})
		})
	}
}

// BenchmarkPreemption has 500 allocations evicted for 100 that wait for five each, and
// reports how long it takes until these run.
func BenchmarkPreemption(b *testing.B) {
	for _, on := range []string{"script", "plugin"} {
		b.Run(on, func(b *testing.B) {
			for b.Loop() {
				b.ReportMetric(preempt(b, 500, 5).Seconds()*1000, "ms-to-replaced")
			}
		})
	}
}

// cost is what one allocation takes.
type cost struct {
	running, stopped, destroyed float64 // µs, of all at once, divided
	cpu                         float64 // µs, of the whole life
	memory, goroutines          float64 // while it runs
}

func (c cost) over(base cost) cost {
	return cost{
		c.running / base.running, c.stopped / base.stopped, c.destroyed / base.destroyed,
		c.cpu / base.cpu, c.memory / base.memory, c.goroutines / base.goroutines,
	}
}

// report reports the parts; unit, if it is not empty, is that of all.
func (c cost) report(b *testing.B, unit string) {
	part := func(value float64, of, what string) {
		if unit != "" {
			of = unit
		}
		b.ReportMetric(value, of+"-"+what)
	}
	part(c.running, "µs/alloc", "to-running")
	part(c.stopped, "µs/alloc", "to-stopped")
	part(c.destroyed, "µs/alloc", "to-destroyed")
	part(c.cpu, "µs/alloc", "cpu")
	part(c.memory, "B/alloc", "memory")
	part(c.goroutines, "1/alloc", "goroutines")
	b.ReportMetric(0, "ns/op") // says nothing: what is measured is above
}

// allocations is many allocations of one job.
type allocations struct {
	*fixture
	b       *testing.B
	runners []*alloc.Runner
	arrived sync.WaitGroup // of all at the status that is waited for
	mu      sync.Mutex
	want    func(structs.ClientStatus) bool
	missing map[string]bool // what has not arrived
}

func newCrowd(b *testing.B, n int) *allocations {
	c := &allocations{fixture: newFixture(b, oneTask), b: b}
	for i := range n {
		c.add(fmt.Sprintf("alloc-%d", i), nil)
	}
	return c
}

func (c *allocations) add(id string, w func(*structs.Allocation) alloc.Watcher) *alloc.Runner {
	a := c.alloc.Copy()
	a.ID = id
	cfg := alloc.Config{
		Alloc: a, Node: func() *structs.Node { return &structs.Node{} }, AllocsDir: c.dir, State: c.db, Dispense: c.world.Dispense, StateUpdated: c.updated,
	}
	if w != nil {
		cfg.Watcher = w(a)
	}
	require.NoError(c.b, c.db.PutAllocation(a))
	r, err := alloc.New(cfg)
	require.NoError(c.b, err)
	c.runners = append(c.runners, r)
	return r
}

// updated gets every state.
func (c *allocations) updated(s *structs.AllocationState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.missing[s.ID] && c.want(s.ClientStatus) {
		delete(c.missing, s.ID)
		c.arrived.Done()
	}
}

// until does something to allocations, and returns how long it took until they all had a
// status that is wanted.
func (c *allocations) until(runners []*alloc.Runner, want func(structs.ClientStatus) bool, do func(*alloc.Runner)) time.Duration {
	c.mu.Lock()
	c.want, c.missing = want, make(map[string]bool, len(runners))
	for _, r := range runners {
		c.missing[r.Alloc().ID] = true
	}
	c.mu.Unlock()
	c.arrived.Add(len(runners))
	begun := time.Now()
	for _, r := range runners {
		do(r)
	}
	c.arrived.Wait()
	return time.Since(begun)
}

func isRunning(s structs.ClientStatus) bool { return s == structs.ClientRunning }

// evict ends an allocation as the control plane does.
func evict(r *alloc.Runner) {
	a := r.Alloc().Copy()
	a.DesiredStatus = structs.DesiredEvict
	a.AllocModifyIndex++
	r.Update(a)
}

func (c *allocations) destroy() time.Duration {
	begun := time.Now()
	for _, r := range c.runners {
		r.Destroy()
	}
	for _, r := range c.runners {
		<-r.DestroyCh()
	}
	return time.Since(begun)
}

// live is all of the allocations' life, and what it cost.
func (c *allocations) live() (per cost) {
	n := float64(len(c.runners))
	each := func(d time.Duration) float64 { return float64(d.Microseconds()) / n }
	cpu, goroutines, heap := cpuTime(c.b), runtime.NumGoroutine(), heapBytes()
	per.running = each(c.until(c.runners, isRunning, func(r *alloc.Runner) { go r.Run() }))
	per.goroutines = float64(runtime.NumGoroutine()-goroutines) / n
	per.memory = float64(heapBytes()-heap) / n
	per.stopped = each(c.until(c.runners, structs.ClientStatus.Terminal, evict))
	per.destroyed = each(c.destroy())
	per.cpu = each(cpuTime(c.b) - cpu)
	return per
}

// preempt starts the allocations that replace others, and then evicts these.
func preempt(b *testing.B, n, each int) time.Duration {
	c := newCrowd(b, n)
	c.until(c.runners, isRunning, func(r *alloc.Runner) { go r.Run() })
	old := c.runners
	byID := map[string]*alloc.Runner{}
	for _, r := range old {
		byID[r.Alloc().ID] = r
	}
	for i := range n / each {
		c.add(fmt.Sprintf("new-%d", i), func(a *structs.Allocation) alloc.Watcher {
			for _, r := range old[i*each : (i+1)*each] {
				a.PreemptedAllocations = append(a.PreemptedAllocations, r.Alloc().ID)
			}
			return watcher.New(a, nil, func(id string) watcher.Other { return byID[id] }, nil)
		})
	}
	took := c.until(c.runners[n:], isRunning, func(r *alloc.Runner) {
		go r.Run()
		for _, id := range r.Alloc().PreemptedAllocations {
			evict(byID[id])
		}
	})
	c.destroy()
	return took
}

func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func heapBytes() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}
