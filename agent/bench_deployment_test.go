package agent_test

import (
	"strconv"
	"testing"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/agent/agenttest"
)

// BenchmarkDeployment is the time from the registration of a new version of a service of 200
// until its deployment has succeeded, 50 at a time, where an allocation is healthy as soon
// as it runs; and how much longer that is than the first version took, all at once.
func BenchmarkDeployment(b *testing.B) {
	const count, parallel = 200, 50
	a := agenttest.Start(b, agenttest.Options{Drivers: []string{"mock"}})
	var first, updates time.Duration
	for i := 0; b.Loop(); i++ {
		b.StopTimer()
		start := time.Now()
		awaitDeployed(b, a, wideService(count, parallel, 1))
		first += time.Since(start)
		b.StartTimer()
		start = time.Now()
		awaitDeployed(b, a, wideService(count, parallel, 2))
		updates += time.Since(start)
		b.StopTimer()
		_, _, err := a.Client.Jobs().Deregister("wide", true, nil)
		require.NoError(b, err)
		a.Await(b, "wide", nomad.AllocClientStatusComplete)
		require.NoError(b, a.Client.System().GarbageCollect())
		b.StartTimer()
	}
	b.ReportMetric(updates.Seconds()/first.Seconds(), "×-all-at-once")
}

// wideService is a version of a service of many tasks that run until they are stopped.
func wideService(count, parallel, version int) *nomad.Job {
	job := agenttest.Job("wide", "mock_driver", map[string]any{"run_for": "1h"})
	job.Type = new(nomad.JobTypeService)
	job.TaskGroups[0].Count = &count
	job.TaskGroups[0].Update = &nomad.UpdateStrategy{MaxParallel: &parallel, MinHealthyTime: new(time.Duration(0))}
	task := job.TaskGroups[0].Tasks[0]
	task.Resources = &nomad.Resources{CPU: new(5), MemoryMB: new(10)}
	task.Meta = map[string]string{"version": strconv.Itoa(version)}
	return job
}

// awaitDeployed registers a job and returns when its deployment has succeeded.
func awaitDeployed(b *testing.B, a *agenttest.Agent, job *nomad.Job) {
	resp, _, err := a.Client.Jobs().Register(job, nil)
	require.NoError(b, err)
	eval, _, err := a.Client.Evaluations().Info(resp.EvalID, nil)
	require.NoError(b, err)
	q := &nomad.QueryOptions{WaitTime: 10 * time.Second}
	for {
		d, meta, err := a.Client.Deployments().Info(eval.DeploymentID, q)
		require.NoError(b, err)
		if d.Status == nomad.DeploymentStatusSuccessful {
			return
		}
		require.Equal(b, nomad.DeploymentStatusRunning, d.Status)
		q.WaitIndex = meta.LastIndex
	}
}
