package alloc_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/structs"
)

// wholeLife is a group with a task of every kind.
func wholeLife(kind string, leader bool, attempts int) string {
	return fmt.Sprintf(`
job "j" {
  type = %q
  group "g" {
    restart {
      attempts = %d
      interval = "1h"
      delay    = "10s"
      mode     = "fail"
    }
    task "init" {
      driver = "mock"
      lifecycle { hook = "prestart" }
      config { run_for = "1s" }
    }
    task "aide" {
      driver = "mock"
      lifecycle {
        hook    = "prestart"
        sidecar = true
      }
    }
    task "web" {
      driver = "mock"
      leader = %t
    }
    task "ready" {
      driver = "mock"
      lifecycle { hook = "poststart" }
      config { run_for = "1s" }
    }
    task "watch" {
      driver = "mock"
      lifecycle {
        hook    = "poststart"
        sidecar = true
      }
    }
    task "tidy" {
      driver = "mock"
      lifecycle { hook = "poststop" }
      config { run_for = "1s" }
    }
  }
}
`, kind, attempts, leader)
}

var lifeTasks = []string{"init", "aide", "web", "ready", "watch", "tidy"}

// TestRestartsInEveryKindOfGroup says for each event how often each task was started in
// the end, and what became of it.
func TestRestartsInEveryKindOfGroup(t *testing.T) {
	exit := func(task string, code int) func(*fixture) error {
		return func(f *fixture) error {
			require.True(t, f.world.Exit(task, structs.ExitResult{ExitCode: code}))
			return nil
		}
	}
	restart := func(task string) func(*fixture) error {
		return func(f *fixture) error { return f.r.RestartTask(task, "by hand") }
	}
	alive := map[string]bool{"aide": true, "web": true, "watch": true}
	for _, c := range []struct {
		name     string
		kind     string
		attempts int
		event    func(*fixture) error
		starts   []int // as lifeTasks
		running  map[string]bool
		status   structs.ClientStatus
	}{
		{"all tasks are restarted", "service", 1, func(f *fixture) error { return f.r.RestartAll("") }, []int{2, 2, 2, 2, 2, 0}, alive, structs.ClientRunning},
		{"all tasks are restarted, without attempts", "service", 0, func(f *fixture) error { return f.r.RestartAll("") }, []int{2, 2, 2, 2, 2, 0}, alive, structs.ClientRunning},
		{"all tasks of a batch are restarted", "batch", 1, func(f *fixture) error { return f.r.RestartAll("") }, []int{2, 2, 2, 2, 2, 0}, alive, structs.ClientRunning},
		{"running tasks are restarted", "service", 1, func(f *fixture) error { return f.r.RestartRunning("") }, []int{1, 2, 2, 1, 2, 0}, alive, structs.ClientRunning},
		{"running tasks of a batch are restarted", "batch", 1, func(f *fixture) error { return f.r.RestartRunning("") }, []int{1, 2, 2, 1, 2, 0}, alive, structs.ClientRunning},
		{"the main task is restarted", "service", 1, restart("web"), []int{1, 1, 2, 1, 1, 0}, alive, structs.ClientRunning},
		{"the sidecar before it is restarted", "service", 1, restart("aide"), []int{1, 2, 1, 1, 1, 0}, alive, structs.ClientRunning},
		{"the sidecar after it is restarted", "service", 1, restart("watch"), []int{1, 1, 1, 1, 2, 0}, alive, structs.ClientRunning},
		{"the main task fails once", "service", 1, exit("web", 1), []int{1, 1, 2, 1, 1, 0}, alive, structs.ClientRunning},
		{"the main task of a batch fails once", "batch", 1, exit("web", 1), []int{1, 1, 2, 1, 1, 0}, alive, structs.ClientRunning},
		{"a service ends well and is restarted", "service", 1, exit("web", 0), []int{1, 1, 2, 1, 1, 0}, alive, structs.ClientRunning},
		{"a sidecar fails once", "batch", 1, exit("aide", 1), []int{1, 2, 1, 1, 1, 0}, alive, structs.ClientRunning},
		{"a sidecar ends well and is restarted, in a batch too", "batch", 1, exit("aide", 0), []int{1, 2, 1, 1, 1, 0}, alive, structs.ClientRunning},
		{"a batch ends well", "batch", 1, exit("web", 0), []int{1, 1, 1, 1, 1, 1}, nil, structs.ClientComplete},
		{"the main task fails for good", "service", 0, exit("web", 1), []int{1, 1, 1, 1, 1, 1}, nil, structs.ClientFailed},
		{"a sidecar fails for good", "service", 0, exit("watch", 1), []int{1, 1, 1, 1, 1, 1}, nil, structs.ClientFailed},
		{"the control plane stops it", "service", 1, func(f *fixture) error { f.stop(); return nil }, []int{1, 1, 1, 1, 1, 1}, nil, structs.ClientComplete},
	} {
		for _, leader := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, leader %t", c.name, leader), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					f := newFixture(t, wholeLife(c.kind, leader, c.attempts))
					f.start()
					time.Sleep(5 * time.Second)
					synctest.Wait()
					require.NoError(t, c.event(f))
					time.Sleep(30 * time.Second)
					synctest.Wait()
					s := f.r.AllocState()
					for i, name := range lifeTasks {
						require.Equal(t, c.starts[i], f.world.Started(name), "starts of %s: %v", name, f.events(name))
						want := structs.TaskDead
						if c.running[name] {
							want = structs.TaskRunning
						} else if name == "tidy" && c.running != nil {
							want = structs.TaskPending
						}
						require.Equal(t, want, s.TaskStates[name].State, name)
					}
					require.Equal(t, c.status, s.ClientStatus)
					f.finish()
				})
			})
		}
	}
}

func TestTasksAreKilledMainFirstThenSidecarsThenPoststopRuns(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, wholeLife("service", false, 1))
		for _, task := range f.group().Tasks {
			if task.Config == nil {
				task.Config = map[string]any{"kill_after": "2s"}
			}
		}
		f.start()
		time.Sleep(5 * time.Second)
		f.stop()
		<-f.r.WaitCh()
		s := f.r.AllocState().TaskStates
		for _, sidecar := range []string{"aide", "watch"} {
			require.False(t, s[sidecar].FinishedAt.Before(s["web"].FinishedAt.Add(2*time.Second)), sidecar)
			require.False(t, s["tidy"].StartedAt.Before(s[sidecar].FinishedAt), sidecar)
		}
		f.finish()
	})
}

// The gates are where they were when the agent comes back, whatever the tasks were at.
func TestTheLifeCycleGoesOnAfterAnAgentRestart(t *testing.T) {
	for name, c := range map[string]struct {
		at     time.Duration
		starts []int
	}{
		"while the first tasks run": {500 * time.Millisecond, []int{1, 1, 1, 1, 1, 0}},
		"while the main task runs":  {5 * time.Second, []int{1, 1, 1, 1, 1, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFixture(t, wholeLife("service", false, 1))
				f.start()
				time.Sleep(c.at)
				f.restartAgent()
				time.Sleep(10 * time.Second)
				synctest.Wait()
				for i, name := range lifeTasks {
					require.Equal(t, c.starts[i], f.world.Started(name), name)
				}
				require.Equal(t, []string{"aide", "watch", "web"}, f.world.Running())
				f.finish()
			})
		})
	}
	t.Run("while the last task runs", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			f := newFixture(t, wholeLife("service", false, 1))
			f.start()
			time.Sleep(5 * time.Second)
			f.stop()
			synctest.Wait()
			require.Equal(t, []string{"tidy"}, f.world.Running())
			f.restartAgent()
			<-f.r.WaitCh()
			require.Equal(t, 1, f.world.Started("tidy"))
			require.Equal(t, structs.ClientComplete, f.r.AllocState().ClientStatus)
			f.finish()
		})
	})
}

func TestAGroupWhoseLeaderDiedBeforeTheAgentRestartedEnds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, wholeLife("batch", true, 0))
		for _, task := range f.group().Tasks {
			if task.Name == "aide" {
				task.Config = map[string]any{"kill_after": "4s"}
			}
		}
		f.start()
		time.Sleep(5 * time.Second)
		require.True(t, f.world.Exit("web", structs.ExitResult{}))
		time.Sleep(time.Second)
		require.Equal(t, structs.TaskDead, f.r.AllocState().TaskStates["web"].State)
		f.restartAgent()
		<-f.r.WaitCh()
		require.Equal(t, structs.ClientComplete, f.r.AllocState().ClientStatus)
		require.Equal(t, 1, f.world.Started("web"))
		f.finish()
	})
}

// What comes after the others comes in an allocation that ends, too: there it is not killed, and its run
// that did not survive is not held for ever.
func TestAPoststopTaskThatDidNotSurviveStartsAgainWhenTheControlPlaneWasHeard(t *testing.T) {
	for name, end := range map[string]func(*fixture){
		"the control plane has stopped it": (*fixture).stop,
		"the main task has failed": func(f *fixture) {
			require.True(f.t, f.world.Exit("web", structs.ExitResult{ExitCode: 1}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFixture(t, `
job "j" {
  group "g" {
    restart {
      attempts = 0
      mode     = "fail"
    }
    task "web" { driver = "mock" }
    task "tidy" {
      driver = "mock"
      lifecycle { hook = "poststop" }
    }
  }
}
`)
				f.start()
				synctest.Wait()
				end(f)
				synctest.Wait()
				require.Equal(t, []string{"tidy"}, f.world.Running())
				f.r.Shutdown() // before: an agent that is there records how its task ends
				<-f.r.ShutdownCh()
				f.world.Lose()
				f.heard = make(chan struct{})
				f.restartAgent()
				synctest.Wait()
				require.Empty(t, f.world.Running(), "it waits until the control plane was heard")
				close(f.heard)
				synctest.Wait()
				require.Equal(t, []string{"tidy"}, f.world.Running())
				require.True(t, f.world.Exit("tidy", structs.ExitResult{}))
				<-f.r.WaitCh()
				require.Equal(t, 1, f.world.Started("web"))
				f.finish()
			})
		})
	}
}
