package alloc_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/runners/alloc"
	"github.com/wasmnode/wasmnode/structs"
)

// BenchmarkAllocations runs allocations of one task each, all at once, to running, and
// stops them all: the runners alone, on a scripted driver and a store in memory.
func BenchmarkAllocations(b *testing.B) {
	for _, n := range []int{1000, 10000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				benchmark(b, n)
			}
		})
	}
}

func benchmark(b *testing.B, n int) {
	f := newFixture(b, oneTask)
	running := make(chan struct{}, n)
	goroutines, heap := runtime.NumGoroutine(), heapBytes()
	begun := time.Now()
	runners := make([]*alloc.Runner, n)
	for i := range runners {
		a := f.alloc.Copy()
		a.ID = fmt.Sprintf("alloc-%d", i)
		told := false
		r, err := alloc.New(alloc.Config{
			Alloc: a, Node: &structs.Node{}, AllocsDir: f.dir, State: f.db, Dispense: f.world.Dispense,
			StateUpdated: func(s *structs.AllocationState) {
				if s.ClientStatus == structs.ClientRunning && !told {
					told = true
					running <- struct{}{}
				}
			},
		})
		require.NoError(b, err)
		runners[i] = r
		go r.Run()
	}
	for range n {
		<-running
	}
	started := time.Since(begun)
	perAlloc := float64(runtime.NumGoroutine()-goroutines) / float64(n)
	bytes := float64(heapBytes()-heap) / float64(n)
	begun = time.Now()
	for _, r := range runners {
		r.Destroy()
	}
	for _, r := range runners {
		<-r.DestroyCh()
	}
	b.ReportMetric(float64(started.Microseconds())/float64(n), "µs-to-running/alloc")
	b.ReportMetric(float64(time.Since(begun).Microseconds())/float64(n), "µs-to-destroyed/alloc")
	b.ReportMetric(perAlloc, "goroutines/alloc")
	b.ReportMetric(bytes, "B/alloc")
}

func heapBytes() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}
