package alloc_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/structs"
)

const expiring = `
job "j" {
  type = "batch"
  group "g" {
    max_run_duration = "30s"
    task "web" {
      driver = "mock"
    }
  }
}
`

func (f *fixture) allow(d time.Duration) {
	f.change(func(a *structs.Allocation) {
		job := *a.Job
		group := *job.TaskGroups[0]
		group.MaxRunDuration = &d
		job.TaskGroups = append(job.TaskGroups[:0:0], &group)
		a.Job = &job
	})
}

// lasted waits for the end and returns when it came.
func (f *fixture) lasted(since time.Time) time.Duration {
	<-f.r.WaitCh()
	return time.Since(since)
}

func TestTheTimeToRunIsCountedFromTheAllocationsCreation(t *testing.T) {
	for name, c := range map[string]struct {
		meanwhile func(*fixture)
		want      time.Duration
	}{
		"nothing happens":                    {func(*fixture) {}, 30 * time.Second},
		"an update that changes nothing":     {func(f *fixture) { f.change(func(*structs.Allocation) {}) }, 30 * time.Second},
		"another description":                {func(f *fixture) { f.change(func(a *structs.Allocation) { a.DesiredDescription = "x" }) }, 30 * time.Second},
		"a restart of the task":              {func(f *fixture) { require.NoError(f.t, f.r.RestartAll("")) }, 30 * time.Second},
		"a restart of the agent":             {func(f *fixture) { f.restartAgent() }, 30 * time.Second},
		"more time is given":                 {func(f *fixture) { f.allow(time.Minute) }, time.Minute},
		"less time is given":                 {func(f *fixture) { f.allow(20 * time.Second) }, 20 * time.Second},
		"less is given than has passed":      {func(f *fixture) { f.allow(time.Second) }, 10 * time.Second},
		"more is given and the agent is new": {func(f *fixture) { f.allow(time.Minute); synctest.Wait(); f.restartAgent() }, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFixture(t, expiring)
				at := time.Now()
				f.start()
				time.Sleep(10 * time.Second)
				c.meanwhile(f)
				require.Equal(t, c.want, f.lasted(at))
				s := f.r.AllocState()
				require.Equal(t, structs.ClientComplete, s.ClientStatus)
				require.Equal(t, "allocation exceeded max_run_duration", s.ClientDescription)
				for _, task := range s.TaskStates {
					killing := slices.IndexFunc(task.Events, func(e *structs.TaskEvent) bool { return e.Type == structs.EventKilling })
					require.Equal(t, "allocation exceeded max_run_duration", task.Events[killing].DisplayMessage)
				}
				f.finish()
			})
		})
	}
}

func TestWhatDoesNotExpire(t *testing.T) {
	for name, prepare := range map[string]func(*fixture){
		"no limit":          func(f *fixture) { f.group().MaxRunDuration = nil },
		"a limit of zero":   func(f *fixture) { f.group().MaxRunDuration = new(time.Duration) },
		"a negative limit":  func(f *fixture) { *f.group().MaxRunDuration = -time.Second },
		"of an unknown age": func(f *fixture) { f.alloc.CreateTime = 0 },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFixture(t, expiring)
				prepare(f)
				f.start()
				time.Sleep(24 * time.Hour)
				synctest.Wait()
				require.Equal(t, structs.ClientRunning, f.r.AllocState().ClientStatus)
				f.finish()
			})
		})
	}
}

func TestWhatHasEndedDoesNotExpire(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, expiring)
		f.start()
		time.Sleep(10 * time.Second)
		require.True(t, f.world.Exit("web", structs.ExitResult{}))
		<-f.r.WaitCh()
		time.Sleep(time.Hour)
		require.Equal(t, "All tasks have completed", f.r.AllocState().ClientDescription)
		f.finish()
	})
}

func TestAnAllocationThatWaitsExpires(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, expiring)
		f.watch = &previous{ended: make(chan struct{})}
		at := time.Now()
		f.start()
		require.Equal(t, 30*time.Second, f.lasted(at))
		require.Zero(t, f.world.Started("web"))
		require.Equal(t, structs.ClientComplete, f.r.AllocState().ClientStatus)
		f.finish()
	})
}

func TestTheTimeIsOverWhileTheAgentWasAway(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, expiring)
		f.start()
		synctest.Wait()
		f.r.Shutdown()
		<-f.r.ShutdownCh()
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, []string{"web"}, f.world.Running(), "an agent that has left ends nothing")
		f.build()
		require.NoError(t, f.r.Restore())
		at := time.Now()
		go f.r.Run()
		require.Zero(t, f.lasted(at))
		require.Equal(t, "allocation exceeded max_run_duration", f.r.AllocState().ClientDescription)
		f.finish()
	})
}
