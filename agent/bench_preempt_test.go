package agent_test

import (
	"fmt"
	"testing"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/agent/agenttest"
)

// BenchmarkPreempting is the time from the registration of a hundred allocations until all
// run, on a node on which 500 others do: where there is room, and where each of them has to
// wait for the end of another that it preempts.
func BenchmarkPreempting(b *testing.B) {
	const running, coming = 500, 100
	took := map[int]time.Duration{}
	for _, preempting := range []int{0, coming} {
		b.Run(fmt.Sprintf("%d-of-%d", preempting, coming), func(b *testing.B) {
			a := agenttest.Start(b, agenttest.Options{Drivers: []string{"mock"}})
			nodes, _, err := a.Client.Nodes().List(&nomad.QueryOptions{Params: map[string]string{"resources": "true"}})
			require.NoError(b, err)
			_, err = a.Client.Raw().Write("/v1/operator/scheduler/configuration",
				&nomad.SchedulerConfiguration{PreemptionConfig: nomad.PreemptionConfig{BatchSchedulerEnabled: true}}, nil, nil)
			require.NoError(b, err)
			total := int(nodes[0].NodeResources.Cpu.CpuShares - int64(nodes[0].ReservedResources.Cpu.CpuShares))
			share := total / (running + coming)
			awaitAll(b, a, sharesOf("low", 20, running, share))
			if preempting > 0 {
				awaitAll(b, a, sharesOf("rest", 100, 1, total-running*share))
			}
			for b.Loop() {
				start := time.Now()
				awaitAll(b, a, sharesOf("high", 90, coming, share))
				took[preempting] += time.Since(start)
				b.StopTimer()
				_, _, err := a.Client.Jobs().Deregister("high", true, nil)
				require.NoError(b, err)
				awaitCount(b, a, "low", running)
				b.StartTimer()
			}
			took[preempting] /= time.Duration(b.N)
		})
	}
	b.Run("ratio", func(b *testing.B) {
		if took[0] == 0 || took[coming] == 0 {
			b.Skip("both are needed")
		}
		for b.Loop() {
		}
		b.ReportMetric(took[coming].Seconds()/took[0].Seconds(), "×")
		b.ReportMetric(0, "ns/op")
	})
}

// sharesOf is a job of so many tasks that run until they are stopped.
func sharesOf(id string, priority, count, cpu int) *nomad.Job {
	job := agenttest.Job(id, "mock_driver", map[string]any{"run_for": "1h"})
	job.Priority = &priority
	g := job.TaskGroups[0]
	g.Count, g.Tasks[0].Resources = &count, &nomad.Resources{CPU: &cpu, MemoryMB: new(10)}
	return job
}

// awaitAll registers a job and returns when all of it runs.
func awaitAll(b *testing.B, a *agenttest.Agent, job *nomad.Job) {
	_, _, err := a.Client.Jobs().Register(job, nil)
	require.NoError(b, err)
	awaitCount(b, a, *job.ID, *job.TaskGroups[0].Count)
}

func awaitCount(b *testing.B, a *agenttest.Agent, id string, count int) {
	require.Eventually(b, func() bool {
		sum, _, err := a.Client.Jobs().Summary(id, nil)
		require.NoError(b, err)
		g := sum.Summary["group"]
		return g.Running == count && g.Starting == 0
	}, 10*time.Minute, 5*time.Millisecond, "%d of %s to run", count, id)
}
