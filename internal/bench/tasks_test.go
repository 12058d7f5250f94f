package bench

import (
	"fmt"
	"testing"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"
)

// job is one of many tasks that sleep longer than any benchmark.
func (a *agent) job(id string, tasks int) *nomad.Job {
	job := nomad.NewServiceJob(id, id, "global", 50)
	job.Datacenters = []string{"*"}
	mb, cpu, files := 10, 1, 1
	group := nomad.NewTaskGroup("group", tasks)
	group.EphemeralDisk = &nomad.EphemeralDisk{SizeMB: &mb}
	group.AddTask(&nomad.Task{
		Name: "task", Driver: "raw_exec",
		Config:    map[string]any{"command": a.sleep, "args": []string{"100000"}},
		Resources: &nomad.Resources{CPU: &cpu, MemoryMB: &mb},
		LogConfig: &nomad.LogConfig{MaxFiles: &files, MaxFileSizeMB: &files},
	})
	return job.AddTaskGroup(group)
}

// run registers a job and returns when all its tasks run.
func (a *agent) run(b *testing.B, id string, tasks int) {
	b.Helper()
	_, _, err := a.client.Jobs().Register(a.job(id, tasks), nil)
	require.NoError(b, err)
	a.await(b, "all tasks run", func() bool { return a.summary(b, id).Running == tasks })
	require.Len(b, running(b, a.sleep), tasks)
}

// stop stops a job and returns when all its tasks have ended, and the API says so.
func (a *agent) stop(b *testing.B, id string, tasks int) {
	b.Helper()
	_, _, err := a.client.Jobs().Deregister(id, false, nil)
	require.NoError(b, err)
	a.await(b, "all tasks have ended", func() bool { return len(running(b, a.sleep)) == 0 })
	a.await(b, "all tasks are seen to have ended", func() bool { return a.summary(b, id).Complete == tasks })
}

// summary counts a job's allocations, at the least cost to the agent.
func (a *agent) summary(b *testing.B, id string) nomad.TaskGroupSummary {
	b.Helper()
	summary, _, err := a.client.Jobs().Summary(id, nil)
	require.NoError(b, err)
	return summary.Summary["group"]
}

// starting is what tasks cost from their start to their end.
type starting struct {
	starts, stops float64       // a second
	cpu           time.Duration // of a start
	memory        float64       // bytes a task
}

// BenchmarkTasks has sleep run as many times as a node may have to, and ended again.
// An operation is from the job's registration to the last task's being seen as
// running. The memory of a task is its share of the private memory of everything but
// the tasks themselves: of the agent, and of whatever it started to look after them.
// What the agent has before its first task is told too. The processor time of a start
// is theirs, too: unlike the rate, it is nearly the same while the machine does much else.
func BenchmarkTasks(b *testing.B) {
	for _, tasks := range []int{50, 200} {
		b.Run(fmt.Sprint(tasks), func(b *testing.B) {
			sideBySide(b,
				func(b *testing.B, p product) *starting { return p.start(b).measureStarting(b, tasks) },
				func(b *testing.B, nomad, own *starting) {
					b.ReportMetric(own.starts/nomad.starts, "times-nomads-start-rate")
					b.ReportMetric(own.stops/nomad.stops, "times-nomads-stop-rate")
					b.ReportMetric(float64(own.cpu)/float64(nomad.cpu), "of-nomads-start-cpu")
					b.ReportMetric(own.memory/nomad.memory, "of-nomads-memory")
				})
		})
	}
}

func (a *agent) measureStarting(b *testing.B, tasks int) *starting {
	b.Helper()
	m := &starting{}
	idle := privateMemory(b, running(b, a.binary))
	var stopping time.Duration
	for i := 0; b.Loop(); i++ {
		id := fmt.Sprint("job-", i)
		b.StopTimer()
		busy := cpuTime(b, running(b, a.binary))
		b.StartTimer()
		a.run(b, id, tasks)
		b.StopTimer()
		m.cpu += cpuTime(b, running(b, a.binary)) - busy
		m.memory = max(m.memory, privateMemory(b, running(b, a.binary))/float64(tasks))
		begin := time.Now()
		a.stop(b, id, tasks)
		stopping += time.Since(begin)
		require.NoError(b, a.client.System().GarbageCollect())
		b.StartTimer()
	}
	all := float64(b.N * tasks)
	m.starts, m.stops = all/b.Elapsed().Seconds(), all/stopping.Seconds()
	m.cpu /= time.Duration(b.N * tasks)
	b.ReportMetric(m.starts, "starts/s")
	b.ReportMetric(float64(m.cpu.Microseconds())/1000, "ms-cpu/start")
	b.ReportMetric(m.stops, "stops/s")
	b.ReportMetric(m.memory/1e6, "MB-private/task")
	b.ReportMetric(idle/1e6, "MB-private-before")
	return m
}
