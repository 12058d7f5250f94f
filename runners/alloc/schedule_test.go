package alloc_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/structs"
)

// the group of the random schedules has a task of every kind.
const everyKind = `
job "j" {
  type = "%s"
  group "g" {
    shutdown_delay = "%s"
    restart {
      attempts = 2
      interval = "1m"
      delay    = "3s"
      mode     = "%s"
    }
    task "init" {
      driver = "mock"
      lifecycle { hook = "prestart" }
      config { run_for = "1s" }
    }
    task "proxy" {
      driver = "mock"
      lifecycle {
        hook    = "prestart"
        sidecar = true
      }
    }
    task "web" {
      driver = "mock"
      leader = %v
      shutdown_delay = "2s"
      config {
        %s
      }
    }
    task "db" {
      driver = "mock"
      config {
        %s
      }
    }
    task "warm" {
      driver = "mock"
      lifecycle { hook = "poststart" }
      config { run_for = "2s" }
    }
    task "tidy" {
      driver = "mock"
      lifecycle { hook = "poststop" }
      config { run_for = "2s" }
    }
  }
}
`

var behaviours = []string{
	``, `run_for = "5s"`, "run_for = \"5s\"\n exit_code = 1", `kill_after = "2s"`, `stop_hangs = true`, `stop_ignored = true`,
	`stop_error = "no"`, `start_for = "4s"`, `wait_hangs = true`, "start_error = \"no\"\n start_error_recoverable = true",
}

// action is one thing that happens in a schedule.
type action struct {
	What string
	Task string
	Then time.Duration // and then time passes
}

var actions = []string{
	"exit", "fail", "restart", "restart-running", "restart-all", "signal", "update", "stale-update", "agent-restart",
	"reboot", "upgrade", "missing", "there", "wait-fault", "recover-fault", "no-fault", "stop", "nothing", "nothing", "nothing",
}

func TestRandomSchedulesKeepTheInvariants(t *testing.T) {
	tasks := []string{"init", "proxy", "web", "db", "warm", "tidy"}
	rapid.Check(t, func(rt *rapid.T) {
		job := fmt.Sprintf(everyKind,
			rapid.SampledFrom([]string{"service", "batch"}).Draw(rt, "type"),
			rapid.SampledFrom([]string{"0s", "3s"}).Draw(rt, "group shutdown delay"),
			rapid.SampledFrom([]string{"fail", "delay"}).Draw(rt, "mode"),
			rapid.Bool().Draw(rt, "leader"),
			rapid.SampledFrom(behaviours).Draw(rt, "web"), rapid.SampledFrom(behaviours).Draw(rt, "db"))
		plan := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) action {
			return action{
				What: rapid.SampledFrom(actions).Draw(rt, "what"),
				Task: rapid.SampledFrom(tasks).Draw(rt, "task"),
				Then: time.Duration(rapid.IntRange(0, 8000).Draw(rt, "then")) * time.Millisecond,
			}
		}), 1, 12).Draw(rt, "plan")
		var err error
		synctest.Test(t, func(t *testing.T) { err = runSchedule(t, job, plan) })
		if err != nil {
			rt.Fatal(err)
		}
	})
}

func runSchedule(t *testing.T, job string, plan []action) error {
	f := newFixture(t, job)
	f.start()
	for _, d := range plan {
		f.perform(d)
		time.Sleep(d.Then)
		synctest.Wait()
		if err := f.wellFormed(); err != nil {
			return fmt.Errorf("after %v: %w", d, err)
		}
	}
	f.world.Missing(nil)
	f.world.Fail("wait", nil)
	f.world.Fail("recover", nil)
	f.r.Destroy()
	select {
	case <-f.r.DestroyCh():
	case <-time.After(5 * time.Minute):
		return errors.New("destroy does not end")
	}
	time.Sleep(time.Hour) // whatever was left behind shows itself
	synctest.Wait()
	switch {
	case len(f.world.Doubled()) > 0:
		return fmt.Errorf("ran twice at once: %v", f.world.Doubled())
	case len(f.world.Running()) > 0:
		return fmt.Errorf("left running: %v", f.world.Running())
	case f.world.Known() > 0:
		return fmt.Errorf("not destroyed: %d", f.world.Known())
	case f.world.Holds() > 0:
		return fmt.Errorf("drivers not released: %d", f.world.Holds())
	}
	if err := f.wellFormed(); err != nil {
		return err
	}
	return f.terminalStaysTerminal()
}

func (f *fixture) perform(d action) {
	switch d.What {
	case "exit":
		f.world.Exit(d.Task, structs.ExitResult{})
	case "fail":
		f.world.Exit(d.Task, structs.ExitResult{ExitCode: 1})
	case "restart":
		_ = f.r.RestartTask(d.Task, "")
	case "restart-running":
		_ = f.r.RestartRunning("")
	case "restart-all":
		_ = f.r.RestartAll("")
	case "signal":
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		_ = f.r.Signal(ctx, d.Task, "HUP", "")
		cancel()
	case "update":
		f.change(func(*structs.Allocation) {})
	case "stale-update":
		old := f.alloc.Copy()
		old.AllocModifyIndex, old.DesiredStatus = 0, structs.DesiredStop
		f.r.Update(old)
	case "agent-restart", "reboot":
		f.r.Shutdown()
		<-f.r.ShutdownCh()
		if d.What == "reboot" {
			f.world.Lose()
		}
		before := f.r.AllocState()
		f.build()
		require.NoError(f.t, f.r.Restore())
		require.Equal(f.t, before.TaskStates, f.r.AllocState().TaskStates, "what is restored is what was")
		go f.r.Run()
	case "upgrade":
		f.world.Upgrade()
	case "missing":
		f.world.Missing(abi.NewRecoverableError(abi.Unavailable, "loading"))
	case "there":
		f.world.Missing(nil)
	case "wait-fault":
		f.world.Fail("wait", func() error { return errors.New("trap") })
	case "recover-fault":
		f.world.Fail("recover", func() error { return abi.NewRecoverableError(abi.Unavailable, "busy") })
	case "no-fault":
		f.world.Fail("wait", nil)
		f.world.Fail("recover", nil)
	case "stop":
		f.stop()
	}
}

// wellFormed checks what is true of every task's events at any time.
func (f *fixture) wellFormed() error {
	for name, s := range f.r.AllocState().TaskStates {
		var kinds []string
		last := int64(0)
		for _, e := range s.Events {
			if e.Time < last {
				return fmt.Errorf("%s: event %q is older than the one before", name, e.Type)
			}
			last = e.Time
			kinds = append(kinds, e.Type)
		}
		killing, killed := slices.Index(kinds, structs.EventKilling), slices.Index(kinds, structs.EventKilled)
		switch {
		case s.State == structs.TaskDead && killing >= 0 && killed < 0:
			return fmt.Errorf("%s: Killing without Killed: %v", name, kinds)
		case killed >= 0 && s.State != structs.TaskDead:
			return fmt.Errorf("%s: Killed and %s: %v", name, s.State, kinds)
		case killed >= 0 && killed < killing:
			return fmt.Errorf("%s: Killed before Killing: %v", name, kinds)
		case count(kinds, structs.EventKilling) > 1 || count(kinds, structs.EventKilled) > 1:
			return fmt.Errorf("%s: killed more than once: %v", name, kinds)
		case s.State == structs.TaskRunning && !s.FinishedAt.IsZero():
			return fmt.Errorf("%s: runs and has finished", name)
		case s.State == structs.TaskDead && s.FinishedAt.IsZero():
			return fmt.Errorf("%s: is dead and has not finished", name)
		}
	}
	return nil
}

func count(kinds []string, kind string) (n int) {
	for _, k := range kinds {
		if k == kind {
			n++
		}
	}
	return n
}

// terminalStaysTerminal checks the reports that the control plane got.
func (f *fixture) terminalStaysTerminal() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	var was structs.ClientStatus
	for _, s := range f.reports {
		if was.Terminal() && s.ClientStatus != was {
			return fmt.Errorf("%s became %s", was, s.ClientStatus)
		}
		was = s.ClientStatus
	}
	if !was.Terminal() {
		return fmt.Errorf("the last report is %s", was)
	}
	return nil
}
