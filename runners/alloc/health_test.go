package alloc_test

import (
	"testing"
	"testing/synctest"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/structs"
)

const watched = `
job "j" {
  type = "service"
  group "g" {
    restart {
      attempts = 0
    }
    update {
      min_healthy_time = "5s"
      healthy_deadline = "1m"
    }
    migrate {
      min_healthy_time = "8s"
      healthy_deadline = "2m"
    }
    task "web" {
      driver = "mock"
    }
    task "init" {
      driver = "mock"
      lifecycle { hook = "prestart" }
      config { run_for = "2s" }
    }
  }
}
`

// health is what is reported of an allocation's health, and when that was decided.
func (f *fixture) health() (is string, at time.Time) {
	d := f.r.AllocState().DeploymentStatus
	switch {
	case d == nil || d.Healthy == nil:
		return "", time.Time{}
	case *d.Healthy:
		return "healthy", d.Timestamp
	}
	return "unhealthy", d.Timestamp
}

func TestTheWatchOfHealthDependsOnTheJobAndItsUpdateBlock(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*fixture)
		want   string
		after  time.Duration
	}{
		"part of a deployment":                   {func(f *fixture) { f.alloc.DeploymentID = "d" }, "healthy", 7 * time.Second},
		"of no deployment":                       {func(*fixture) {}, "healthy", 7 * time.Second},
		"without an update block":                {func(f *fixture) { f.group().Update = nil }, "healthy", 10 * time.Second},
		"a system job":                           {func(f *fixture) { *f.alloc.Job.Type = "system" }, "healthy", 7 * time.Second},
		"a batch job":                            {func(f *fixture) { *f.alloc.Job.Type = "batch" }, "", 0},
		"a system batch job":                     {func(f *fixture) { *f.alloc.Job.Type = "sysbatch" }, "", 0},
		"a person decides":                       {func(f *fixture) { f.alloc.DeploymentID = "d"; f.group().Update.HealthCheck = new("manual") }, "", 0},
		"a person decides, without a deployment": {func(f *fixture) { f.group().Update.HealthCheck = new("manual") }, "", 0},
		"decided already":                        {func(f *fixture) { no := false; f.alloc.DeploymentStatus = &structs.DeploymentStatus{Healthy: &no} }, "unhealthy", -1},
		"the main task ends too soon": {func(f *fixture) {
			f.alloc.DeploymentID = "d"
			f.task("web").Config = map[string]any{"run_for": "3s", "exit_code": 1}
		}, "unhealthy", 5 * time.Second},
		"the first task fails": {func(f *fixture) {
			f.alloc.DeploymentID = "d"
			f.task("init").Config = map[string]any{"run_for": "1s", "exit_code": 1}
		}, "unhealthy", time.Second},
		"the main task is never reached":       {func(f *fixture) { f.alloc.DeploymentID = "d"; f.task("init").Config = map[string]any{} }, "unhealthy", time.Minute},
		"the deadline of the migrate block":    {func(f *fixture) { f.group().Update = nil; f.task("init").Config = map[string]any{} }, "unhealthy", 2 * time.Minute},
		"healthy only just at the deadline":    {func(f *fixture) { f.alloc.DeploymentID = "d"; f.task("init").Config = map[string]any{"run_for": "55s"} }, "healthy", time.Minute},
		"not healthy until after the deadline": {func(f *fixture) { f.alloc.DeploymentID = "d"; f.task("init").Config = map[string]any{"run_for": "56s"} }, "unhealthy", time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFixture(t, watched)
				c.change(f)
				begun := time.Now()
				f.start()
				time.Sleep(10 * time.Minute)
				synctest.Wait()
				is, at := f.health()
				require.Equal(t, c.want, is)
				if c.want != "" && c.after >= 0 {
					require.Equal(t, c.after, at.Sub(begun))
				}
				f.finish()
			})
		})
	}
}

func (f *fixture) task(name string) *nomad.Task {
	for _, task := range f.group().Tasks {
		if task.Name == name {
			return task
		}
	}
	f.t.Fatalf("no task %q", name)
	return nil
}

func TestHealthIsWatchedAgainForAnotherDeployment(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, watched)
		f.alloc.DeploymentID = "first"
		f.start()
		time.Sleep(30 * time.Second)
		synctest.Wait()
		_, first := f.health()
		require.False(t, first.IsZero())
		f.change(func(a *structs.Allocation) { a.DeploymentID = "second" })
		time.Sleep(30 * time.Second)
		synctest.Wait()
		is, second := f.health()
		require.Equal(t, "healthy", is)
		require.True(t, second.After(first))
		begun := time.Now()
		f.change(func(a *structs.Allocation) {
			job, group := *a.Job, *a.Group()
			group.Update = &nomad.UpdateStrategy{MinHealthyTime: new(10 * time.Minute), HealthyDeadline: new(time.Minute)}
			job.TaskGroups = []*nomad.TaskGroup{&group}
			a.DeploymentID, a.Job = "third", &job
		})
		synctest.Wait()
		is, _ = f.health()
		require.Empty(t, is, "what was found out is of the deployment before")
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		is, third := f.health()
		require.Equal(t, "unhealthy", is)
		require.Equal(t, time.Minute, third.Sub(begun), "the deadline is counted anew")
		f.finish()
	})
}

func TestHealthIsDecidedOnceWhateverIsUpdatedMeanwhile(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, watched)
		f.alloc.DeploymentID, f.alloc.DeploymentStatus = "d", &structs.DeploymentStatus{Canary: true}
		begun := time.Now()
		f.build()
		f.change(func(*structs.Allocation) {}) // before it runs
		go f.r.Run()
		for range 20 {
			time.Sleep(time.Second)
			f.change(func(*structs.Allocation) {})
		}
		synctest.Wait()
		is, at := f.health()
		require.Equal(t, "healthy", is)
		require.Equal(t, 7*time.Second, at.Sub(begun))
		f.restartAgent()
		time.Sleep(time.Minute)
		synctest.Wait()
		again, then := f.health()
		require.Equal(t, "healthy", again)
		require.Equal(t, at, then, "the next agent does not decide again")
		require.True(t, f.r.AllocState().DeploymentStatus.Canary)
		f.finish()
	})
}

func TestAStopBeforeTheDecisionDecidesNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, watched)
		f.alloc.DeploymentID = "d"
		f.start()
		time.Sleep(time.Second)
		f.stop()
		<-f.r.WaitCh()
		is, _ := f.health()
		require.Empty(t, is)
		f.finish()
	})
}

func TestAnAllocationOfNoDeploymentHasAnEventWhenItIsUnhealthy(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, watched)
		f.group().RestartPolicy.Attempts = new(99)
		f.group().RestartPolicy.Delay = new(20 * time.Second)
		for _, task := range f.group().Tasks {
			task.RestartPolicy = f.group().RestartPolicy
		}
		f.task("web").Config = map[string]any{"run_for": "1s", "exit_code": 1}
		f.start()
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		is, _ := f.health()
		require.Equal(t, "unhealthy", is)
		require.Contains(t, f.events("web"), "Alloc Unhealthy: Task not running by deadline")
		f.finish()
	})
}

func TestWhatAnAllocationWaitsForBeforeItsTasksDoesNotCountForItsHealth(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, watched)
		before := &previous{ended: make(chan struct{})}
		f.watch = before
		f.start()
		time.Sleep(10 * time.Minute) // the deadline is a minute
		synctest.Wait()
		is, _ := f.health()
		require.Empty(t, is)
		close(before.ended)
		time.Sleep(time.Minute)
		synctest.Wait()
		is, _ = f.health()
		require.Equal(t, "healthy", is)
		f.finish()
	})
}

// Nomad's update hooks do not run for a stop: what was found out about the allocation stays.
func TestAStopIsNotTakenForAnUpdate(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, watched)
		f.alloc.DeploymentID = "first"
		f.start()
		time.Sleep(time.Minute)
		synctest.Wait()
		is, _ := f.health()
		require.Equal(t, "healthy", is)
		f.change(func(a *structs.Allocation) {
			a.DesiredStatus, a.DeploymentID = structs.DesiredStop, "second"
		})
		<-f.r.WaitCh()
		is, _ = f.health()
		require.Equal(t, "healthy", is)
		f.finish()
	})
}

func TestHealthIsWatchedAgainForAnotherVersionOfTheJob(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, watched)
		f.start()
		time.Sleep(30 * time.Second)
		synctest.Wait()
		_, first := f.health()
		require.False(t, first.IsZero())
		f.change(func(a *structs.Allocation) {
			job := *a.Job
			job.JobModifyIndex = new(uint64(77))
			a.Job, a.DeploymentStatus = &job, f.r.AllocState().DeploymentStatus // as reported before
		})
		time.Sleep(30 * time.Second)
		synctest.Wait()
		is, second := f.health()
		require.Equal(t, "healthy", is)
		require.True(t, second.After(first))
		f.finish()
	})
}
