package task_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi"
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
		changed := 0
		f.cfg.Changed = func() { changed++ }
		f.restartAgent()
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, before, f.events())
		require.Equal(t, 1, changed, "what was read back is told")
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

// exitCounter is a hook that counts the ends of runs.
type exitCounter struct{ n int }

func (*exitCounter) Name() string                   { return "exits" }
func (c *exitCounter) Exited(context.Context) error { c.n++; return nil }

// An agent that dies between the start and the event that tells of it leaves that to the next.
func TestARunThatWasNotYetSeenToRunIsSeenOnce(t *testing.T) {
	t.Run("all events are kept", func(t *testing.T) { testNotYetSeen(t, received, setup) })
	t.Run("old events are not", func(t *testing.T) { testNotYetSeen(t, setup) })
}

func testNotYetSeen(t *testing.T, kept ...string) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, nil)
		f.start()
		synctest.Wait()
		f.r.Shutdown()
		<-f.r.WaitCh()
		local, shown, err := f.db.Task("a1", "web")
		require.NoError(t, err)
		shown = shown.Copy()
		shown.State, shown.Events = structs.TaskPending, shown.Events[2-len(kept):2]
		f.db = state.NewMem()
		require.NoError(t, f.db.PutTask("a1", "web", local, shown))
		f.build()
		require.NoError(t, f.r.Restore())
		go f.r.Run()
		synctest.Wait()
		require.Equal(t, append(kept, begun), f.events())
		require.Equal(t, 1, f.world.Started("web"))
		f.finish()
	})
}

// What is recorded of a run's end is not recorded again, however long its driver is missing
// with which what is left of it is to be destroyed.
func TestAnEndThatIsRecordedIsDecidedOnOnce(t *testing.T) {
	for name, test := range map[string]struct {
		code  int
		away  func(*fixture)
		known int // runs that were not destroyed
	}{
		"the agent stops while it waits": {7, func(f *fixture) {
			synctest.Wait()
			f.restartAgent()
		}, 1},
		"the wait has ended": {7, func(*fixture) { time.Sleep(45 * time.Second) }, 2},
		"a dead task is restarted": {0, func(f *fixture) {
			time.Sleep(2 * time.Minute)
			f.world.Missing(nil)
			require.NoError(f.t, f.r.Restart(task.RestartRequest{Force: true}))
		}, 2},
		"a dead task is restarted by an agent that stops": {0, func(f *fixture) {
			time.Sleep(2 * time.Minute)
			require.NoError(f.t, f.r.Restart(task.RestartRequest{Force: true}))
			synctest.Wait()
			f.restartAgent()
		}, 2},
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
				require.Equal(t, test.known, f.world.Known())
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

// Where it may run elsewhere meanwhile, it waits until the control plane was heard, or it is killed.
func TestATaskThatDidNotSurviveIsHeldUntilTheControlPlaneWasHeard(t *testing.T) {
	const waits = "Failed Restoring Task: Task did not survive the restart of the agent, and does not start again before servers were heard: task not found for given id"
	lost := func(f *fixture, heard chan struct{}) {
		f.start()
		synctest.Wait()
		f.r.Shutdown() // before: an agent that is there records how its task ends
		<-f.r.WaitCh()
		f.world.Lose()
		f.cfg.Heard = heard
		f.restartAgent()
		synctest.Wait()
		require.Equal(t, []string{received, setup, begun, waits}, f.events())
		require.Equal(t, structs.TaskPending, f.r.State().State)
	}
	bubble(t, func(t *testing.T) {
		f := newFixture(t, nil)
		heard := make(chan struct{})
		lost(f, heard)
		f.restartAgent()
		synctest.Wait()
		require.Equal(t, []string{received, setup, begun, waits}, f.events(), "the next agent waits as well")
		close(heard)
		synctest.Wait()
		require.Equal(t, []string{received, setup, begun, waits, begun}, f.events())
		require.Zero(t, f.r.State().Restarts)
		f.finish()
	})
	bubble(t, func(t *testing.T) {
		f := newFixture(t, nil)
		lost(f, make(chan struct{}))
		f.r.Kill(nil)
		<-f.r.WaitCh()
		require.Equal(t, []string{received, setup, begun, waits, killing, killed}, f.events())
		require.Equal(t, 1, f.world.Started("web"))
		f.finish()
	})
}

// One that had no run when the machine went down may run elsewhere as well. An agent that finds it in the
// same boot as the one before has nothing to wait for, but what that one waited for.
func TestATaskThatWasToStartWhenTheMachineWentDownIsHeldToo(t *testing.T) {
	const waits = "Failed Restoring Task: Task was to start when the machine went down, and does not before servers were heard"
	delayed := func(t *testing.T) *fixture {
		f := newFixture(t, map[string]any{"run_for": "1s", "exit_code": 1})
		f.task.RestartPolicy.Attempts, f.task.RestartPolicy.Delay = ptr(5), ptr(time.Hour)
		f.start()
		time.Sleep(time.Minute)
		require.Contains(t, f.events()[len(f.events())-1], "Restarting")
		f.cfg.Heard = make(chan struct{})
		return f
	}
	bubble(t, func(t *testing.T) {
		f := delayed(t)
		heard := make(chan struct{})
		f.cfg.Heard = heard
		f.cfg.Left = &left{gone: "the restart of the machine"}
		f.restartAgent()
		time.Sleep(2 * time.Hour)
		require.Equal(t, waits, f.events()[len(f.events())-1])
		f.cfg.Left = &left{}
		f.restartAgent()
		time.Sleep(2 * time.Hour)
		require.Equal(t, 1, f.world.Started("web"), "the next agent waits as well")
		close(heard)
		synctest.Wait()
		require.Equal(t, 2, f.world.Started("web"))
		f.finish()
	})
	bubble(t, func(t *testing.T) {
		f := delayed(t)
		f.cfg.Left = &left{gone: "the restart of the machine"}
		f.restartAgent()
		synctest.Wait()
		f.r.Kill(nil)
		<-f.r.WaitCh()
		require.Equal(t, []string{waits, killing, killed}, f.events()[len(f.events())-3:])
		f.finish()
	})
	bubble(t, func(t *testing.T) {
		f := delayed(t)
		f.cfg.Left = &left{}
		f.restartAgent()
		synctest.Wait()
		require.Equal(t, 2, f.world.Started("web"), "the machine was not restarted")
		f.finish()
	})
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
		signalled := make(chan error, 1)
		go func() { signalled <- f.r.Signal(t.Context(), "HUP", "") }()
		time.Sleep(45 * time.Second) // past one wait, within the policy
		require.Empty(t, signalled)
		f.world.Missing(nil)
		time.Sleep(time.Minute)
		synctest.Wait()
		require.NoError(t, <-signalled, "it waits for a task that runs as far as is known")
		require.Equal(t, structs.TaskRunning, f.r.State().State)
		require.Equal(t, 1, f.world.Started("web"), "it was found, not started again")
		f.finish()
	})
}

func TestADriverThatFaultsWhileRecoveringIsAskedAgain(t *testing.T) {
	for faults, events := range map[int][]string{
		3: {received, setup, begun},
		5: {received, setup, begun},
		6: {received, setup, begun, "Failed Restoring Task: Task did not survive the restart of the agent, and starts again: trap: unreachable", begun},
	} {
		bubble(t, func(t *testing.T) {
			f := newFixture(t, nil)
			f.start()
			synctest.Wait()
			left := faults
			f.world.Fail("recover", func() error {
				if left--; left >= 0 {
					return errors.New("trap: unreachable")
				}
				return nil
			})
			f.restartAgent()
			time.Sleep(time.Minute)
			synctest.Wait()
			require.Equal(t, events, f.events())
			require.Equal(t, 1, f.world.Known())
			f.finish()
		})
	}
}

func TestAKillThatTheAgentDidNotSurviveGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, map[string]any{"kill_after": "3s"})
		f.start()
		synctest.Wait()
		f.r.Kill(nil)
		time.Sleep(time.Second)
		f.r.Shutdown()
		<-f.r.WaitCh()
		r := f.build()
		require.NoError(t, r.Restore())
		require.ErrorIs(t, r.Restart(task.RestartRequest{Force: true}), task.ErrNotRunning)
		r.Run()
		require.Equal(t, []string{received, setup, begun, killing, exit0, killed}, f.events())
		f.finish()
	})
}

// What the control plane knows of a task is what there is before it is looked for.
func TestATaskThatRanIsShownToRunUnlessItsRunIsMissing(t *testing.T) {
	for want, found := range map[structs.TaskPhase]task.Left{structs.TaskRunning: &left{run: "a1/web/1"}, structs.TaskPending: &left{}} {
		f := newFixture(t, nil)
		f.alloc.TaskStates = map[string]*structs.TaskState{"web": {State: structs.TaskRunning}}
		require.Equal(t, structs.TaskRunning, f.build().State().State, "it is not known what was left")
		f.cfg.Left = found
		require.Equal(t, want, f.build().State().State)
	}
}

// Finish ends what was left by a runner that was shut down, or by an agent before it.
func TestARunIsFinishedAfterItsRunner(t *testing.T) {
	for name, shutDown := range map[string]bool{"that was shut down": true, "that never ran": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, map[string]any{"destroy_for": "30s"})
				f.start()
				synctest.Wait()
				f.r.Shutdown()
				<-f.r.WaitCh()
				if !shutDown {
					require.NoError(t, f.build().Restore())
				}
				f.r.Finish()
				f.r.Flush()
				f.r.Settle()
				require.Zero(t, f.world.Known())
				require.Contains(t, f.events(), killing)
				f.finish()
			})
		})
	}
}

func TestATaskWhoseAllocationCannotBeSetUpFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, nil)
		r := f.build()
		r.FailSetup("no room")
		require.ErrorIs(t, r.Restart(task.RestartRequest{Force: true}), task.ErrNotRunning)
		r.Run()
		failed := []string{received, "Setup Failure: no room"}
		require.Equal(t, failed, f.events())
		require.True(t, r.State().Failed)
		r.FailSetup("again")
		r.Flush()
		require.Equal(t, failed, f.events())
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

// A start that an agent was killed in may have run to its end: as long as it is not known that it is not
// there, nothing of it is destroyed, and it is not started again.
func TestAStartThatWasInterruptedIsNotDestroyedWhileItMayBeThere(t *testing.T) {
	for name, fails := range map[string]func(f *fixture) (meanwhile func()){
		"the driver cannot say now": func(f *fixture) func() {
			f.world.Fail("recover", func() error { return abi.NewRecoverableError(abi.Unavailable, "the engine restarts") })
			return func() { time.Sleep(time.Second) }
		},
		"the driver faults": func(f *fixture) func() {
			left := 2
			f.world.Fail("recover", func() error {
				if left--; left >= 0 {
					return errors.New("trap: unreachable")
				}
				return nil
			})
			return func() { time.Sleep(time.Minute) }
		},
		"the agent stops meanwhile": func(f *fixture) func() {
			stopped := make(chan struct{})
			f.world.Fail("recover", func() error { <-stopped; return context.Canceled })
			return func() {
				synctest.Wait()
				f.r.Shutdown()
				close(stopped)
				<-f.r.WaitCh()
				f.world.Fail("recover", nil)
				f.build()
				require.NoError(f.t, f.r.Restore())
				go f.r.Run()
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFixture(t, nil)
				f.start()
				synctest.Wait()
				f.r.Shutdown()
				<-f.r.WaitCh()
				f.world.Exit("web", structs.ExitResult{ExitCode: 7})
				local, shown, err := f.db.Task("a1", "web")
				require.NoError(t, err)
				shown = shown.Copy()
				local.Handle, shown.State, shown.Events = nil, structs.TaskPending, shown.Events[:2]
				require.NoError(t, f.db.PutTask("a1", "web", local, shown))
				f.build()
				require.NoError(t, f.r.Restore())
				meanwhile := fails(f)
				go f.r.Run()
				meanwhile()
				f.world.Fail("recover", nil)
				time.Sleep(time.Minute)
				synctest.Wait()
				if !onPlugin(t) { // that one knows its tasks by their handles
					assert.Contains(t, f.events(), "Terminated: Exit Code: 7")
				}
				f.finish()
			})
		})
	}
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

// forgetful is a store whose key is gone.
type forgetful struct{ state.DB }

func (f forgetful) Task(allocID, name string) (*state.TaskLocal, *structs.TaskState, error) {
	local, s, err := f.DB.Task(allocID, name)
	if err != nil || local == nil {
		return local, s, err
	}
	lost := *local
	lost.Config, lost.Lost = nil, true
	lost.Hooks = map[string]*state.HookState{}
	for name, h := range local.Hooks {
		lost.Hooks[name] = &state.HookState{Done: h.Done, Mounts: h.Mounts, Devices: h.Devices}
	}
	return &lost, s, nil
}

func TestATaskGoesOnWhenWhatItWasToldCannotBeReadAnyMore(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, map[string]any{"run_for": "1h"}).service()
		f.task.Env = map[string]string{"COLOR": "blue"}
		f.task.Templates = []*nomad.Template{{EmbeddedTmpl: ptr("PASSWORD=swordfish"), DestPath: ptr("local/env"), Envvars: ptr(true)}}
		f.start()
		synctest.Wait()
		before, stored := f.events(), f.db
		was, _, err := stored.Task("a1", "web")
		require.NoError(t, err)
		require.Contains(t, string(was.Config), "swordfish")

		f.db = forgetful{stored}
		f.restartAgent()
		synctest.Wait()
		f.db = stored
		require.Equal(t, before, f.events())
		require.Equal(t, 1, f.world.Started("web"))
		f.r.Shutdown()
		<-f.r.WaitCh()
		now, _, err := stored.Task("a1", "web")
		require.NoError(t, err)
		require.Equal(t, was.TaskID, now.TaskID)
		require.Contains(t, string(now.Config), "blue", "what the job says is known")

		f.restartAgent()
		synctest.Wait()
		require.NoError(t, f.r.Restart(task.RestartRequest{Reason: "wanted"}))
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, 2, f.world.Started("web"))
		now, _, err = stored.Task("a1", "web")
		require.NoError(t, err)
		require.Contains(t, string(now.Config), "swordfish", "it has started again")
		f.finish()
	})
}

// What such a task ran in is gone with the machine: it starts again as any other.
func TestATaskWhoseKeyAndRunAreGoneStartsAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, map[string]any{"run_for": "1h"}).service()
		f.start()
		synctest.Wait()
		f.r.Shutdown()
		<-f.r.WaitCh()
		f.world.Lose()
		f.db = forgetful{f.db}
		f.build()
		require.NoError(t, f.r.Restore())
		go f.r.Run()
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, structs.TaskRunning, f.r.State().State)
		require.Equal(t, 2, f.world.Started("web"))
		f.finish()
	})
}
