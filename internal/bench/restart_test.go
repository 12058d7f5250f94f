package bench

import (
	"fmt"
	"testing"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"
)

// sleepTasks is how many tasks a node has that is left alone, or restarted.
const sleepTasks = 100

const (
	// settled is how long after its tasks' start an agent has done what it does once.
	settled = 10 * time.Second
	// window is how long it is watched then.
	window = 20 * time.Second
)

// BenchmarkIdle watches a node whose tasks all sleep: how much of a core the agent
// takes, with all that it started to look after them.
func BenchmarkIdle(b *testing.B) {
	sideBySide(b, func(b *testing.B, p product) *float64 {
		a := p.start(b)
		a.run(b, "job", sleepTasks)
		time.Sleep(settled)
		before := cpuTime(b, running(b, a.binary))
		for b.Loop() {
			time.Sleep(window)
		}
		share := 100 * (cpuTime(b, running(b, a.binary)) - before).Seconds() / b.Elapsed().Seconds()
		b.ReportMetric(share, "%-of-a-core")
		return &share
	}, func(b *testing.B, nomad, own *float64) {
		b.ReportMetric(*own / *nomad, "of-nomads-cpu-time")
	})
}

// agentRestart is how long it takes until an agent that was killed is in charge again.
type agentRestart struct {
	attached time.Duration // from its start until it knows all tasks
	obeyed   time.Duration // from then, when it was told to stop them, until all had ended
}

// BenchmarkRestart kills an agent and starts it again. Nothing may happen to its tasks
// until it is told to stop them, which is at once when it knows them again. Both
// together are an operation.
func BenchmarkRestart(b *testing.B) {
	sideBySide(b, func(b *testing.B, p product) *agentRestart {
		return p.start(b).measureAgentRestart(b)
	}, func(b *testing.B, nomad, own *agentRestart) {
		b.ReportMetric(float64(own.attached)/float64(nomad.attached), "of-nomads-attach-time")
		b.ReportMetric(float64(own.obeyed)/float64(nomad.obeyed), "of-nomads-stop-time")
	})
}

func (a *agent) measureAgentRestart(b *testing.B) *agentRestart {
	b.Helper()
	m := &agentRestart{}
	for i := 0; b.Loop(); i++ {
		b.StopTimer()
		id := fmt.Sprint("job-", i)
		a.run(b, id, sleepTasks)
		tasks := running(b, a.sleep)
		a.kill(b)
		b.StartTimer()
		begin := time.Now()
		a.launch(b)
		a.await(b, "all tasks are known", func() bool { return a.attached(id) })
		attached := time.Now()
		require.Equal(b, tasks, running(b, a.sleep), "nothing happened to the tasks")
		_, _, err := a.client.Jobs().Deregister(id, false, nil)
		require.NoError(b, err)
		a.await(b, "all tasks have ended", func() bool { return len(running(b, a.sleep)) == 0 })
		m.attached += attached.Sub(begin)
		m.obeyed += time.Since(attached)
	}
	m.attached /= time.Duration(b.N)
	m.obeyed /= time.Duration(b.N)
	b.ReportMetric(m.attached.Seconds(), "s-to-attach")
	b.ReportMetric(m.obeyed.Seconds(), "s-to-obey")
	return m
}

// attached tells whether the agent shows all tasks as running, and answers what only
// the part of it can that looks after them.
func (a *agent) attached(id string) bool {
	allocs, _, err := a.client.Jobs().Allocations(id, false, nil)
	if err != nil {
		return false
	}
	for _, alloc := range allocs {
		if alloc.ClientStatus != nomad.AllocClientStatusRunning {
			return false
		}
		if _, err := a.client.Allocations().Stats(&nomad.Allocation{ID: alloc.ID}, nil); err != nil {
			return false
		}
	}
	return len(allocs) == sleepTasks
}
