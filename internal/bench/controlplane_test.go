package bench

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"
)

// Sizes of what is measured of a control plane.
const (
	dispatches = 400 // by so many clients together
	dispatcher = 8
	deployed   = 20 // tasks of a service, a quarter of them at a time
	pages      = 20 // of a list
)

// deciding is what a control plane costs its users.
type deciding struct {
	toRunning  time.Duration // from a job's registration until its only task runs; the median
	dispatched float64       // a minute
	page       time.Duration // of a filtered list of all that was dispatched; the median
	deployment time.Duration // of a service's second version
}

// BenchmarkControlPlane has a job run, a service change and many jobs dispatched that cannot be
// placed, so that nothing but the control plane is busy with them. An operation is one task's from
// its job's registration until it runs.
func BenchmarkControlPlane(b *testing.B) {
	sideBySide(b,
		func(b *testing.B, p product) *deciding { return p.start(b).measureDeciding(b) },
		func(b *testing.B, nomad, own *deciding) {
			b.ReportMetric(float64(own.toRunning)/float64(nomad.toRunning), "of-nomads-to-running")
			b.ReportMetric(own.dispatched/nomad.dispatched, "times-nomads-dispatches")
			b.ReportMetric(float64(own.page)/float64(nomad.page), "of-nomads-page")
			b.ReportMetric(float64(own.deployment)/float64(nomad.deployment), "of-nomads-deployment")
		})
}

func (a *agent) measureDeciding(b *testing.B) *deciding {
	b.Helper()
	m := &deciding{}
	var spans []time.Duration
	for i := 0; b.Loop(); i++ {
		id := fmt.Sprint("one-", i)
		begin := time.Now()
		_, _, err := a.client.Jobs().Register(a.job(id, 1), nil)
		require.NoError(b, err)
		a.awaitRunning(b, id)
		spans = append(spans, time.Since(begin))
		b.StopTimer()
		_, _, err = a.client.Jobs().Deregister(id, true, nil)
		require.NoError(b, err)
		a.await(b, "the task has ended", func() bool { return len(running(b, a.sleep)) == 0 })
		b.StartTimer()
	}
	m.toRunning = median(spans)
	m.deployment = a.deploy(b)
	m.dispatched = float64(dispatches) / a.dispatch(b).Minutes()
	m.page = a.list(b)
	b.ReportMetric(float64(m.toRunning.Microseconds())/1000, "ms-to-running")
	b.ReportMetric(m.dispatched, "dispatches/min")
	b.ReportMetric(float64(m.page.Microseconds())/1000, "ms/page")
	b.ReportMetric(m.deployment.Seconds(), "s/deployment")
	return m
}

func median(spans []time.Duration) time.Duration {
	slices.Sort(spans)
	return spans[len(spans)/2]
}

// awaitRunning returns when a job's only task runs, which it is told and does not look for.
func (a *agent) awaitRunning(b *testing.B, id string) {
	q := &nomad.QueryOptions{WaitTime: testTimeout}
	for begin := time.Now(); time.Since(begin) < testTimeout; {
		allocs, meta, err := a.client.Jobs().Allocations(id, false, q)
		require.NoError(b, err)
		if len(allocs) == 1 && allocs[0].ClientStatus == nomad.AllocClientStatusRunning {
			return
		}
		q.WaitIndex = meta.LastIndex
	}
	b.Fatalf("%s does not run", id)
}

// deploy has a service run, and returns how long a deployment of its next version takes.
func (a *agent) deploy(b *testing.B) (took time.Duration) {
	for version := range 2 {
		job := a.job("service", deployed)
		job.TaskGroups[0].Update = &nomad.UpdateStrategy{MaxParallel: new(deployed / 4), MinHealthyTime: new(time.Duration(0))}
		job.TaskGroups[0].Tasks[0].Env = map[string]string{"VERSION": fmt.Sprint(version)}
		begin := time.Now()
		_, _, err := a.client.Jobs().Register(job, nil)
		require.NoError(b, err)
		a.await(b, "the deployment succeeds", func() bool {
			d, _, err := a.client.Jobs().LatestDeployment("service", nil)
			require.NoError(b, err)
			return d != nil && d.JobVersion == uint64(version) && d.Status == nomad.DeploymentStatusSuccessful
		})
		took = time.Since(begin)
	}
	a.stop(b, "service", 2*deployed)
	return took
}

// dispatch returns how long it takes several clients to dispatch a job that has no place.
func (a *agent) dispatch(b *testing.B) time.Duration {
	job := a.job("dispatched", 1)
	job.Type = new(nomad.JobTypeBatch)
	job.ParameterizedJob = &nomad.ParameterizedJobConfig{}
	job.Constraints = []*nomad.Constraint{nomad.NewConstraint("${node.class}", "=", "of-no-node")}
	_, _, err := a.client.Jobs().Register(job, nil)
	require.NoError(b, err)
	begin := time.Now()
	var all sync.WaitGroup
	failed := make(chan error, dispatcher)
	for range dispatcher {
		all.Go(func() {
			for range dispatches / dispatcher {
				if _, _, err := a.client.Jobs().Dispatch("dispatched", nil, make([]byte, 1000), "", nil); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	all.Wait()
	took := time.Since(begin)
	close(failed)
	for err := range failed {
		require.NoError(b, err)
	}
	return took
}

// list returns how long a page of the jobs that wait for a place takes.
func (a *agent) list(b *testing.B) time.Duration {
	var spans []time.Duration
	for range pages {
		begin := time.Now()
		jobs, _, err := a.client.Jobs().List(&nomad.QueryOptions{PerPage: 50, Filter: `Status == "pending"`})
		spans = append(spans, time.Since(begin))
		require.NoError(b, err)
		require.Len(b, jobs, 50)
	}
	return median(spans)
}
