package drivers

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/managers/catalog"
	"github.com/wasmnode/wasmnode/managers/internal/catalogtest"
)

var web = &wasmnodev1.TaskConfig{Id: "alloc1/web/1", AllocId: "alloc1", Name: "web"}

var handle = &wasmnodev1.TaskHandle{Version: 1, DriverState: []byte("s")}

var workloadHandle = &wasmnodev1.TaskHandle{Version: 1, WorkloadId: web.Id}

// driverWorld is a world with one driver, dispensed.
func driverWorld(t *testing.T) (*world, *catalogtest.Plugin, *Driver) {
	w := newWorld(t, nil)
	p := catalogtest.NewPlugin()
	w.mustLoad(p, nil)
	d := w.dispense()
	t.Cleanup(d.Release)
	return w, p, d
}

func TestAStartedTaskHasAValidHandleOrNothingIsLeftOfIt(t *testing.T) {
	full := make([]byte, maxDriverStateBytes)
	tests := map[string]struct {
		handle  *wasmnodev1.TaskHandle
		starts  bool // a workload
		problem string
	}{
		"plain":                     {handle, false, ""},
		"as large as allowed":       {&wasmnodev1.TaskHandle{Version: 1, DriverState: full}, false, ""},
		"with a workload":           {workloadHandle, true, ""},
		"none":                      {nil, false, "no handle"},
		"version 0":                 {&wasmnodev1.TaskHandle{}, false, "a handle of version 0"},
		"too large":                 {&wasmnodev1.TaskHandle{Version: 1, DriverState: append(full, 0)}, false, "a handle with 65537 bytes of driver state, the limit is 65536"},
		"another task's workload":   {&wasmnodev1.TaskHandle{Version: 1, WorkloadId: "other"}, false, `a handle with the workload "other", which is not this task's`},
		"a workload kept in hiding": {handle, true, "a handle without the workload that it started"},
		"only one beside its own":   {handle, false, "a handle without a workload of the task's own, beside which it started others: they end with that"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w, p, d := driverWorld(t)
			p.On(abi.OpDriverStartTask, func(_ context.Context, c host.Call) error {
				require.Equal(t, web, c.Task)
				if tt.starts {
					w.workloads.start(web.Id)
					c.Started.Own = true
				}
				c.Started.Named = name == "only one beside its own"
				c.Answer.(*wasmnodev1.DriverStartTaskResponse).Handle = tt.handle
				return nil
			})
			h, _, err := d.StartTask(context.Background(), web, nil)
			if tt.problem == "" {
				require.NoError(t, err)
				require.Equal(t, tt.handle, h)
				return
			}
			require.EqualError(t, err, "driver fake: driver_start_task answered "+tt.problem)
			require.Equal(t, abi.Internal, abi.CodeOf(err))
			require.Empty(t, w.workloads.running)
			require.Nil(t, w.manager.tasks.get(web.Id))
		})
	}
}

func TestAStartThatTheSupervisorDidNotSurviveIsMadeOnceMore(t *testing.T) {
	ended := abi.NewRecoverableError(abi.Unavailable, "it has ended")
	for name, c := range map[string]struct {
		lost   []bool // by each start that fails
		starts int
		fails  bool
	}{
		"once":              {[]bool{true}, 2, false},
		"twice":             {[]bool{true, true}, 2, true},
		"for other reasons": {[]bool{false}, 1, true},
		"and for others":    {[]bool{true, false}, 2, true},
	} {
		t.Run(name, func(t *testing.T) {
			w, p, d := driverWorld(t)
			starts := 0
			p.On(abi.OpDriverStartTask, func(_ context.Context, call host.Call) error {
				require.Empty(t, w.workloads.running, "of the start before")
				w.workloads.start(web.Id)
				if starts++; starts <= len(c.lost) {
					call.Started.Lost = c.lost[starts-1]
					return ended
				}
				call.Answer.(*wasmnodev1.DriverStartTaskResponse).Handle = workloadHandle
				return nil
			})
			_, _, err := d.StartTask(context.Background(), web, nil)
			require.Equal(t, c.starts, starts)
			if c.fails {
				require.ErrorIs(t, err, ended)
				require.Empty(t, w.workloads.running)
				return
			}
			require.NoError(t, err)
		})
	}
}

func TestALostStartIsNotMadeAgain(t *testing.T) {
	for name, hinder := range map[string]func(w *world, giveUp func()){
		"that nobody wants any more":      func(_ *world, giveUp func()) { giveUp() },
		"of which something may be there": func(w *world, _ func()) { w.workloads.destroyErr = errors.New("not now") },
	} {
		t.Run(name, func(t *testing.T) {
			w, p, d := driverWorld(t)
			ctx, giveUp := context.WithCancel(t.Context())
			defer giveUp()
			starts := 0
			p.On(abi.OpDriverStartTask, func(_ context.Context, call host.Call) error {
				starts++
				call.Started.Lost = true
				hinder(w, giveUp)
				return errors.New("it has ended")
			})
			_, _, err := d.StartTask(ctx, web, nil)
			require.EqualError(t, err, "it has ended")
			require.Equal(t, 1, starts)
		})
	}
}

func TestAWorkloadThatTheCallStartedIsNotAskedFor(t *testing.T) {
	_, p, d := driverWorld(t)
	p.On(abi.OpDriverStartTask, func(_ context.Context, c host.Call) error {
		c.Started.Own = true // and it may be lost since: whoever waits for it finds out
		c.Answer.(*wasmnodev1.DriverStartTaskResponse).Handle = workloadHandle
		return nil
	})
	_, _, err := d.StartTask(context.Background(), web, nil)
	require.NoError(t, err)
}

// TestAWorkloadThatIsLostRightAfterItsStartMayBeStartedAgain: who owns it may have died.
func TestAWorkloadThatIsLostRightAfterItsStartMayBeStartedAgain(t *testing.T) {
	_, p, d := driverWorld(t)
	p.On(abi.OpDriverStartTask, func(_ context.Context, c host.Call) error {
		c.Answer.(*wasmnodev1.DriverStartTaskResponse).Handle = workloadHandle
		return nil
	})
	_, _, err := d.StartTask(context.Background(), web, nil)
	require.EqualError(t, err, "driver fake: the workload that driver_start_task answered is not there: the driver did not start it, or it was lost")
	require.Equal(t, abi.Unavailable, abi.CodeOf(err))
	require.True(t, abi.IsRecoverable(err))
}

func TestFaultsWhileStartingFailTheTaskAtTheSecond(t *testing.T) {
	w, p, d := driverWorld(t)
	p.On(abi.OpDriverStartTask, func(context.Context, host.Call) error {
		w.workloads.start(web.Id)
		return catalogtest.Trap(abi.OpDriverStartTask)
	})
	_, _, err := d.StartTask(context.Background(), web, nil)
	require.Equal(t, abi.Unavailable, abi.CodeOf(err))
	require.True(t, abi.IsRecoverable(err))
	var fault *host.FaultError
	require.ErrorAs(t, err, &fault)
	require.Empty(t, w.workloads.running, "what it started before it faulted is gone")

	again := web.CloneVT()
	again.Id = "alloc1/web/2" // a restart is another invocation of the same task
	_, _, err = d.StartTask(context.Background(), again, nil)
	require.Equal(t, abi.Internal, abi.CodeOf(err))
	require.False(t, abi.IsRecoverable(err))
	require.EqualError(t, err, "the driver faulted 2 times while handling this task, last: plugin fake trapped in driver_start_task: unreachable")
	health, _ := d.plugin.Health()
	require.Equal(t, catalog.StateHealthy, health.State, "the plugin is not to blame")

	p.On(abi.OpDriverStartTask, func(context.Context, host.Call) error { return abi.NewRecoverableError(abi.Unavailable, "later") })
	_, _, err = d.StartTask(context.Background(), web, nil)
	require.Equal(t, abi.NewRecoverableError(abi.Unavailable, "later"), err, "the driver's own answer is passed on")
}

func TestADriverIsAskedOnceForWhatItLeavesToTheHost(t *testing.T) {
	w, p, d := driverWorld(t)
	asked := 0
	p.On(abi.OpDriverTaskStats, func(context.Context, host.Call) error {
		asked++
		return abi.NewError(abi.Unimplemented, "no")
	})
	stats := func(h *wasmnodev1.TaskHandle) error {
		_, err := d.TaskStats(t.Context(), web, h)
		return err
	}
	w.workloads.start(web.Id)
	withState := &wasmnodev1.TaskHandle{Version: 1, WorkloadId: web.Id, DriverState: []byte("x")}
	for range 2 {
		require.NoError(t, stats(withState))
	}
	require.Equal(t, 2, asked, "it may know more of another such task")
	for range 3 {
		require.NoError(t, stats(workloadHandle))
	}
	require.Equal(t, 3, asked)
	require.NoError(t, stats(withState))
	require.Equal(t, 4, asked)
	require.Equal(t, abi.Unimplemented, abi.CodeOf(stats(handle)), "there is nothing that the host could measure")
	require.Equal(t, 5, asked)
}

func TestTheHostDoesWhatADriverLeavesOut(t *testing.T) {
	ctx := context.Background()
	for name, leaveOut := range map[string]func(p *catalogtest.Plugin){
		"not exported": func(*catalogtest.Plugin) {},
		"unimplemented": func(p *catalogtest.Plugin) {
			for _, op := range []string{abi.OpDriverRecoverTask, abi.OpDriverWaitTask, abi.OpDriverStopTask, abi.OpDriverSignalTask, abi.OpDriverDestroyTask, abi.OpDriverTaskStats} {
				p.On(op, func(context.Context, host.Call) error { return abi.NewError(abi.Unimplemented, "no") })
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, p, d := driverWorld(t)
			leaveOut(p)
			w.workloads.start(web.Id)
			h, err := d.RecoverTask(ctx, web, workloadHandle, nil)
			require.NoError(t, err)
			require.Equal(t, workloadHandle, h)
			_, err = d.SignalTask(ctx, web, h, "SIGHUP")
			require.NoError(t, err)
			stats, err := d.TaskStats(ctx, web, h)
			require.NoError(t, err)
			require.Equal(t, uint64(3*time.Second), stats.GetCpuTotalNs())
			require.Equal(t, abi.FailedPrecondition, abi.CodeOf(d.DestroyTask(ctx, web, h, false)))
			_, err = d.StopTask(ctx, web, h, "SIGTERM", 3*time.Second)
			require.NoError(t, err)
			exit, err := d.WaitTask(ctx, web, h)
			require.NoError(t, err)
			require.Equal(t, 7, exit.ExitCode)
			require.NoError(t, d.DestroyTask(ctx, web, h, false))
			require.Equal(t, []string{"signal SIGHUP", "stats", "stop SIGTERM 3s", "wait", "destroy"}, w.workloads.said())
			_, err = d.RecoverTask(ctx, web, h, nil)
			require.ErrorIs(t, err, abi.ErrTaskNotFound)

			// Without a workload there is nothing that the host could do.
			_, err = d.RecoverTask(ctx, web, handle, nil)
			require.Equal(t, abi.Unimplemented, abi.CodeOf(err))
			_, err = d.WaitTask(ctx, web, handle)
			require.Equal(t, abi.Unimplemented, abi.CodeOf(err))
			_, err = d.StopTask(ctx, web, handle, "", 0)
			require.Equal(t, abi.Unimplemented, abi.CodeOf(err))
			_, err = d.StopTask(ctx, web, nil, "", 0)
			require.Equal(t, abi.InvalidArgument, abi.CodeOf(err))
		})
	}
}

// counter is a driver without workloads: its task runs until its handle says that
// it was stopped.
func counter(p *catalogtest.Plugin, pollMs uint32) {
	p.On(abi.OpDriverWaitTask, func(_ context.Context, c host.Call) error {
		h := c.Request.(*wasmnodev1.DriverWaitTaskRequest).Handle
		a := c.Answer.(*wasmnodev1.DriverWaitTaskResponse)
		a.PollAfterMs = pollMs
		if string(h.DriverState) == "stopped" {
			a.Result = &wasmnodev1.ExitResult{ExitCode: 3, Signal: 15, OomKilled: true, Error: "e\x1b"}
		}
		return nil
	})
	p.On(abi.OpDriverStopTask, func(_ context.Context, c host.Call) error {
		c.Answer.(*wasmnodev1.DriverStopTaskResponse).Handle = &wasmnodev1.TaskHandle{Version: 2, DriverState: []byte("stopped")}
		return nil
	})
	p.On(abi.OpDriverSignalTask, func(context.Context, host.Call) error { return nil })
}

func TestADriverIsPolledAtItsIntervalAndAtOnceAfterAStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, p, d := driverWorld(t)
		counter(p, 60_000)
		done := make(chan string)
		go func() {
			exit, err := d.WaitTask(context.Background(), web, handle)
			done <- fmt.Sprint(*exit, err)
		}()
		time.Sleep(150 * time.Second)
		require.Equal(t, 3, p.Count(abi.OpDriverWaitTask), "at 0, 60 and 120 s")
		_, err := d.SignalTask(context.Background(), web, handle, "SIGHUP")
		require.NoError(t, err)
		synctest.Wait()
		require.Equal(t, 4, p.Count(abi.OpDriverWaitTask))
		begun := time.Now()
		h, err := d.StopTask(context.Background(), web, handle, "SIGTERM", time.Second)
		require.NoError(t, err)
		require.Equal(t, uint32(2), h.Version)
		require.Equal(t, `{3 15 true e\u001b} <nil>`, <-done)
		require.Equal(t, begun, time.Now(), "nobody waited for a clock")
	})
}

func TestAWaitLooksAtOnceWhenItsTaskIsDestroyed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, p, d := driverWorld(t)
		counter(p, 60_000)
		p.On(abi.OpDriverDestroyTask, func(context.Context, host.Call) error { return nil })
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error)
		go func() {
			_, err := d.WaitTask(ctx, web, handle)
			done <- err
		}()
		synctest.Wait()
		require.Equal(t, 1, p.Count(abi.OpDriverWaitTask))
		require.NoError(t, d.DestroyTask(context.Background(), web, handle, true))
		synctest.Wait()
		require.Equal(t, 2, p.Count(abi.OpDriverWaitTask))
		cancel()
		require.Error(t, <-done)
	})
}

func TestPollIntervalsAreBounded(t *testing.T) {
	for wish, want := range map[uint32]int{0: 11, 1: 1001, 10: 1001, 3_600_000: 1} {
		synctest.Test(t, func(t *testing.T) {
			_, p, d := driverWorld(t)
			counter(p, wish)
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second+time.Millisecond)
			defer cancel()
			_, err := d.WaitTask(ctx, web, handle)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.Equal(t, want, p.Count(abi.OpDriverWaitTask), wish)
		})
	}
}

func TestAWaitThatBlocksInTheDriverIsRetriedAfterAStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, p, d := driverWorld(t)
		counter(p, 0)
		ask := p.Ops[abi.OpDriverWaitTask]
		p.On(abi.OpDriverWaitTask, func(ctx context.Context, c host.Call) error {
			if string(c.Request.(*wasmnodev1.DriverWaitTaskRequest).Handle.DriverState) == "stopped" {
				return ask(ctx, c)
			}
			<-ctx.Done() // it looks at the old handle for ever
			return fmt.Errorf("plugin fake: %w", context.Canceled)
		})
		done := make(chan error)
		go func() {
			_, err := d.WaitTask(context.Background(), web, handle)
			done <- err
		}()
		time.Sleep(time.Hour)
		require.Equal(t, 1, p.Count(abi.OpDriverWaitTask))
		begun := time.Now()
		_, err := d.StopTask(context.Background(), web, handle, "", time.Second)
		require.NoError(t, err)
		require.NoError(t, <-done)
		require.Equal(t, recheckGrace, time.Since(begun))
	})
}

func TestAWaitIsCancelledWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, p, d := driverWorld(t)
		p.On(abi.OpDriverWaitTask, func(ctx context.Context, _ host.Call) error {
			<-ctx.Done()
			return ctx.Err()
		})
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		_, err := d.WaitTask(ctx, web, handle)
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

func TestAWaitSurvivesOneFaultAndFailsAtTheSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, p, d := driverWorld(t)
		p.On(abi.OpDriverWaitTask, catalogtest.Fault(abi.OpDriverWaitTask))
		_, err := d.WaitTask(context.Background(), web, handle)
		require.Equal(t, abi.Internal, abi.CodeOf(err))
		require.Equal(t, 2, p.Count(abi.OpDriverWaitTask))
	})
}

// The task has done nothing wrong: it is waited for again, and the plugin's health says why.
func TestAWaitOutlastsABudgetThatIsUsedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, p, d := driverWorld(t)
		p.On(abi.OpDriverWaitTask, func(context.Context, host.Call) error { return &host.BudgetError{Text: "no more memory"} })
		done := make(chan error, 1)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			_, err := d.WaitTask(ctx, web, handle)
			done <- err
		}()
		synctest.Wait()
		health, _ := d.plugin.Health()
		require.Equal(t, catalog.StateUnhealthy, health.State)
		require.Equal(t, "no more memory", health.Reason)
		time.Sleep(time.Minute)
		require.Greater(t, p.Count(abi.OpDriverWaitTask), 10)
		cancel()
		require.ErrorIs(t, <-done, context.Canceled)
	})
}

func TestAWaitOutlastsARestartAndAQuarantineUntilAnotherVersionTakesOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, p, d := driverWorld(t)
		counter(p, 1000)
		well := p.Ops[abi.OpDriverFingerprint]
		done := make(chan error, 1)
		wait := func() {
			_, err := d.WaitTask(context.Background(), web, handle)
			done <- err
		}
		go wait()
		time.Sleep(10 * time.Second)
		p.On(abi.OpDriverFingerprint, catalogtest.Fault(abi.OpDriverFingerprint))
		time.Sleep(time.Hour)
		health, _ := d.plugin.Health()
		require.Equal(t, catalog.StateQuarantined, health.State)
		before := p.Count(abi.OpDriverWaitTask)
		time.Sleep(time.Hour)
		require.Equal(t, before, p.Count(abi.OpDriverWaitTask), "what is in quarantine is not called")
		_, err := d.StopTask(context.Background(), web, handle, "", time.Second)
		require.Equal(t, abi.Unavailable, abi.CodeOf(err), "nor for a stop")
		_, err = d.SignalTask(context.Background(), web, handle, "SIGHUP")
		require.Equal(t, abi.Unavailable, abi.CodeOf(err), "nor for anything else")
		require.Zero(t, p.Count(abi.OpDriverSignalTask)+p.Count(abi.OpDriverStopTask))

		p.On(abi.OpDriverFingerprint, well)
		d.plugin.Revive()
		time.Sleep(10 * time.Second)
		require.Greater(t, p.Count(abi.OpDriverWaitTask), before)

		p.On(abi.OpDriverFingerprint, catalogtest.Fault(abi.OpDriverFingerprint))
		time.Sleep(time.Hour)
		w.mustLoad(catalogtest.NewPlugin(), d.plugin)
		err = <-done
		require.EqualError(t, err, `driver "fake" was replaced`)
		require.True(t, abi.IsRecoverable(err))
	})
}

func TestAWorkloadIsStoppedWhateverItsDriverDoes(t *testing.T) {
	tests := map[string]struct {
		stop func(ctx context.Context, c host.Call) error
		want string
		took time.Duration
	}{
		"it faults":  {catalogtest.Fault(abi.OpDriverStopTask), "stop SIGTERM 5s", 0},
		"it refuses": {func(context.Context, host.Call) error { return abi.NewError(abi.Internal, "no") }, "stop SIGTERM 5s", 0},
		"it lies":    {func(context.Context, host.Call) error { return nil }, "wait, stop SIGKILL 0s", leftoverGrace},
		"it never answers": {func(ctx context.Context, _ host.Call) error {
			<-ctx.Done()
			return &host.FaultError{Op: abi.OpDriverStopTask, Kind: host.FaultTimeout, Err: ctx.Err()}
		}, "stop SIGTERM 0s", 5*time.Second + 2*stopGrace},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, p, d := driverWorld(t)
				p.On(abi.OpDriverStopTask, tt.stop)
				w.workloads.start(web.Id)
				begun := time.Now()
				_, err := d.StopTask(context.Background(), web, workloadHandle, "SIGTERM", 5*time.Second)
				require.NoError(t, err)
				require.Equal(t, tt.took, time.Since(begun))
				require.Equal(t, tt.want, strings.Join(w.workloads.said(), ", "))
			})
		})
	}
}

func TestAWorkloadWhoseDriverSawItEndHasAMomentToDoSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, p, d := driverWorld(t)
		w.workloads.start(web.Id)
		p.On(abi.OpDriverStopTask, func(context.Context, host.Call) error {
			go func() {
				time.Sleep(leftoverGrace / 2)
				w.workloads.end(web.Id)
			}()
			return nil
		})
		_, err := d.StopTask(context.Background(), web, workloadHandle, "SIGTERM", 5*time.Second)
		require.NoError(t, err)
		require.Equal(t, []string{"wait"}, w.workloads.said(), "it was not killed")
	})
}

func TestAWorkloadIsDestroyedWhateverItsDriverDoes(t *testing.T) {
	w, p, d := driverWorld(t)
	p.On(abi.OpDriverDestroyTask, catalogtest.Fault(abi.OpDriverDestroyTask))
	w.workloads.start(web.Id)
	require.Error(t, d.DestroyTask(context.Background(), web, workloadHandle, true))
	require.Empty(t, w.workloads.running)
	require.Nil(t, w.manager.tasks.get(web.Id))
}

// sends makes an operation send an event about a task, and returns what the plugin was told.
func sends(p *catalogtest.Plugin, op, taskID, message string) *error {
	told := new(error)
	well := p.Ops[op]
	p.On(op, func(ctx context.Context, c host.Call) error {
		*told = errors.New("nobody takes events")
		if c.Events != nil {
			*told = c.Events(&wasmnodev1.TaskEvent{TaskId: taskID, Message: message})
		}
		if well == nil {
			return nil
		}
		return well(ctx, c)
	})
	return told
}

func TestATasksEventsGoToWhoStartedOrRecoveredIt(t *testing.T) {
	w, p, d := driverWorld(t)
	ctx := context.Background()
	var got []string
	to := func(who string) func(*wasmnodev1.TaskEvent) {
		return func(e *wasmnodev1.TaskEvent) { got = append(got, who+": "+e.Message) }
	}
	counter(p, 1)
	told := []*error{
		sends(p, abi.OpDriverStartTask, web.Id, "starting"),
		sends(p, abi.OpDriverWaitTask, web.Id, "waiting"),
		sends(p, abi.OpDriverSignalTask, web.Id, "signalled"),
		sends(p, abi.OpDriverRecoverTask, web.Id, "recovering"),
		sends(p, abi.OpDriverStopTask, web.Id, "stopping"),
		sends(p, abi.OpDriverDestroyTask, web.Id, "destroying"),
	}
	_, _, err := d.StartTask(ctx, web, to("starter"))
	require.NoError(t, err)
	_, err = d.SignalTask(ctx, web, handle, "SIGHUP")
	require.NoError(t, err)
	_, err = d.RecoverTask(ctx, web, handle, to("next"))
	require.NoError(t, err)
	_, err = d.StopTask(ctx, web, handle, "", 0)
	require.NoError(t, err)
	_, err = d.WaitTask(ctx, web, handle)
	require.NoError(t, err)
	outside := sends(p, abi.OpDriverFingerprint, web.Id, "polled")
	asked := p.Count(abi.OpDriverFingerprint)
	w.manager.Refresh("fake")
	require.Eventually(t, func() bool { return p.Count(abi.OpDriverFingerprint) > asked }, catalogtest.TestTimeout, time.Millisecond)
	w.manager.Shutdown() // the fingerprint has been answered
	require.NoError(t, d.DestroyTask(ctx, web, handle, true))
	for _, err := range append(told, outside) {
		require.NoError(t, *err)
	}
	require.Equal(t, []string{"starter: starting", "starter: signalled", "next: recovering", "next: stopping", "next: waiting", "next: polled", "next: destroying"}, got)
}

func TestAnEventWithoutASinkIsAnErrorToTheDriver(t *testing.T) {
	_, p, d := driverWorld(t)
	ctx := context.Background()
	told := sends(p, abi.OpDriverStartTask, "another/task/1", "starting")
	_, _, err := d.StartTask(ctx, web, func(*wasmnodev1.TaskEvent) { t.Error("another task's event") })
	require.NoError(t, err)
	require.Equal(t, abi.PermissionDenied, abi.CodeOf(*told), "another task's")
	told = sends(p, abi.OpDriverSignalTask, "unknown", "signalled")
	_, err = d.SignalTask(ctx, &wasmnodev1.TaskConfig{Id: "unknown"}, handle, "SIGHUP")
	require.NoError(t, err)
	require.Equal(t, abi.FailedPrecondition, abi.CodeOf(*told), "a task that was not recovered")
	require.Equal(t, abi.NotFound, abi.CodeOf(d.tasks().event("fake", &wasmnodev1.TaskEvent{TaskId: "nobody's"})), "an unknown task's, from a call about none")
}

func TestADriverSendsEventsOfItsOwnTasksOnly(t *testing.T) {
	w, _, d := driverWorld(t)
	_, _, err := d.StartTask(t.Context(), web, func(*wasmnodev1.TaskEvent) { t.Error("another driver's event") })
	require.NoError(t, err)
	other := catalogtest.NewPlugin()
	other.Recipe.Name = "other"
	told := sends(other, abi.OpDriverFingerprint, web.Id, "polled")
	w.mustLoad(other, nil)
	require.Equal(t, abi.NotFound, abi.CodeOf(*told))
}

// A driver may answer an operation with another handle, which is the one from then on,
// whatever the caller still has; one that is none is an error.
func TestTheNewestHandleIsTheOneToUse(t *testing.T) {
	ctx := context.Background()
	_, p, d := driverWorld(t)
	var given []uint32 // the versions that the driver was given
	var next *wasmnodev1.TaskHandle
	p.On(abi.OpDriverRecoverTask, func(_ context.Context, c host.Call) error {
		given = append(given, c.Request.(*wasmnodev1.DriverRecoverTaskRequest).Handle.Version)
		c.Answer.(*wasmnodev1.DriverRecoverTaskResponse).Handle = next
		return nil
	})
	p.On(abi.OpDriverSignalTask, func(_ context.Context, c host.Call) error {
		given = append(given, c.Request.(*wasmnodev1.DriverSignalTaskRequest).Handle.Version)
		c.Answer.(*wasmnodev1.DriverSignalTaskResponse).Handle = next
		return nil
	})
	p.On(abi.OpDriverStopTask, func(_ context.Context, c host.Call) error {
		given = append(given, c.Request.(*wasmnodev1.DriverStopTaskRequest).Handle.Version)
		c.Answer.(*wasmnodev1.DriverStopTaskResponse).Handle = next
		return nil
	})
	old := &wasmnodev1.TaskHandle{Version: 1}
	for i, operate := range []func() (*wasmnodev1.TaskHandle, error){
		func() (*wasmnodev1.TaskHandle, error) { return d.RecoverTask(ctx, web, old, nil) },
		func() (*wasmnodev1.TaskHandle, error) { return d.SignalTask(ctx, web, old, "SIGHUP") },
		func() (*wasmnodev1.TaskHandle, error) { return d.StopTask(ctx, web, old, "", time.Second) },
	} {
		next = &wasmnodev1.TaskHandle{Version: uint32(i + 2)}
		h, err := operate()
		require.NoError(t, err)
		require.Equal(t, next, h)
		next = &wasmnodev1.TaskHandle{}
		_, err = operate()
		require.ErrorContains(t, err, "a handle of version 0")
	}
	next = nil
	h, err := d.SignalTask(ctx, web, old, "SIGHUP")
	require.NoError(t, err)
	require.Equal(t, uint32(4), h.Version, "what is none is not kept")
	require.Equal(t, []uint32{1, 1, 2, 3, 3, 4, 4}, given)
	h, err = d.RecoverTask(ctx, web, old, nil)
	require.NoError(t, err)
	require.Equal(t, old, h, "who recovers a task knows its handle")
}

func TestATaskThatCannotBeRecoveredIsForgotten(t *testing.T) {
	w, p, d := driverWorld(t)
	p.On(abi.OpDriverRecoverTask, func(context.Context, host.Call) error { return abi.ErrTaskNotFound })
	_, err := d.RecoverTask(context.Background(), web, handle, nil)
	require.ErrorIs(t, err, abi.ErrTaskNotFound)
	require.Nil(t, w.manager.tasks.get(web.Id))
}

func TestATasksConfigIsDecodedByItsSchema(t *testing.T) {
	w := newWorld(t, nil)
	p := catalogtest.NewPlugin()
	p.Recipe.TaskSchema = `{"properties":{"image":{"type":"string"},"args":{"type":"array","default":[]}},"required":["image"]}`
	w.mustLoad(p, nil)
	d := w.dispense()
	defer d.Release()
	got, err := d.DecodeConfig(map[string]any{"image": "a"})
	require.NoError(t, err)
	require.JSONEq(t, `{"image":"a","args":[]}`, string(got))
	_, err = d.DecodeConfig(map[string]any{"imag": "a"})
	require.EqualError(t, err, `config.imag: unknown field, did you mean "image"?; config.image: missing`)
	require.Equal(t, "fake", d.Name())
	require.NotNil(t, d.Capabilities())
}

func TestDriversWithstandConcurrentUseAndReplacement(t *testing.T) {
	w := newWorld(t, nil)
	make1 := func() *catalogtest.Plugin {
		p := catalogtest.NewPlugin()
		counter(p, 1)
		p.On(abi.OpDriverDestroyTask, func(context.Context, host.Call) error { return nil })
		p.On(abi.OpDriverRecoverTask, func(context.Context, host.Call) error { return nil })
		return p
	}
	current := w.mustLoad(make1(), nil)
	ctx := context.Background()
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 30 {
				d, err := w.manager.Dispense("fake")
				if err != nil {
					t.Error(err)
					return
				}
				cfg := &wasmnodev1.TaskConfig{Id: fmt.Sprintf("%d/%d", i, j), AllocId: "a", Name: fmt.Sprint(i)}
				h, _, err := d.StartTask(ctx, cfg, func(*wasmnodev1.TaskEvent) {})
				if err != nil {
					t.Error(err)
				}
				waited := make(chan error, 1)
				go func() {
					_, err := d.WaitTask(ctx, cfg, h)
					waited <- err
				}()
				w.manager.Refresh("fake")
				_ = w.manager.tasks.event("fake", &wasmnodev1.TaskEvent{TaskId: cfg.Id})
				if _, err := d.StopTask(ctx, cfg, h, "", time.Second); err != nil {
					t.Error(err)
				}
				if err := <-waited; err != nil {
					t.Error(err)
				}
				if err := d.DestroyTask(ctx, cfg, h, true); err != nil {
					t.Error(err)
				}
				d.Release()
			}
		})
	}
	for range 50 {
		next, err := w.take(make1(), current)
		if err != nil {
			t.Error(err)
			break
		}
		current = next
	}
	wg.Wait()
	require.Empty(t, w.manager.tasks.byID)
}
