package agent_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/agent/agenttest"
	"github.com/wasmnode/wasmnode/node"
)

// BenchmarkKnown is what an agent that knows of many allocations, a tenth of which run,
// costs: the time from a job's registration until its task runs, as its user sees it, the
// memory that an allocation takes, and a page of a filtered list.
func BenchmarkKnown(b *testing.B) {
	a := agenttest.Start(b, agenttest.Options{Drivers: []string{"mock"}, Kept: node.DefaultGC().MaxAllocs})
	crowd := &crowd{Agent: a}
	crowd.grow(b, 10, 90)
	memory, toRunning := heap(), map[int]time.Duration{}
	for _, known := range []int{100, 10_000} {
		crowd.grow(b, known/10-crowd.running, known*9/10-crowd.ended) // 1,000 want 10 GB of memory and disk
		if known == 10_000 {
			perAlloc := float64(heap()-memory) / float64(10_000-100)
			b.Run("memory", func(b *testing.B) {
				for b.Loop() {
				}
				b.ReportMetric(perAlloc/1024, "KiB/allocation")
				b.ReportMetric(60, "KiB-allowed")
				b.ReportMetric(0, "ns/op")
			})
		}
		b.Run(fmt.Sprintf("to-running/%d", known), func(b *testing.B) {
			toRunning[known] = crowd.toRunning(b)
			b.ReportMetric(milliseconds(toRunning[known]), "ms-p50")
		})
		b.Run(fmt.Sprintf("list/%d", known), crowd.list)
	}
	b.Run("to-running/ratio", func(b *testing.B) {
		if toRunning[100] == 0 || toRunning[10_000] == 0 {
			b.Skip("both sizes are needed")
		}
		for b.Loop() {
		}
		b.ReportMetric(toRunning[10_000].Seconds()/toRunning[100].Seconds(), "×")
		b.ReportMetric(1.3, "×-allowed")
		b.ReportMetric(0, "ns/op")
	})
}

// crowd is the allocations that an agent knows.
type crowd struct {
	*agenttest.Agent
	running, ended int
	jobs           int
}

// grow adds allocations that run, and some that have ended.
func (c *crowd) grow(b *testing.B, running, ended int) {
	c.running, c.ended = c.running+running, c.ended+ended
	c.run(b, running, "1h", nomad.AllocClientStatusRunning)
	for ; ended > 0; ended -= 500 {
		c.run(b, min(ended, 500), "1ms", nomad.AllocClientStatusComplete)
	}
	// What it removes of those that have ended is no part of what it costs to know them.
	kept := max(node.DefaultGC().MaxAllocs, c.running)
	require.Eventually(b, func() bool {
		dirs, err := os.ReadDir(filepath.Join(c.Data, "alloc"))
		require.NoError(b, err)
		return len(dirs) <= kept
	}, 10*time.Minute, 100*time.Millisecond, "what has ended to be removed")
}

// run runs a job of so many allocations until all have a status.
func (c *crowd) run(b *testing.B, count int, duration, status string) (id string) {
	c.jobs++
	id = fmt.Sprint("job-", c.jobs)
	if count == 0 {
		return id
	}
	job := agenttest.Job(id, "mock_driver", map[string]any{"run_for": duration})
	memory := 10
	job.TaskGroups[0].Count, job.TaskGroups[0].Tasks[0].Resources.MemoryMB = &count, &memory
	_, _, err := c.Client.Jobs().Register(job, nil)
	require.NoError(b, err)
	if count == 1 {
		c.Await(b, id, status)
		return id
	}
	// To watch so many costs more than they do.
	require.Eventually(b, func() bool {
		sum, _, err := c.Client.Jobs().Summary(id, nil)
		require.NoError(b, err)
		g := sum.Summary["group"]
		return map[string]int{"running": g.Running, "complete": g.Complete}[status] == count
	}, 10*time.Minute, 100*time.Millisecond, "%d of %s to be %s", count, id, status)
	return id
}

// toRunning returns the median time from a job's registration until its only task runs.
func (c *crowd) toRunning(b *testing.B) time.Duration {
	var spans []time.Duration
	for b.Loop() {
		start := time.Now()
		id := c.run(b, 1, "1h", nomad.AllocClientStatusRunning)
		spans = append(spans, time.Since(start))
		b.StopTimer()
		_, _, err := c.Client.Jobs().Deregister(id, true, nil)
		require.NoError(b, err)
		c.Await(b, id, nomad.AllocClientStatusComplete)
		b.StartTimer()
	}
	slices.Sort(spans)
	return spans[len(spans)/2]
}

// list asks for a page of the running ones of a job, which are the fewest.
func (c *crowd) list(b *testing.B) {
	ctx, cancel := context.WithTimeout(b.Context(), 10*time.Minute)
	defer cancel()
	q := (&nomad.QueryOptions{PerPage: 50, Filter: `ClientStatus == "running"`}).WithContext(ctx)
	for b.Loop() {
		page, meta, err := c.Client.Allocations().List(q)
		require.NoError(b, err)
		require.Len(b, page, min(50, c.running))
		require.Equal(b, c.running > 50, meta.NextToken != "")
	}
}

// heap is the memory in use, when what is not has been collected.
func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}
