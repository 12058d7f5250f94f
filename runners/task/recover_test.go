package task_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/runners/task"
	"github.com/wasmnode/wasmnode/state"
	"github.com/wasmnode/wasmnode/structs"
)

func TestARunningTaskIsRecoveredWithoutAnEvent(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, nil)
		f.start()
		synctest.Wait()
		before := f.events()
		f.restartAgent()
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, before, f.events())
		require.Equal(t, 1, f.world.Started("web"))
		f.finish()
	})
}

func TestATaskThatEndedWhileTheAgentWasAwayReportsItsRealExit(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, nil)
		f.start()
		synctest.Wait()
		f.r.Shutdown()
		<-f.r.WaitCh()
		f.world.Exit("web", structs.ExitResult{ExitCode: 7})
		r := f.build()
		require.NoError(t, r.Restore())
		go r.Run()
		synctest.Wait()
		require.Contains(t, f.events(), "Terminated: Exit Code: 7")
		f.finish()
	})
}

// Whoever ran the task forgets how it ended when it is destroyed: an agent that dies
// right then has written it down.
func TestAnExitIsDurableBeforeTheTaskIsDestroyed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, nil)
		died := state.NewMem() // as the agent leaves it that dies in the destroy
		f.world.Fail("destroy", func() error {
			local, shown, err := f.db.Task("a1", "web")
			require.NoError(t, err)
			require.NoError(t, died.PutTaskLocal("a1", "web", local))
			require.NoError(t, died.PutTaskState("a1", "web", shown))
			f.world.Fail("destroy", nil)
			return nil
		})
		f.start()
		synctest.Wait()
		require.True(t, f.world.Exit("web", structs.ExitResult{ExitCode: 7, Signal: 9, OOMKilled: true, Err: "why"}))
		synctest.Wait()
		f.r.Shutdown()
		<-f.r.WaitCh()
		before := f.events()

		f.db = died
		r := f.build()
		require.NoError(t, r.Restore())
		go r.Run()
		synctest.Wait()
		require.Equal(t, before, f.events())
		require.Contains(t, before[3], "Terminated: Exit Code: 7, Signal: 9")
		time.Sleep(11 * time.Second)
		synctest.Wait()
		require.Equal(t, begun, f.events()[5], "it is restarted once")
		require.Equal(t, 2, f.world.Started("web"))
		f.finish()
	})
}

// exitCounter is a hook that counts the ends of runs.
type exitCounter struct{ n int }

func (*exitCounter) Name() string                   { return "exits" }
func (c *exitCounter) Exited(context.Context) error { c.n++; return nil }

// An agent that dies between the start and the event that tells of it leaves that to the next.
func TestARunThatWasNotYetSeenToRunIsSeenOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, nil)
		f.start()
		synctest.Wait()
		f.r.Shutdown()
		<-f.r.WaitCh()
		local, shown, err := f.db.Task("a1", "web")
		require.NoError(t, err)
		shown = shown.Copy()
		shown.State, shown.Events = structs.TaskPending, shown.Events[:2]
		f.db = state.NewMem()
		require.NoError(t, f.db.PutTask("a1", "web", local, shown))
		f.build()
		require.NoError(t, f.r.Restore())
		go f.r.Run()
		synctest.Wait()
		require.Equal(t, []string{received, setup, begun}, f.events())
		require.Equal(t, 1, f.world.Started("web"))
		f.finish()
	})
}

// What is recorded of a run's end is not recorded again, however long its driver is missing
// with which what is left of it is to be destroyed.
func TestAnEndThatIsRecordedIsDecidedOnOnce(t *testing.T) {
	for name, test := range map[string]struct {
		code int
		away func(*fixture)
	}{
		"the agent stops while it waits": {7, func(f *fixture) {
			synctest.Wait()
			f.restartAgent()
		}},
		"the wait has ended": {7, func(*fixture) { time.Sleep(45 * time.Second) }},
		"a dead task is restarted": {0, func(f *fixture) {
			time.Sleep(2 * time.Minute)
			f.world.Missing(nil)
			require.NoError(f.t, f.r.Restart(task.RestartRequest{Force: true}))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFixture(t, nil)
				f.task.RestartPolicy.Attempts, f.task.RestartPolicy.Delay = ptr(5), ptr(time.Second)
				exits := &exitCounter{}
				f.cfg.Hooks = []task.Hook{exits}
				died := state.NewMem() // as the agent leaves it that dies before the destroy
				f.world.Fail("destroy", func() error {
					local, shown, err := f.db.Task("a1", "web")
					require.NoError(t, err)
					require.NoError(t, died.PutTask("a1", "web", local, shown))
					f.world.Fail("destroy", nil)
					return errors.New("the agent died")
				})
				f.start()
				synctest.Wait()
				require.True(t, f.world.Exit("web", structs.ExitResult{ExitCode: test.code}))
				synctest.Wait()
				f.r.Shutdown()
				<-f.r.WaitCh()

				f.db = died
				f.world.Missing(errUnavailable)
				r := f.build()
				require.NoError(t, r.Restore())
				go r.Run()
				test.away(f)
				f.world.Missing(nil)
				time.Sleep(time.Minute)
				synctest.Wait()
				require.Equal(t, structs.TaskRunning, f.r.State().State, "%v", f.events())
				require.Equal(t, 2, f.world.Started("web"))
				require.Equal(t, 2, strings.Count(strings.Join(f.events(), "\n"), begun), "%v", f.events())
				require.Equal(t, 1, strings.Count(strings.Join(f.events(), "\n"), "Terminated"), "%v", f.events())
				require.Equal(t, 2, exits.n, "by the agent that died, and by the one that decided")
				f.finish()
			})
		})
	}
}

// A reboot is not a failure of the task: a policy that allows no restarts has nothing to say.
func TestATaskThatDidNotSurviveStartsAgainAtOnceWhateverItsPolicy(t *testing.T) {
	for with, left := range map[string]task.Left{
		"the restart of the agent":   nil,
		"the restart of the machine": &left{gone: "the restart of the machine"},
	} {
		bubble(t, func(t *testing.T) {
			f := newFixture(t, nil)
			f.task.RestartPolicy.Attempts = ptr(0)
			f.start()
			synctest.Wait()
			f.r.Shutdown()
			<-f.r.WaitCh()
			f.world.Lose()
			f.cfg.Left = left
			r := f.build()
			require.NoError(t, r.Restore())
			if left != nil {
				require.Equal(t, structs.TaskPending, r.State().State, "before it was looked for")
			}
			begin := time.Now()
			go r.Run()
			synctest.Wait()
			require.Equal(t, []string{
				received, setup, begun,
				"Failed Restoring Task: Task did not survive " + with + ", and starts again: task not found for given id", begun,
			}, f.events())
			require.Zero(t, time.Since(begin))
			require.Zero(t, r.State().Restarts)
			require.Equal(t, structs.TaskRunning, r.State().State)
			local, _, err := f.db.Task("a1", "web")
			require.NoError(t, err)
			require.Zero(t, local.Restarts)
			f.finish()
		})
	}
}

// Not every run is lost with the machine: what its driver still knows goes on.
func TestATaskThatIsThoughtGoneAndIsThereGoesOn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, nil)
		f.start()
		synctest.Wait()
		before := f.r.State()
		f.cfg.Left = &left{gone: "the restart of the machine"}
		time.Sleep(time.Minute)
		f.restartAgent()
		synctest.Wait()
		require.Equal(t, before, f.r.State(), "nothing happened to it")
		require.Equal(t, 1, f.world.Started("web"))
		f.finish()
	})
}

// A task may be what takes down all that runs beside it: that must have an end.
func TestATaskThatKeepsBeingLostIsLeftToItsPolicy(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, nil)
		f.task.RestartPolicy.Attempts = ptr(0)
		lost := 0
		f.world.Fail("wait", func() error {
			lost++
			return abi.ErrTaskNotFound
		})
		f.start()
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, 4, lost)
		require.Equal(t, structs.TaskDead, f.r.State().State)
		require.Contains(t, f.events(), "Failed Restoring Task: Task did not survive the end of what ran it, and starts again: task not found for given id")
		require.Equal(t, "Not Restarting: Policy allows no restarts", f.events()[len(f.events())-1])
		f.finish()
	})
}

func TestAFinishedTaskIsNotStartedByTheNextAgent(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, map[string]any{"run_for": "1s"})
		f.start()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		f.restartAgent()
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Equal(t, 1, f.world.Started("web"))
		require.ErrorIs(t, f.r.Restart(task.RestartRequest{}), task.ErrNotRunning)
		require.NoError(t, f.r.Restart(task.RestartRequest{Force: true}))
		synctest.Wait()
		require.Equal(t, 2, f.world.Started("web"))
		require.Equal(t, []string{"Restarting: Task restarting in 0s", begun}, f.events()[len(f.events())-2:])
		f.finish()
	})
}

// That an agent stops is nothing that the restart policy is asked about.
func TestATaskThatWaitsToStartIsLeftAsItIs(t *testing.T) {
	for name, wait := range map[string]func(*fixture){
		"for its turn":   func(f *fixture) { f.cfg.Gate = func() <-chan struct{} { return nil } },
		"for its driver": func(f *fixture) { f.world.Missing(errUnavailable) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFixture(t, nil)
				wait(f)
				f.start()
				synctest.Wait()
				before := f.events()
				f.r.Shutdown()
				<-f.r.WaitCh()
				require.Equal(t, before, f.events())
				require.Equal(t, structs.TaskPending, f.r.State().State)
			})
		})
	}
}

func TestATaskIsWaitedForWhenItsDriverIsMissingAfterARestart(t *testing.T) {
	for _, missing := range []error{
		abi.NewRecoverableError(abi.Unavailable, "loading"),
		abi.NewError(abi.NotFound, "no plugin provides it"),
	} {
		testDriverMissingAfterRestart(t, missing)
	}
}

func testDriverMissingAfterRestart(t *testing.T, missing error) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, nil)
		f.task.RestartPolicy.Attempts = ptr(5)
		f.start()
		synctest.Wait()
		f.world.Missing(missing)
		f.restartAgent()
		time.Sleep(45 * time.Second) // past one wait, within the policy
		f.world.Missing(nil)
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, structs.TaskRunning, f.r.State().State)
		require.Equal(t, 1, f.world.Started("web"), "it was found, not started again")
		f.finish()
	})
}

func TestADriverThatFaultsWhileRecoveringIsAskedAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, nil)
		f.start()
		synctest.Wait()
		faults := 3
		f.world.Fail("recover", func() error {
			if faults--; faults >= 0 {
				return errors.New("trap: unreachable")
			}
			return nil
		})
		f.restartAgent()
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, 1, f.world.Started("web"))
		require.Equal(t, []string{received, setup, begun}, f.events())
		f.finish()
	})
}

func TestAStartThatTheAgentDidNotSurviveIsRepeated(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, nil)
		cfg := &wasmnodev1.TaskConfig{Id: "a1/web/0000", Name: "web", AllocId: "a1"}
		data, err := cfg.MarshalVT()
		require.NoError(t, err)
		require.NoError(t, f.db.PutTaskLocal("a1", "web", &state.TaskLocal{TaskID: cfg.GetId(), Config: data, Driver: "mock"}))
		r := f.build()
		require.NoError(t, r.Restore())
		go r.Run()
		synctest.Wait()
		require.Equal(t, structs.TaskRunning, r.State().State)
		require.Equal(t, 1, f.world.Started("web"))
		f.finish()
	})
}

func TestANewVersionOfTheDriverTakesTheTask(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, nil)
		f.start()
		synctest.Wait()
		f.world.Upgrade()
		synctest.Wait()
		require.Equal(t, 1, f.world.Count("recover web with version 1"))
		require.Equal(t, 1, f.world.Holds(), "the old version was given back")
		require.Equal(t, []string{received, setup, begun}, f.events())
		local, _, err := f.db.Task("a1", "web")
		require.NoError(t, err)
		require.Equal(t, "sha256:1", local.PluginDigest)
		f.finish()
	})
}

func TestATaskThatTheNewVersionDoesNotTakeStays(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, nil)
		f.start()
		synctest.Wait()
		f.world.Fail("recover", func() error { return errors.New("too old") })
		f.world.Upgrade()
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Equal(t, []string{"web"}, f.world.Running())
		require.Equal(t, 1, f.world.Holds())
		require.Equal(t, []string{received, setup, begun}, f.events())
		f.r.Kill(nil)
		<-f.r.WaitCh()
		require.Equal(t, killed, f.events()[len(f.events())-1])
		f.finish()
	})
}

func TestADriverThatFaultsWhileWaitingRecoversTheTask(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, nil)
		faults := 2
		f.world.Fail("wait", func() error {
			if faults--; faults >= 0 {
				return errors.New("trap: unreachable")
			}
			return nil
		})
		f.start()
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, []string{received, setup, begun}, f.events())
		require.Equal(t, 2, f.world.Count("recover web"))
		f.finish()
	})
}

func TestADriverThatAlwaysFaultsWhileWaitingLosesTheTask(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, nil)
		f.task.RestartPolicy.Attempts = ptr(0)
		f.world.Fail("wait", func() error { return errors.New("trap: unreachable") })
		f.start()
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		require.Equal(t, []string{
			received, setup, begun,
			`Terminated: Exit Code: 0, Exit Message: "the driver lost the task: trap: unreachable"`,
			"Not Restarting: Policy allows no restarts",
		}, f.events())
		require.Zero(t, f.world.Known(), "what it lost was destroyed")
		f.finish()
	})
}

func TestSignals(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, nil)
		f.start()
		synctest.Wait()
		ctx := context.Background()
		require.NoError(t, f.r.Signal(ctx, "HUP", "because"))
		require.Contains(t, f.world.Log(), "signal web SIGHUP")
		synctest.Wait()
		require.Contains(t, f.events(), "Signaling: Task being sent signal SIGHUP: because")
		if !onPlugin(t) { // whose handles do not change by a signal
			local, _, err := f.db.Task("a1", "web")
			require.NoError(t, err)
			require.Contains(t, string(local.Handle), "SIGHUP", "the driver's new handle is durable")
		}
		err := f.r.Signal(ctx, "SIGINTT", "")
		require.Equal(t, abi.InvalidArgument, abi.CodeOf(err))
		f.finish()
		require.ErrorIs(t, f.r.Signal(ctx, "SIGHUP", ""), task.ErrNotRunning)
	})
}

func TestRestartsOnRequest(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, nil)
		f.start()
		synctest.Wait()
		require.NoError(t, f.r.Restart(task.RestartRequest{Reason: "by hand"}))
		synctest.Wait()
		require.Equal(t, []string{
			received, setup, begun, "Restart Signaled: by hand", exit0, "Restarting: Task restarting in 0s", begun,
		}, f.events())
		// One that counts as a failure asks the policy, which allows one, and counted none yet.
		require.NoError(t, f.r.Restart(task.RestartRequest{Reason: "unhealthy", Failure: true}))
		synctest.Wait()
		require.Equal(t, "Restarting: Task restarting in 10s", f.events()[len(f.events())-1])
		time.Sleep(11 * time.Second)
		synctest.Wait()
		require.NoError(t, f.r.Restart(task.RestartRequest{Reason: "unhealthy", Failure: true}))
		synctest.Wait()
		require.Equal(t, `Not Restarting: Exceeded allowed attempts 1 in interval 1m0s and mode is "fail"`, f.events()[len(f.events())-1])
		f.finish()
		require.ErrorIs(t, f.r.Restart(task.RestartRequest{Force: true}), task.ErrNotRunning)
	})
}

func TestARestartOrSignalBeforeTheStartIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, nil)
		f.cfg.Gate = func() <-chan struct{} { return nil }
		f.start()
		synctest.Wait()
		require.ErrorIs(t, f.r.Restart(task.RestartRequest{}), task.ErrNotRunning)
		require.ErrorIs(t, f.r.Signal(t.Context(), "SIGHUP", ""), task.ErrNotRunning)
		require.NoError(t, f.r.Restart(task.RestartRequest{Force: true}), "it starts anyway")
		require.Equal(t, []string{received}, f.events())
		f.finish()
	})
}

func TestStatsAreMeasuredWhenTheyAreRead(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, nil)
		f.start()
		synctest.Wait()
		ctx := context.Background()
		first, err := f.r.Stats(ctx)
		require.NoError(t, err)
		require.Nil(t, first.Before)
		again, err := f.r.Stats(ctx)
		require.NoError(t, err)
		require.Equal(t, first, again, "within a second they are the same")
		time.Sleep(2 * time.Second)
		later, err := f.r.Stats(ctx)
		require.NoError(t, err)
		require.Equal(t, first.Now, later.Before)
		f.finish()
		_, err = f.r.Stats(ctx)
		require.ErrorIs(t, err, task.ErrNotRunning)
	})
}

func TestADriverWithoutStatsIsAskedOnceForEachRead(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, nil)
		asked := 0
		f.world.Fail("stats", func() error {
			asked++
			return abi.NewError(abi.Unimplemented, "no stats")
		})
		f.start()
		time.Sleep(time.Hour)
		require.Zero(t, asked, "nobody looked")
		for n := range 3 {
			_, err := f.r.Stats(t.Context())
			require.Equal(t, abi.Unimplemented, abi.CodeOf(err))
			require.Equal(t, n+1, asked)
		}
		require.Equal(t, []string{received, setup, begun}, f.events(), "the task does not suffer")
		f.finish()
	})
}

func TestAnUpdateWithoutTheTasksResourcesIsNotTaken(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, nil)
		f.start()
		synctest.Wait()
		next := f.alloc.Copy()
		next.Resources.Tasks = nil
		f.r.Update(next)
		synctest.Wait()
		// What it runs with is used at its next start.
		require.NoError(t, f.r.Restart(task.RestartRequest{}))
		synctest.Wait()
		require.Equal(t, 2, f.world.Started("web"))
		require.Equal(t, begun, f.events()[len(f.events())-1])
		f.finish()
	})
}

// A driver that cannot say now whether the task runs may be asked later; the task is not
// destroyed for that.
func TestATaskWhoseRecoveryMaySucceedLaterIsNotDestroyed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, nil)
		f.start()
		synctest.Wait()
		f.world.Fail("recover", func() error { return abi.NewRecoverableError(abi.Unavailable, "the engine restarts") })
		f.restartAgent()
		failed := func() bool { return slices.Contains(f.events(), "Driver Failure: the engine restarts") }
		for synctest.Wait(); !failed(); synctest.Wait() {
			time.Sleep(100 * time.Millisecond)
		}
		require.Equal(t, []string{"web"}, f.world.Running())
		require.Zero(t, f.world.Count("destroy"))
		f.world.Fail("recover", nil)
		f.finish()
	})
}

func TestAnUpdateWithoutTheTaskKillsIt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, nil)
		f.start()
		synctest.Wait()
		next := f.alloc.Copy()
		next.TaskGroup = "none"
		f.r.Update(next)
		<-f.r.WaitCh()
		require.Equal(t, []string{received, setup, begun, "Killing: update missing task", exit0, killed}, f.events())
		require.True(t, f.r.State().Failed)
		f.finish()
	})
}
