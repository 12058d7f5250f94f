package task_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/runners/task"
	"github.com/wasmnode/wasmnode/structs"
)

func TestATaskThatSucceeds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, map[string]any{"run_for": "10s"})
		f.start()
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, structs.TaskRunning, f.r.State().State)
		require.Equal(t, []string{received, setup, begun}, f.events())
		time.Sleep(10 * time.Second)
		synctest.Wait()
		s := f.r.State()
		require.True(t, s.Successful())
		require.Equal(t, 10*time.Second, s.FinishedAt.Sub(s.StartedAt))
		require.Equal(t, []string{received, setup, begun, exit0}, f.events())
		f.finish()
		require.Equal(t, []string{received, setup, begun, exit0}, f.events(), "a dead task has no event of a kill")
		require.Zero(t, f.world.Known())
		local, _, err := f.db.Task("a1", "web")
		require.NoError(t, err)
		require.True(t, local.RunComplete)
		require.Empty(t, local.TaskID)
	})
}

func TestATaskThatFailsIsRestartedUntilThePolicyEnds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, map[string]any{"run_for": "1s", "exit_code": 1})
		f.start()
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, []string{
			received, setup, begun, exit1, "Restarting: Task restarting in 10s", begun, exit1,
			`Not Restarting: Exceeded allowed attempts 1 in interval 1m0s and mode is "fail"`,
		}, f.events())
		require.True(t, f.r.State().Failed)
		require.EqualValues(t, 1, f.r.State().Restarts)
		require.Equal(t, 2, f.world.Started("web"))
		f.finish()
	})
}

func TestAKilledTask(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, nil)
		f.start()
		synctest.Wait()
		if !onPlugin(t) { // whose handles do not change by a stop
			f.world.Fail("destroy", func() error {
				local, _, err := f.db.Task("a1", "web")
				require.NoError(t, err)
				require.Contains(t, string(local.Handle), "stopped", "it is destroyed under the handle that the stop gave")
				return nil
			})
		}
		f.r.Kill(nil)
		f.r.Kill(nil)
		<-f.r.WaitCh()
		require.Equal(t, []string{received, setup, begun, killing, exit0, killed}, f.events())
		require.False(t, f.r.State().Failed)
		f.finish()
	})
}

func TestAKillReasonComesBeforeTheKill(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, map[string]any{"kill_after": "3s"})
		f.task.KillSignal = "SIGINT"
		f.start()
		synctest.Wait()
		at := time.Now()
		f.r.Kill(structs.NewTaskEvent(structs.EventLeaderDead))
		<-f.r.WaitCh()
		require.Equal(t, 3*time.Second, time.Since(at))
		require.Equal(t, []string{received, setup, begun, "Leader Task Dead: Leader Task in Group dead", killing, exit0, killed}, f.events())
		require.Contains(t, f.world.Log(), "stop web SIGINT")
		f.finish()
	})
}

func TestTheKillTimeoutIsCapped(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, nil)
		f.task.KillTimeout = ptr(time.Hour)
		f.start()
		synctest.Wait()
		f.r.Kill(nil)
		f.finish()
		require.Contains(t, f.events(), "Killing: Sent interrupt. Waiting 30s before force killing")
	})
}

func TestATaskStartsWhenItIsItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, nil)
		gate := make(chan struct{})
		f.cfg.Gate = func() <-chan struct{} { return gate }
		f.start()
		time.Sleep(time.Hour)
		require.Equal(t, []string{received}, f.events())
		close(gate)
		synctest.Wait()
		require.Equal(t, []string{received, setup, begun}, f.events())
		f.finish()
	})
}

func TestAKillWinsOverAnAgentThatStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, nil)
		f.cfg.Gate = func() <-chan struct{} { return nil }
		f.start()
		synctest.Wait()
		f.r.Kill(nil)
		f.r.Shutdown()
		<-f.r.WaitCh()
		require.Equal(t, []string{received, killing, killed}, f.events())
		f.finish()
	})
}

func TestAKillBeforeRun(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, nil)
		r := f.build()
		r.Kill(nil)
		go r.Run()
		<-r.WaitCh()
		require.Equal(t, []string{received, killing, killed}, f.events())
		require.Zero(t, f.world.Started("web"))
		f.finish()
	})
}

// blockingHook blocks in prestart until its context ends.
type blockingHook struct{}

func (blockingHook) Name() string { return "blocking" }
func (blockingHook) Prestart(ctx context.Context, _ *task.PrestartRequest) (*task.PrestartResult, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestAKillInAPrestartHook(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, nil)
		f.cfg.Hooks = []task.Hook{blockingHook{}}
		f.start()
		synctest.Wait()
		f.r.Kill(nil)
		<-f.r.WaitCh()
		require.Equal(t, []string{received, setup, killing, killed}, f.events())
		f.finish()
	})
}

func TestAKillWhileTheDriverStarts(t *testing.T) {
	for _, hangs := range []bool{false, true} {
		bubble(t, func(t *testing.T) {
			f := newFixture(t, map[string]any{"start_for": "1m", "start_hangs": hangs})
			f.start()
			synctest.Wait()
			at := time.Now()
			f.r.Kill(nil)
			<-f.r.WaitCh()
			require.LessOrEqual(t, time.Since(at), 2*time.Second)
			require.Equal(t, []string{received, setup, killing, killed}, f.events())
			time.Sleep(2 * time.Minute) // what the driver starts in the end is destroyed
			synctest.Wait()
			require.Zero(t, f.world.Known())
			f.finish()
		})
	}
}

func TestTheShutdownDelay(t *testing.T) {
	for name, skip := range map[string]bool{"waited for": false, "skipped": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFixture(t, nil)
				f.task.ShutdownDelay = 20 * time.Second
				f.start()
				synctest.Wait()
				at := time.Now()
				want := 20 * time.Second
				if skip {
					f.r.SkipShutdownDelay()
					want = 0
				}
				f.r.Kill(nil)
				<-f.r.WaitCh()
				require.Equal(t, want, time.Since(at))
				f.finish()
			})
		})
	}
}

func TestStartErrors(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, map[string]any{"start_error": "boom"})
		f.start()
		synctest.Wait()
		require.Equal(t, []string{received, setup, "Driver Failure: boom", "Not Restarting: Error was unrecoverable"}, f.events())
		require.True(t, f.r.State().Failed)
		f.finish()
	})
	bubble(t, func(t *testing.T) {
		f := newFixture(t, map[string]any{"start_error": "boom", "start_error_recoverable": true})
		f.start()
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, []string{
			received, setup, "Driver Failure: boom", "Restarting: Task restarting in 10s", "Driver Failure: boom",
			`Not Restarting: Exceeded allowed attempts 1 in interval 1m0s and mode is "fail"`,
		}, f.events())
		f.finish()
	})
}

func TestAConfigThatTheDriverRefuses(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, map[string]any{"nonsense": 1})
		f.start()
		synctest.Wait()
		require.Equal(t, []string{
			received, setup, "Failed Validation: config.nonsense: unknown field", "Not Restarting: Error was unrecoverable",
		}, f.events())
		f.finish()
	})
}

func TestValidation(t *testing.T) {
	for want, change := range map[string]func(*nomad.Task){
		`kill_signal: unknown signal "SIGNONE"`: func(t *nomad.Task) { t.KillSignal = "SIGNONE" },
		"logs: max_files is 0, minimum 1\nlogs: max_file_size is 0, minimum 1": func(t *nomad.Task) {
			t.LogConfig = &nomad.LogConfig{MaxFiles: ptr(0), MaxFileSizeMB: ptr(0)}
		},
		"": func(t *nomad.Task) {
			t.KillSignal, t.LogConfig = "SIGINT", &nomad.LogConfig{MaxFiles: ptr(1), MaxFileSizeMB: ptr(1)}
		},
		" ": func(t *nomad.Task) { t.LogConfig = &nomad.LogConfig{Disabled: ptr(true), MaxFiles: ptr(0)} },
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(t, nil)
			change(f.task)
			f.start()
			synctest.Wait()
			events := []string{received, "Failed Validation: " + want, "Not Restarting: Error was unrecoverable"}
			if strings.TrimSpace(want) == "" {
				events = []string{received, setup, begun}
			}
			require.Equal(t, events, f.events()[:len(events)])
			f.finish()
		})
	}
}

func TestARunnerThatCannotBeMade(t *testing.T) {
	f := newFixture(t, nil)
	for want, alloc := range map[string]*structs.Allocation{
		`task: "web" is not in group "other"`:                   {TaskGroup: "other", Job: f.alloc.Job, Resources: f.alloc.Resources},
		`task: no task resources found on allocation for "web"`: {TaskGroup: "g", Job: f.alloc.Job},
	} {
		_, err := task.New(task.Config{Alloc: alloc, Task: "web"})
		require.EqualError(t, err, want)
	}
}

func TestAnUnknownDriver(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, nil)
		f.task.Driver = "nosuch"
		f.start()
		synctest.Wait()
		require.Equal(t, []string{
			received, `Driver Failure: unknown driver "nosuch"`, "Not Restarting: Error was unrecoverable",
		}, f.events())
		f.finish()
	})
}

func TestADriverThatIsNotThereYetIsWaitedFor(t *testing.T) {
	missing := abi.NewRecoverableError(abi.Unavailable, "loading")
	bubble(t, func(t *testing.T) {
		f := newFixture(t, nil)
		f.world.Missing(missing)
		f.start()
		time.Sleep(10 * time.Second)
		f.world.Missing(nil)
		time.Sleep(6 * time.Second)
		synctest.Wait()
		require.Equal(t, []string{received, `Driver: Waiting for driver "mock": loading`, setup, begun}, f.events())
		f.finish()
	})
	bubble(t, func(t *testing.T) {
		f := newFixture(t, nil)
		f.world.Missing(missing)
		f.start()
		time.Sleep(31 * time.Second)
		synctest.Wait()
		require.Equal(t, []string{
			received, `Driver: Waiting for driver "mock": loading`, "Driver Failure: loading", "Restarting: Task restarting in 10s",
		}, f.events())
		f.r.Kill(nil)
		f.finish()
	})
}

// loadingError is that of a driver that may be among the plugins that are being loaded.
type loadingError struct{ error }

func (e loadingError) Unwrap() error { return e.error }
func (loadingError) Loading() bool   { return true }

// However long a machine takes to load its plugins, no task has failed for that.
func TestWhilePluginsAreLoadedADriverIsWaitedFor(t *testing.T) {
	missing := abi.NewRecoverableError(abi.Unavailable, "loading")
	bubble(t, func(t *testing.T) {
		f := newFixture(t, nil)
		f.world.Missing(loadingError{missing})
		f.start()
		time.Sleep(10 * time.Minute)
		f.world.Missing(missing) // loaded, and restarting
		time.Sleep(24 * time.Second)
		synctest.Wait()
		require.Equal(t, []string{received, `Driver: Waiting for driver "mock": loading`}, f.events())
		f.world.Missing(nil)
		time.Sleep(6 * time.Second)
		synctest.Wait()
		require.Equal(t, []string{received, `Driver: Waiting for driver "mock": loading`, setup, begun}, f.events())
		f.finish()
	})
}

// failingHook fails until it is set not to.
type failingHook struct{ err error }

func (*failingHook) Name() string { return "failing" }
func (h *failingHook) Prestart(context.Context, *task.PrestartRequest) (*task.PrestartResult, error) {
	return nil, h.err
}

func TestATaskWhoseDirectoryCannotBeBuiltIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, nil)
		path := filepath.Join(f.dir.Path(), "web")
		require.NoError(t, os.WriteFile(path, nil, 0o600))
		f.start()
		synctest.Wait()
		require.Len(t, f.events(), 4)
		require.Contains(t, f.events()[2], "Task hook failed: task_dir: ")
		require.Equal(t, "Restarting: Task restarting in 10s", f.events()[3])
		require.NoError(t, os.Remove(path))
		time.Sleep(11 * time.Second)
		synctest.Wait()
		require.Equal(t, begun, f.events()[len(f.events())-1])
		f.finish()
	})
}

// A task of the end of its group runs once, and nobody waits for what becomes of it.
func TestATaskThatRunsAfterAllOthersEndsByItself(t *testing.T) {
	for hook, ends := range map[string]bool{nomad.TaskLifecycleHookPoststop: true, nomad.TaskLifecycleHookPrestart: false} {
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(t, map[string]any{"run_for": "1s"})
			f.task.Lifecycle = &nomad.TaskLifecycle{Hook: hook}
			f.start()
			time.Sleep(time.Minute)
			synctest.Wait()
			restarted := f.r.Restart(task.RestartRequest{Force: true})
			if ends {
				<-f.r.WaitCh()
				require.ErrorIs(t, restarted, task.ErrNotRunning)
			} else {
				synctest.Wait()
				require.NoError(t, restarted)
				require.Equal(t, structs.TaskRunning, f.r.State().State)
			}
			f.finish()
		})
	}
}

// failingWait is a driver whose first wait fails after a time.
type failingWait struct {
	task.Driver
	failed *atomic.Bool
}

func (d failingWait) WaitTask(ctx context.Context, cfg *wasmnodev1.TaskConfig, h *wasmnodev1.TaskHandle) (*structs.ExitResult, error) {
	if d.failed.Swap(true) {
		return d.Driver.WaitTask(ctx, cfg, h)
	}
	select {
	case <-time.After(10 * time.Second):
		return nil, errors.New("trap: unreachable")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// The driver is asked again while it stops the task.
func TestAWaitThatFailsDuringAKill(t *testing.T) {
	for name, delay := range map[string]time.Duration{"in the shutdown delay": 20 * time.Second, "while it is stopped": time.Second} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, map[string]any{"run_for": "12s", "stop_ignored": true})
				f.task.ShutdownDelay = delay
				var failed atomic.Bool
				f.as = func(d task.Driver) task.Driver { return failingWait{d, &failed} }
				f.start()
				begin := time.Now()
				time.Sleep(8 * time.Second)
				f.r.Kill(nil)
				<-f.r.WaitCh()
				require.Equal(t, 12*time.Second, time.Since(begin), "its end is seen")
				require.Equal(t, []string{exit0, killed}, f.events()[len(f.events())-2:])
				f.finish()
			})
		})
	}
}

func TestAPrestartHookThatFails(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, nil)
		f.cfg.Hooks = []task.Hook{&failingHook{errors.New("no")}}
		f.start()
		synctest.Wait()
		require.Equal(t, []string{received, setup, "Task hook failed: failing: no", "Not Restarting: Error was unrecoverable"}, f.events())
		f.finish()
	})
	bubble(t, func(t *testing.T) {
		f := newFixture(t, nil)
		f.cfg.Hooks = []task.Hook{&failingHook{abi.NewRecoverableError(abi.Unavailable, "later")}}
		f.start()
		synctest.Wait()
		require.Equal(t, []string{received, setup, "Task hook failed: failing: later", "Restarting: Task restarting in 10s"}, f.events())
		f.finish()
	})
}
