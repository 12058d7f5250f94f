package task_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/runners/task"
	"github.com/wasmnode/wasmnode/state"
	"github.com/wasmnode/wasmnode/structs"
)

// The tests of this file are named for the defects of the reference, by its number in our
// list, that this package must not have. docs/conformance.md has the whole list.

// deviceHook gives the task a device, once.
type deviceHook struct{ calls int }

func (*deviceHook) Name() string { return task.DevicesHook }
func (h *deviceHook) Prestart(context.Context, *task.PrestartRequest) (*task.PrestartResult, error) {
	h.calls++
	return &task.PrestartResult{
		Done: true, Env: map[string]string{"GPU": "0"},
		Mounts:  []structs.Mount{{TaskPath: "/m", HostPath: "/h", ReadOnly: true}},
		Devices: []structs.DeviceNode{{TaskPath: "/dev/g", HostPath: "/dev/gpu0", Permissions: "rw"}},
	}, nil
}

func TestD1_DevicesAndMountsSurviveTheAgent(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, nil)
		hook := &deviceHook{}
		f.cfg.Hooks = []task.Hook{hook}
		f.start()
		synctest.Wait()
		f.restartAgent()
		synctest.Wait()
		require.NoError(t, f.r.Restart(task.RestartRequest{}))
		synctest.Wait()
		require.Equal(t, 2, f.world.Started("web"))
		require.Equal(t, 1, hook.calls, "what is done is not done again")
		local, _, err := f.db.Task("a1", "web")
		require.NoError(t, err)
		cfg := &wasmnodev1.TaskConfig{}
		require.NoError(t, cfg.UnmarshalVT(local.Config))
		require.Len(t, cfg.GetMounts(), 1)
		require.Len(t, cfg.GetDevices(), 1)
		require.Equal(t, "0", cfg.GetEnv()["GPU"])
		require.Equal(t, map[string]string{"GPU": "0"}, cfg.GetDeviceEnv())
		f.finish()
	})
}

func TestD4_ExitDuringShutdownDelayIsAKill(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, nil).service()
		f.task.ShutdownDelay = 20 * time.Second
		f.task.RestartPolicy.Attempts = ptr(0)
		f.start()
		synctest.Wait()
		f.r.Kill(nil)
		time.Sleep(5 * time.Second)
		require.True(t, f.world.Exit("web", structs.ExitResult{}))
		<-f.r.WaitCh()
		require.Equal(t, []string{
			received, setup, begun, killing,
			"Waiting for shutdown delay: Waiting for shutdown_delay of 20s before killing the task.", exit0, killed,
		}, f.events())
		require.False(t, f.r.State().Failed)
		f.finish()
	})
}

func TestD10_KillBetweenRestartsEmitsKilled(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, map[string]any{"run_for": "1s", "exit_code": 3, "exit_signal": 9, "exit_err": "bye"})
		f.start()
		time.Sleep(5 * time.Second)
		synctest.Wait()
		require.Equal(t, structs.TaskPending, f.r.State().State)
		f.r.Kill(nil)
		<-f.r.WaitCh()
		require.Equal(t, []string{
			received, setup, begun, `Terminated: Exit Code: 3, Signal: 9, Exit Message: "bye"`,
			"Restarting: Task restarting in 10s", killing, killed,
		}, f.events())
		require.Equal(t, structs.TaskDead, f.r.State().State)
		require.False(t, f.r.State().Failed)
		f.finish()
	})
}

// aKill is how long a kill may take: the kill timeout, and five seconds.
const aKill = 5*time.Second + 5*time.Second

func TestADestroyThatFailsIsTriedAgainAndSaid(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, map[string]any{"stop_error": "no"})
		fails := 1
		f.world.Fail("destroy", func() error {
			if fails--; fails >= 0 {
				return errors.New("busy")
			}
			return nil
		})
		f.start()
		synctest.Wait()
		f.r.Kill(nil)
		<-f.r.WaitCh()
		events := f.events()
		require.Contains(t, events[len(events)-1], "that failed too: destroy task: busy. Resources may have been leaked")
		require.Zero(t, f.world.Known())
		f.leave()
	})
}

func TestD13_ADriverThatNeverStopsATaskCostsAtMostTimeoutAndGrace(t *testing.T) {
	forced := "Killed: task did not end within 8s of being stopped and was destroyed by force"
	leaked := forced + "; the driver does not return from destroying it. Resources may have been leaked"
	for name, c := range map[string]struct {
		config map[string]any
		want   string
	}{
		"stop never returns":              {map[string]any{"stop_hangs": true}, forced},
		"stop always fails":               {map[string]any{"stop_error": "no"}, forced},
		"stop returns and does not":       {map[string]any{"stop_ignored": true}, forced},
		"nothing but destroy returns":     {map[string]any{"stop_hangs": true, "wait_hangs": true}, forced},
		"stop and destroy never return":   {map[string]any{"stop_hangs": true, "destroy_hangs": true}, leaked},
		"nothing returns":                 {map[string]any{"stop_hangs": true, "wait_hangs": true, "destroy_hangs": true}, leaked},
		"stop fails, destroy never comes": {map[string]any{"stop_error": "no", "destroy_hangs": true}, leaked},
		"stop ignored, destroy does hang": {map[string]any{"stop_ignored": true, "destroy_hangs": true}, leaked},
		"stopped late, destroy does hang": {map[string]any{"kill_after": "4s", "destroy_hangs": true}, leaked[len(forced):]},
		"ended by itself, destroy hangs":  {map[string]any{"run_for": "7s", "stop_hangs": true, "destroy_hangs": true}, leaked[len(forced):]},
		"still starting, and stop hangs":  {map[string]any{"start_for": "1h", "stop_hangs": true}, "Killed: Task successfully killed"},
		"starts for ever, destroy hangs":  {map[string]any{"start_for": "1h", "start_hangs": true, "destroy_hangs": true}, leaked[len(forced):]},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFixture(t, c.config)
				f.start()
				synctest.Wait()
				at := time.Now()
				f.r.Kill(nil)
				<-f.r.WaitCh()
				require.LessOrEqual(t, time.Since(at), aKill)
				events := f.events()
				require.True(t, strings.HasSuffix(events[len(events)-1], strings.TrimPrefix(c.want, "; ")), "%v", events)
				f.leave()
			})
		})
	}
}

func TestD13_AKillDoesNotWaitForAnEarlierDestroyThatHangs(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, map[string]any{"run_for": "1s", "destroy_hangs": true})
		f.start()
		time.Sleep(10 * time.Second) // it has ended, and its driver destroys it
		at := time.Now()
		f.r.Kill(nil)
		<-f.r.WaitCh()
		require.LessOrEqual(t, time.Since(at), aKill)
		require.Contains(t, f.events()[len(f.events())-1], "Resources may have been leaked")
		f.leave()
	})
}

func TestD13_ADestroyThatTakesLongerThanAKillIsDoneAndWaitedFor(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, map[string]any{"destroy_for": "30s"})
		f.start()
		synctest.Wait()
		at := time.Now()
		f.r.Kill(nil)
		<-f.r.WaitCh()
		require.LessOrEqual(t, time.Since(at), aKill)
		require.Equal(t, 1, f.world.Holds(), "the driver is held until it has destroyed")
		f.r.Settle()
		require.Equal(t, 30*time.Second, time.Since(at))
		require.Zero(t, f.world.Known())
		f.finish()
	})
}

func TestD13_AnAgentThatStopsEndsADestroyThatAKillLeft(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, map[string]any{"destroy_hangs": true})
		f.start()
		synctest.Wait()
		f.r.Kill(nil)
		<-f.r.WaitCh()
		at := time.Now()
		f.r.Shutdown()
		f.r.Settle()
		require.LessOrEqual(t, time.Since(at), time.Second)
		f.leave()
	})
}

// The agent may stop while a driver still destroys, and the allocation be destroyed then: the disposal that
// goes on is waited for, and the driver that was asked for another is given back.
func TestADisposalThatGoesOnIsNotBegunTwice(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, nil)
		f.start()
		synctest.Wait()
		f.r.Shutdown()
		<-f.r.WaitCh()
		f.world.Lose()
		over := make(chan struct{})
		destroys := 0
		f.world.Fail("destroy", func() error {
			destroys++
			<-over
			return nil
		})
		f.build()
		require.NoError(t, f.r.Restore())
		go f.r.Run()
		synctest.Wait()
		require.Equal(t, 1, destroys, "what is left of the run that was lost")
		f.r.Kill(nil)
		f.r.Shutdown()
		<-f.r.WaitCh()
		finished := make(chan struct{})
		go func() {
			defer close(finished)
			f.r.Finish()
		}()
		synctest.Wait()
		close(over)
		<-finished
		require.Equal(t, 1, destroys)
		f.finish()
	})
}

// leave ends a test whose driver destroys nothing: the driver is given back all the same.
func (f *fixture) leave() {
	f.r.Settle()
	time.Sleep(2 * time.Hour) // a start that was left behind comes to its end
	require.Zero(f.t, f.world.Holds(), "drivers that were not released")
	require.Empty(f.t, f.world.Doubled(), "tasks that ran twice at once")
	f.world.Exit("web", structs.ExitResult{})
}

func TestD18_TheRestartWindowSurvivesTheAgent(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, map[string]any{"run_for": "1s", "exit_code": 1})
		f.start()
		time.Sleep(5 * time.Second) // in the delay of the one restart allowed
		synctest.Wait()
		f.restartAgent()
		time.Sleep(20 * time.Second)
		synctest.Wait()
		require.Equal(t, `Not Restarting: Exceeded allowed attempts 1 in interval 1m0s and mode is "fail"`, f.events()[len(f.events())-1])
		require.Equal(t, 2, f.world.Started("web"))
		f.finish()
	})
}

// TestD18_ARestartIsCountedOnceWhereverTheAgentDies ends an agent at each write.
func TestD18_ARestartIsCountedOnceWhereverTheAgentDies(t *testing.T) {
	for n := 1; ; n++ {
		through := false
		bubble(t, func(t *testing.T) {
			f := newFixture(t, map[string]any{"run_for": "1s", "exit_code": 1})
			inner := f.db
			failing := state.NewFailing(inner, n)
			f.db = failing
			f.start()
			time.Sleep(20 * time.Second)
			synctest.Wait()
			through = !failing.Failed()
			f.db = inner
			f.restartAgent()
			time.Sleep(20 * time.Second)
			synctest.Wait()
			require.Equal(t, uint64(1), f.r.State().Restarts, "write %d: %v", n, f.events())
			require.Equal(t, `Not Restarting: Exceeded allowed attempts 1 in interval 1m0s and mode is "fail"`, f.events()[len(f.events())-1])
			f.finish()
		})
		if through {
			require.Greater(t, n, 5)
			return
		}
	}
}

func TestD19_WhatCannotBeMadeDurableDoesNotRun(t *testing.T) {
	for n := 1; ; n++ {
		through := true
		bubble(t, func(t *testing.T) {
			f := newFixture(t, map[string]any{"run_for": "1s"})
			inner := f.db
			failing := state.NewFailing(inner, n)
			f.db = failing
			f.start()
			time.Sleep(5 * time.Minute)
			synctest.Wait()
			through = through && !failing.Failed()
			f.r.Kill(nil)
			<-f.r.WaitCh()
			require.Empty(t, f.world.Running())
			require.Empty(t, f.world.Doubled())
			require.Zero(t, f.world.Known())
			// The next agent finds a store that is as it was when the disk failed.
			f.db = inner
			r := f.build()
			require.NoError(t, r.Restore())
			go r.Run()
			time.Sleep(5 * time.Minute)
			synctest.Wait()
			require.Equal(t, structs.TaskDead, r.State().State)
			f.finish()
		})
		if through {
			require.Greater(t, n, 5)
			return
		}
	}
}
