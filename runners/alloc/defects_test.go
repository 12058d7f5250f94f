package alloc_test

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/runners/alloc"
	"github.com/wasmnode/wasmnode/runners/task"
	"github.com/wasmnode/wasmnode/runners/watcher"
	"github.com/wasmnode/wasmnode/structs"
)

// The tests of this file are named for the defects of the reference, by its number in our
// list, that this package must not have. docs/conformance.md has the whole list.

func TestD3_DestroyWithoutRun(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, oneTask)
		f.build()
		f.finish()
		require.Equal(t, structs.ClientComplete, f.lastReport().ClientStatus, "it is reported to the control plane")
		<-f.r.WaitCh()
		<-f.r.ShutdownCh()
		require.True(t, f.r.IsDestroyed())
		f.r.Run() // returns at once
	})
}

func TestD3_DestroyAfterAFailedRestoreReportsTheFailure(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, oneTask)
		f.start()
		synctest.Wait()
		f.r.Shutdown()
		<-f.r.ShutdownCh()
		require.NoError(t, os.RemoveAll(filepath.Join(f.dir, "alloc-1")))
		r := f.build()
		err := r.Restore()
		require.ErrorContains(t, err, "allocation directory is inaccessible")
		r.Fail(err.Error())
		f.finish() // the task that the earlier agent left is ended too
		require.Equal(t, structs.ClientFailed, f.lastReport().ClientStatus)
		require.Contains(t, f.lastReport().ClientDescription, "inaccessible")
	})
}

func TestD3_DestroyAndShutdownAnyTimeTwiceConcurrently(t *testing.T) {
	for name, order := range map[string]func(*alloc.Runner){
		"destroy, then run": func(r *alloc.Runner) { r.Destroy(); r.Run() },
		"run, then destroy": func(r *alloc.Runner) { go r.Run(); r.Destroy() },
		"destroy twice":     func(r *alloc.Runner) { go r.Run(); r.Destroy(); r.Destroy() },
		"shutdown without run, then destroy": func(r *alloc.Runner) {
			r.Shutdown()
			<-r.ShutdownCh()
			<-r.WaitCh()
			r.Destroy()
		},
		"shutdown, run, destroy": func(r *alloc.Runner) { r.Shutdown(); r.Run(); r.Destroy() },
		"run, shutdown, destroy": func(r *alloc.Runner) { go r.Run(); synctest.Wait(); r.Shutdown(); r.Destroy() },
		"destroy, shutdown":      func(r *alloc.Runner) { go r.Run(); r.Destroy(); r.Shutdown() },
		"all at once": func(r *alloc.Runner) {
			var all sync.WaitGroup
			for range 5 {
				all.Go(r.Run)
				all.Go(r.Shutdown)
				all.Go(r.Destroy)
			}
			all.Wait()
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFixture(t, twoTasks)
				order(f.build())
				f.finish()
				<-f.r.WaitCh()
				<-f.r.ShutdownCh()
			})
		})
	}
}

func TestD9_AForcedRestartClearsFinishedAt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, `
job "j" {
  type = "batch"
  group "g" {
    task "one" {
      driver = "mock"
      config { run_for = "2s" }
    }
    task "two" {
      driver = "mock"
    }
  }
}
`)
		f.start()
		time.Sleep(3 * time.Second)
		synctest.Wait()
		require.False(t, f.r.AllocState().TaskStates["one"].FinishedAt.IsZero())
		require.NoError(t, f.r.RestartAll(""))
		synctest.Wait()
		one := f.r.AllocState().TaskStates["one"]
		require.Equal(t, structs.TaskRunning, one.State)
		require.True(t, one.FinishedAt.IsZero(), "a running task has not finished")
		f.stop()
		<-f.r.WaitCh()
		require.Contains(t, f.events("one"), "Killing: Sent interrupt. Waiting 5s before force killing")
		require.False(t, f.r.AllocState().TaskStates["one"].FinishedAt.IsZero())
		f.finish()
	})
}

func TestD16_AListenerSeesTheEndAndThenNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, oneTask)
		f.start()
		l := f.r.Listener()
		synctest.Wait()
		f.stop()
		var last *structs.AllocationState
		for s := range l.Ch() {
			last = s
		}
		require.Equal(t, structs.ClientComplete, last.ClientStatus)
		f.finish()
	})
}

func TestD14_APreemptingAllocationStartsWhenThePreemptedOneHasEnded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		old := newFixture(t, oneTask)
		old.start()
		synctest.Wait()
		f := newFixture(t, oneTask)
		f.alloc.ID, f.alloc.PreemptedAllocations = "alloc-2", []string{"alloc-1"}
		f.watch = watcher.New(f.alloc, nil, func(string) watcher.Other { return old.r }, nil)
		f.start()
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Empty(t, f.world.Running())
		old.stop()
		synctest.Wait()
		require.Equal(t, []string{"web"}, f.world.Running())
		old.finish()
		f.finish()
	})
}

func TestD14_ARestoredAllocationWaitsAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, oneTask)
		p := &previous{ended: make(chan struct{})}
		f.watch = p
		f.start()
		synctest.Wait()
		f.restartAgent()
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Empty(t, f.world.Running())
		require.NotEmpty(t, f.r.Waiting())
		close(p.ended)
		synctest.Wait()
		require.Equal(t, []string{"web"}, f.world.Running())
		f.finish()
	})
}

func TestD14_AWaitEndsWithWhateverEndsTheAllocation(t *testing.T) {
	for name, end := range map[string]func(*fixture){
		"stop":     func(f *fixture) { f.stop(); <-f.r.WaitCh() },
		"shutdown": func(f *fixture) { f.r.Shutdown(); <-f.r.ShutdownCh() },
		"destroy":  func(f *fixture) { f.r.Destroy(); <-f.r.DestroyCh() },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFixture(t, wholeLife("service", true, 1))
				f.watch = &previous{ended: make(chan struct{})}
				f.group().ShutdownDelay = new(time.Minute) // of tasks that run
				f.start()
				synctest.Wait()
				at := time.Now()
				end(f)
				require.Zero(t, time.Since(at))
				f.finish()
				require.Zero(t, f.world.Count("start"), "nor what comes after the others")
			})
		})
	}
}

func TestD16_AListenerThatDoesNotReadBlocksNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, oneTask)
		f.start()
		stalled := f.r.Listener()
		synctest.Wait()
		at := time.Now()
		for range 20 {
			require.NoError(t, f.r.RestartTask("web", "again"))
			synctest.Wait()
		}
		f.stop()
		<-f.r.WaitCh()
		require.Zero(t, time.Since(at))
		require.Equal(t, structs.ClientComplete, (<-stalled.Ch()).ClientStatus, "the newest is what waits")
		f.finish()
	})
}

func TestD13_AnUpdateIsAppliedWhileAKillHangs(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, oneTask)
		f.group().Tasks[0].Config = map[string]any{"stop_hangs": true, "wait_hangs": true}
		f.start()
		synctest.Wait()
		at := time.Now()
		f.stop()
		synctest.Wait()
		f.change(func(*structs.Allocation) {})
		synctest.Wait()
		require.Equal(t, f.alloc.AllocModifyIndex, f.r.Alloc().AllocModifyIndex)
		<-f.r.WaitCh()
		require.Less(t, time.Since(at), 15*time.Second, "a kill has an end")
		f.finish()
	})
}

func TestD22_AFailureBeforeTheTasksFailsTheAllocation(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, twoTasks)
		f.watch = failingWatcher{errors.New("no")}
		f.start()
		<-f.r.WaitCh()
		s := f.r.AllocState()
		require.Equal(t, structs.ClientFailed, s.ClientStatus)
		require.Equal(t, structs.ClientFailed, f.lastReport().ClientStatus, "it is reported to the control plane")
		for name, task := range s.TaskStates {
			require.Equal(t, structs.TaskDead, task.State, name)
			require.True(t, task.Failed, name)
			require.False(t, task.FinishedAt.IsZero(), name)
		}
		f.finish()
	})
}

func TestD22_ATaskThatHasEndedHasNoEventOfAKill(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, twoTasks)
		*f.alloc.Job.Type = "batch"
		f.group().Tasks[0].Config = map[string]any{"run_for": "1s"}
		f.start()
		time.Sleep(2 * time.Second)
		f.stop()
		<-f.r.WaitCh()
		require.Equal(t, []string{eventReceived, eventSetup, eventStarted, "Terminated: Exit Code: 0"}, f.events("web"))
		require.Equal(t, []string{
			eventReceived, eventSetup, eventStarted, "Killing: Sent interrupt. Waiting 5s before force killing",
			"Terminated: Exit Code: 0", "Killed: Task successfully killed",
		}, f.events("db"))
		f.finish()
	})
}

func TestD22_TheStateIsReadAndItsCopyChangedWhileTheTasksGoOn(t *testing.T) {
	f := newFixture(t, oneTask)
	f.group().Tasks[0].RestartPolicy.Attempts = new(int)
	r := f.start()
	var readers sync.WaitGroup
	ended := make(chan struct{})
	for range 4 {
		readers.Go(func() {
			for {
				s := r.AllocState()
				s.ClientStatus = structs.ClientLost
				s.TaskStates["web"].State = ""
				s.TaskStates["web"].Events = nil
				select {
				case <-ended:
					return
				default:
				}
			}
		})
	}
	f.until(running)
	for range 50 {
		_ = r.RestartTask("web", "again") // refused while it is between two runs
	}
	f.stop()
	<-r.WaitCh()
	close(ended)
	readers.Wait()
	require.Equal(t, structs.ClientComplete, r.AllocState().ClientStatus)
	require.NotEmpty(t, f.events("web"))
	f.finish()
}

func TestD23_AFailedTaskKillsItsSiblingWithTheReason(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, twoTasks)
		f.alloc.DeploymentID = "deployment-1"
		for _, task := range f.group().Tasks {
			task.RestartPolicy.Attempts = new(int)
		}
		f.start()
		synctest.Wait()
		require.True(t, f.world.Exit("web", structs.ExitResult{ExitCode: 1}))
		<-f.r.WaitCh()
		require.Equal(t, []string{
			eventReceived, eventSetup, eventStarted, "Terminated: Exit Code: 1", "Not Restarting: Policy allows no restarts",
			"Alloc Unhealthy: Unhealthy because of failed task",
		}, f.events("web"))
		require.Equal(t, []string{
			eventReceived, eventSetup, eventStarted, `Sibling Task Failed: Task's sibling "web" failed`,
			"Killing: Sent interrupt. Waiting 5s before force killing", "Terminated: Exit Code: 0", "Killed: Task successfully killed",
		}, f.events("db"))
		s := f.r.AllocState()
		require.Equal(t, structs.ClientFailed, s.ClientStatus)
		require.False(t, *s.DeploymentStatus.Healthy)
		f.finish()
	})
}

func TestARestartOfAllTasksEndsARestartDelay(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, oneTask)
		f.start()
		synctest.Wait()
		require.True(t, f.world.Exit("web", structs.ExitResult{ExitCode: 1}))
		synctest.Wait()
		require.Empty(t, f.world.Running())
		at := time.Now()
		require.NoError(t, f.r.RestartAll("by hand"))
		synctest.Wait()
		require.Equal(t, []string{"web"}, f.world.Running())
		require.Zero(t, time.Since(at))
		f.finish()
	})
}

func TestASignalToAllIsSentToThoseThatRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, twoTasks)
		f.task("db").Config = map[string]any{"signal_error": "not now"}
		f.start()
		synctest.Wait()
		signal := func(name string) error { return f.r.Signal(t.Context(), name, "HUP", "") }
		require.EqualError(t, signal(""), `failed to signal task "db": not now`)
		require.ErrorIs(t, signal("other"), alloc.ErrUnknownTask)
		require.Equal(t, 1, f.world.Count("signal web"))
		f.world.Exit("db", structs.ExitResult{ExitCode: 1})
		synctest.Wait()
		require.NoError(t, signal(""), "the other runs")
		require.ErrorIs(t, signal("db"), task.ErrNotRunning)
		f.world.Exit("web", structs.ExitResult{ExitCode: 1})
		synctest.Wait()
		require.ErrorIs(t, signal(""), task.ErrNotRunning)
		f.stop()
		synctest.Wait()
		require.ErrorIs(t, signal(""), alloc.ErrNotRunning)
		f.finish()
	})
}

func TestARestartThatIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, oneTask)
		f.start()
		synctest.Wait()
		require.ErrorIs(t, f.r.RestartTask("other", ""), alloc.ErrUnknownTask)
		for _, end := range []func(){f.stop, f.r.Shutdown, f.r.Destroy} {
			end()
			synctest.Wait()
			require.ErrorIs(t, f.r.RestartTask("web", ""), alloc.ErrNotRunning)
			require.ErrorIs(t, f.r.RestartAll(""), alloc.ErrNotRunning)
			require.ErrorIs(t, f.r.RestartRunning(""), alloc.ErrNotRunning)
		}
		require.Equal(t, 1, f.world.Started("web"))
		f.finish()
	})
}

func TestWhatIsUsedIsToldOfEachTaskThatRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, twoTasks)
		f.start()
		synctest.Wait()
		used := func(name string) (names []string, err error) {
			all, err := f.r.Usage(t.Context(), name)
			return slices.Sorted(maps.Keys(all)), err
		}
		names, err := used("")
		require.NoError(t, err)
		require.Equal(t, []string{"db", "web"}, names)
		names, err = used("web")
		require.NoError(t, err)
		require.Equal(t, []string{"web"}, names)
		_, err = used("other")
		require.ErrorIs(t, err, alloc.ErrUnknownTask)
		_, err = f.r.Exec(t.Context(), "other", nil)
		require.ErrorIs(t, err, alloc.ErrUnknownTask)
		require.ErrorIs(t, f.r.CanExec("other"), alloc.ErrUnknownTask)
		f.world.Exit("db", structs.ExitResult{ExitCode: 1})
		time.Sleep(2 * time.Second)
		names, err = used("")
		require.NoError(t, err)
		require.Equal(t, []string{"web"}, names)
		f.world.Fail("stats", func() error { return errors.New("no") })
		time.Sleep(2 * time.Second)
		_, err = used("")
		require.EqualError(t, err, `task "web": no`)
		f.world.Fail("stats", nil)
		f.finish()
	})
}

func TestAnUnknownSignalIsAnErrorAndSendsNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, oneTask)
		f.start()
		synctest.Wait()
		for _, unknown := range []string{"SIGNONE", "INTR", "", "999", "sig hup"} {
			for _, task := range []string{"web", ""} {
				err := f.r.Signal(context.Background(), task, unknown, "")
				require.Equal(t, abi.InvalidArgument, abi.CodeOf(err), unknown)
				require.NotContains(t, err.Error(), "failed to signal task")
			}
		}
		require.NoError(t, f.r.Signal(context.Background(), "", "HUP", ""))
		var signals []string
		for _, line := range f.world.Log() {
			if line == "signal web SIGHUP" || line == "signal web SIGINT" {
				signals = append(signals, line)
			}
		}
		require.Equal(t, []string{"signal web SIGHUP"}, signals)
		f.finish()
	})
}
