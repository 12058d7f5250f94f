package alloc_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/runners/alloc"
	"github.com/wasmnode/wasmnode/runners/allocdir"
	"github.com/wasmnode/wasmnode/state"
	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/workload"
)

const oneTask = `
job "j" {
  type = "service"
  group "g" {
    restart {
      attempts = 1
      interval = "1m"
      delay    = "10s"
      mode     = "fail"
    }
    task "web" {
      driver = "mock"
    }
  }
}
`

const twoTasks = `
job "j" {
  type = "service"
  group "g" {
    task "web" {
      driver = "mock"
    }
    task "db" {
      driver = "mock"
    }
  }
}
`

func TestAllocStateIsThereBeforeRun(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, oneTask)
		r := f.build()
		require.Equal(t, structs.ClientPending, r.AllocState().ClientStatus)
		require.Equal(t, []string{"Received: Task received by client"}, f.events("web"))
		require.Nil(t, r.Alloc().TaskStates, "the static side knows nothing of the dynamic one")
		require.Zero(t, f.world.Started("web"))
		f.finish()
	})
}

func TestShutdownLeavesTasksRunning(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, twoTasks)
		f.start()
		synctest.Wait()
		f.r.Shutdown()
		f.r.Shutdown()
		<-f.r.ShutdownCh()
		require.Equal(t, []string{"db", "web"}, f.world.Running())
		f.r.Destroy()
		<-f.r.DestroyCh()
		require.Empty(t, f.world.Running(), "a destroyed allocation leaves nothing running")
	})
}

// slowStore takes its time to store what has become of allocations and tasks.
type slowStore struct {
	state.DB
	allocs, tasks chan struct{} // closed: it goes on
}

func (s slowStore) PutAllocationState(a *structs.AllocationState) error {
	<-s.allocs
	return s.DB.PutAllocationState(a)
}

func (s slowStore) PutTaskState(allocID, task string, t *structs.TaskState) error {
	<-s.tasks
	return s.DB.PutTaskState(allocID, task, t)
}

func TestTheLastEventsOfTasksAreReportedAtAShutdown(t *testing.T) {
	for range 20 { // the loop, when it goes on, finds a word and the end: it may take either first
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(t, oneTask)
			store := slowStore{f.db, make(chan struct{}), make(chan struct{})}
			close(store.tasks)
			f.db = store
			f.start()
			synctest.Wait()
			f.r.Reconnected()
			f.r.Shutdown()
			synctest.Wait()
			close(store.allocs)
			<-f.r.ShutdownCh()
			require.Contains(t, f.events("web"), "Reconnected: Client reconnected")
			require.Equal(t, f.r.AllocState().TaskStates, f.lastReport().TaskStates)
			f.finish()
		})
	}
}

func TestNothingIsWrittenAfterTheShutdownOfAnAllocationThatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, oneTask)
		f.watch = &previous{ended: make(chan struct{})}
		inner := f.db
		store := slowStore{inner, make(chan struct{}), make(chan struct{})}
		close(store.allocs)
		f.db = store
		f.start()
		synctest.Wait()
		f.r.Shutdown()
		synctest.Wait()
		select {
		case <-f.r.ShutdownCh():
			t.Fatal("what happened to the task is not stored yet")
		default:
		}
		close(store.tasks)
		<-f.r.ShutdownCh()
		_, stored, err := inner.Task("alloc-1", "web")
		require.NoError(t, err)
		require.Len(t, stored.Events, 2)
		require.Equal(t, stored, f.r.AllocState().TaskStates["web"])
		f.finish()
	})
}

func TestATerminalUpdateKeepsTheDirectoryUntilDestroy(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, oneTask)
		f.start()
		synctest.Wait()
		f.stop()
		<-f.r.WaitCh()
		require.DirExists(t, f.r.AllocDir().Path())
		require.Equal(t, structs.ClientComplete, f.r.AllocState().ClientStatus)
		f.finish()
	})
}

func TestTheNewestUpdateWins(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, oneTask)
		r := f.build()
		update := func(index uint64) {
			a := f.alloc.Copy()
			a.AllocModifyIndex = index
			r.Update(a)
		}
		update(5)
		update(9)
		update(7) // older than what waits
		go r.Run()
		synctest.Wait()
		require.EqualValues(t, 9, r.Alloc().AllocModifyIndex)
		old := f.alloc.Copy() // than what is
		old.AllocModifyIndex, old.DesiredStatus = 8, structs.DesiredStop
		r.Update(old)
		synctest.Wait()
		require.EqualValues(t, 9, r.Alloc().AllocModifyIndex)
		require.Equal(t, []string{"web"}, f.world.Running())
		f.finish()
		update(100)
		require.EqualValues(t, 9, r.Alloc().AllocModifyIndex, "after the run there are no updates")
	})
}

func TestUnchangedStateIsNotReportedAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, oneTask)
		f.start()
		time.Sleep(time.Minute)
		synctest.Wait()
		f.mu.Lock()
		before := len(f.reports)
		f.mu.Unlock()
		for range 10 {
			f.change(func(*structs.Allocation) {})
			synctest.Wait()
		}
		f.mu.Lock()
		require.Len(t, f.reports, before)
		f.mu.Unlock()
		f.finish()
	})
}

func TestAStoppedAllocationWhoseAgentDiedIsKilledOnRestore(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, twoTasks)
		f.start()
		synctest.Wait()
		f.r.Shutdown()
		<-f.r.ShutdownCh()
		f.alloc = f.alloc.Copy()
		f.alloc.DesiredStatus = structs.DesiredStop
		r := f.build()
		require.NoError(t, r.Restore())
		r.Run()
		require.Empty(t, f.world.Running())
		require.Equal(t, structs.ClientComplete, r.AllocState().ClientStatus)
		require.Contains(t, f.events("web"), "Killed: Task successfully killed")
		f.finish()
	})
}

func TestAFailedPrerunOfARestoredAllocationEndsItsTasks(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, oneTask)
		f.start()
		synctest.Wait()
		f.r.Shutdown()
		<-f.r.ShutdownCh()
		require.NoError(t, os.RemoveAll(filepath.Join(f.dir, "alloc-1", "alloc")))
		require.NoError(t, os.WriteFile(filepath.Join(f.dir, "alloc-1", "alloc"), nil, 0o600))
		r := f.build()
		require.NoError(t, r.Restore())
		r.Run()
		require.Empty(t, f.world.Running())
		require.Equal(t, structs.ClientFailed, f.r.AllocState().ClientStatus)
		require.Contains(t, f.events("web")[3], `Setup Failure: failed to setup alloc: pre-run hook "alloc_dir" failed`)
		f.finish()
	})
}

func TestAnAllocationWhoseWaitFailsHasFailed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, oneTask)
		f.watch = failingWatcher{errors.New("no")}
		f.start()
		<-f.r.WaitCh()
		require.Equal(t, structs.ClientFailed, f.r.AllocState().ClientStatus)
		require.Equal(t, `Setup Failure: failed to setup alloc: pre-run hook "await_previous_allocations" failed: no`, f.events("web")[1])
		f.finish()
	})
}

func TestTheDiskIsTakenOverOnceAndOnlyBeforeTheTasks(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, oneTask)
		moves := 0
		ended := make(chan struct{})
		close(ended)
		f.watch = &previous{ended: ended, migrate: func(to *allocdir.Dir, tasks []string) error {
			moves++
			require.Equal(t, []string{"web"}, tasks)
			require.NoError(t, os.WriteFile(filepath.Join(to.Data(), "half"), nil, 0o600))
			return errors.New("no")
		}}
		f.start()
		synctest.Wait()
		require.NoFileExists(t, filepath.Join(f.r.AllocDir().Data(), "half"), "it starts with an empty disk")
		require.Contains(t, f.events("web"), "Task hook message: The disk of the previous allocation is lost, and this one's is empty: no")
		kept := filepath.Join(f.r.AllocDir().Data(), "kept")
		require.NoError(t, os.WriteFile(kept, nil, 0o600))
		f.restartAgent()
		synctest.Wait()
		require.Equal(t, 1, moves)
		require.FileExists(t, kept)
		f.watch = &previous{ended: make(chan struct{})}
		f.restartAgent()
		synctest.Wait()
		require.Empty(t, f.r.Waiting(), "an earlier agent has waited")
		f.finish()
	})
}

func TestWaitingIsReported(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, oneTask)
		p := &previous{ended: make(chan struct{})}
		f.watch = p
		f.start()
		synctest.Wait()
		require.Equal(t, "Waiting for allocation alloc-0 to end", f.r.Waiting())
		close(p.ended)
		synctest.Wait()
		require.Empty(t, f.r.Waiting())
		f.finish()
	})
}

func TestARunnerThatCannotBeMade(t *testing.T) {
	f := newFixture(t, oneTask)
	for name, spoil := range map[string]func(*structs.Allocation){
		"failed to lookup task group": func(a *structs.Allocation) { a.TaskGroup = "other" },
		"no task resources found":     func(a *structs.Allocation) { a.Resources.Tasks = nil },
		`failed creating runner for task "../web"`: func(a *structs.Allocation) {
			a.Job = ofTasks(a.Job, "../web")
			a.Resources.Tasks["../web"] = a.Resources.Tasks["web"]
		},
		`task "web" is in the group twice`: func(a *structs.Allocation) { a.Job = ofTasks(a.Job, "web", "web") },
	} {
		a := f.alloc.Copy()
		spoil(a)
		_, err := alloc.New(alloc.Config{Alloc: a, Node: func() *structs.Node { return &structs.Node{} }, AllocsDir: f.dir, State: f.db})
		require.ErrorContains(t, err, name)
	}
}

// ofTasks is the job with the first task of its group under other names.
func ofTasks(job *nomad.Job, names ...string) *nomad.Job {
	next, group := *job, *job.TaskGroups[0]
	group.Tasks = nil
	for _, name := range names {
		task := *job.TaskGroups[0].Tasks[0]
		task.Name = name
		group.Tasks = append(group.Tasks, &task)
	}
	next.TaskGroups = []*nomad.TaskGroup{&group}
	return &next
}

func TestADestroyWaitsForTheDriver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, oneTask)
		f.task("web").Config = map[string]any{"destroy_for": "30s"}
		f.start()
		synctest.Wait()
		at := time.Now()
		f.finish()
		require.Equal(t, 30*time.Second, time.Since(at))
	})
}

func TestADestroyEndsEveryTaskAndStartsNone(t *testing.T) {
	for name, c := range map[string]struct {
		before func(*fixture)
		tidied int
	}{
		"while the main task runs": {func(*fixture) {}, 0},
		"while the last task runs": {func(f *fixture) { f.stop() }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, wholeLife("service", false, 1))
				f.task("tidy").Config = nil
				f.start()
				time.Sleep(5 * time.Second)
				c.before(f)
				synctest.Wait()
				at := time.Now()
				f.finish()
				require.Zero(t, time.Since(at))
				require.Equal(t, c.tidied, f.world.Started("tidy"))
			})
		})
	}
}

// lost is what outlived an agent that lost what it knew of it.
type lost struct{ run string }

func (lost) Gone(string, bool) string              { return "" }
func (l lost) Run(_, _ string, _ time.Time) string { return l.run }
func (l lost) Inspect(context.Context, string) (*workload.Status, error) {
	return &workload.Status{ID: l.run, State: workload.Running}, nil
}

func TestTheRunsThatWereReadBackAndThoseThatAreHeldAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, oneTask)
		require.Empty(t, f.build().RestoredRuns())
		f.start()
		synctest.Wait()
		require.Empty(t, f.r.Held())
		f.restartAgent()
		runs := f.r.RestoredRuns()
		require.Len(t, runs, 1)
		f.r.Shutdown()
		<-f.r.ShutdownCh()
		f.db, f.left = state.NewMem(), lost{runs[0]}
		f.world.Fail("recover", func() error { return abi.NewError(abi.InvalidArgument, "no driver state") })
		f.build()
		require.NoError(t, f.r.Restore())
		go f.r.Run()
		synctest.Wait()
		require.Contains(t, f.r.Held()["web"], "does not take it back")
		f.finish()
	})
}

func TestAStoreThatCannotBeReadFailsTheRestore(t *testing.T) {
	for n := range 2 { // of the allocation's state, of its task's
		f := newFixture(t, oneTask)
		f.db = state.NewFailing(f.db, n+1)
		r := f.build()
		require.Error(t, r.Restore())
		r.Fail("could not be restored")
		r.Destroy()
		<-r.DestroyCh()
		require.Equal(t, structs.ClientFailed, f.lastReport().ClientStatus)
	}
}

func TestNothingIsStoredOfADestroyedAllocation(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, oneTask)
		f.start()
		synctest.Wait()
		f.finish()
		f.r.Reconnected()
		f.r.Fail("too late")
		f.r.Update(f.alloc.Copy())
		f.world.SendEvent("web", "too late")
		f.r.Shutdown()
		f.r.Run()
		synctest.Wait()
		local, s, err := f.db.Task("alloc-1", "web")
		require.NoError(t, err)
		require.Nil(t, local)
		require.Nil(t, s)
		stored, err := f.db.AllocationState("alloc-1")
		require.NoError(t, err)
		require.Nil(t, stored)
	})
}

func TestEveryTaskHasAnEventWhenTheControlPlaneIsBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, twoTasks)
		f.start()
		synctest.Wait()
		f.r.Reconnected()
		synctest.Wait()
		for _, name := range []string{"web", "db"} {
			events := f.events(name)
			require.Equal(t, "Reconnected: Client reconnected", events[len(events)-1])
		}
		require.Len(t, f.lastReport().TaskStates["web"].Events, len(f.events("web")), "and it is reported to the control plane")
		f.finish()
	})
}
