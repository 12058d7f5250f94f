package agent_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/agent/agenttest"
)

// BenchmarkTaskStart runs a job of WASI tasks until the API shows all as running:
// the time of an operation is what a user waits. Of each task it reports the time
// from its event Received to its event Started.
func BenchmarkTaskStart(b *testing.B) {
	for _, count := range []int{1, 200} {
		b.Run(fmt.Sprint(count), func(b *testing.B) {
			a := agenttest.Start(b, agenttest.Options{Drivers: []string{"wasi"}})
			sleep := map[string]any{"module": a.Program(b, "sleep")}
			startTasks(b, a, "compile", 1, sleep)
			var spans []time.Duration
			for i := 0; b.Loop(); i++ {
				id := fmt.Sprint("job-", i)
				allocs := startTasks(b, a, id, count, sleep)
				b.StopTimer()
				for _, alloc := range allocs {
					spans = append(spans, receivedToStarted(b, alloc))
				}
				stop(b, a, id)
				b.StartTimer()
			}
			slices.Sort(spans)
			b.ReportMetric(milliseconds(spans[len(spans)/2]), "ms-received-to-started-p50")
			b.ReportMetric(milliseconds(spans[len(spans)*95/100]), "ms-received-to-started-p95")
		})
	}
}

// startTasks registers a job and returns when all of its tasks run.
func startTasks(b *testing.B, a *agenttest.Agent, id string, count int, config map[string]any) []*nomad.AllocationListStub {
	job := agenttest.Job(id, "wasi", config)
	job.TaskGroups[0].Count = &count
	_, _, err := a.Client.Jobs().Register(job, nil)
	require.NoError(b, err)
	allocs := a.Await(b, id, nomad.AllocClientStatusRunning)
	require.Len(b, allocs, count)
	return allocs
}

// stop stops a job and forgets it, so that the next finds the node as this one did.
func stop(b *testing.B, a *agenttest.Agent, id string) {
	_, _, err := a.Client.Jobs().Deregister(id, false, nil)
	require.NoError(b, err)
	a.Await(b, id, nomad.AllocClientStatusComplete)
	require.NoError(b, a.Client.System().GarbageCollect())
}

func receivedToStarted(b *testing.B, alloc *nomad.AllocationListStub) time.Duration {
	times := map[string]int64{}
	for _, e := range alloc.TaskStates["task"].Events {
		times[e.Type] = e.Time
	}
	require.Contains(b, times, nomad.TaskReceived)
	require.Contains(b, times, nomad.TaskStarted)
	return time.Duration(times[nomad.TaskStarted] - times[nomad.TaskReceived])
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
