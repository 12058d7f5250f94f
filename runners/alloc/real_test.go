package alloc_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/internal/plugintest"
	"github.com/wasmnode/wasmnode/structs"
)

// newRealFixture is a fixture on everything that is below a runner: a bbolt file, and the
// mock driver as a plugin in a catalog, in the sandbox.
func newRealFixture(t *testing.T, config string) *fixture {
	t.Helper()
	f := newFixture(t, fmt.Sprintf(`
job "j" {
  type = "batch"
  group "g" {
    restart {
      attempts = 1
      interval = "1h"
      delay    = "10ms"
      mode     = "fail"
    }
    task "web" {
      driver = "mock_driver"
      kill_timeout = "30s"
      config {
        %s
      }
    }
  }
}
`, config))
	f.db = openStore(t)
	f.dispense = plugintest.Dispense(t)
	return f
}

// until waits for a state that is as asked.
func (f *fixture) until(is func(*structs.AllocationState) bool) *structs.AllocationState {
	f.t.Helper()
	l := f.r.Listener()
	defer l.Close()
	late := time.After(5 * time.Minute)
	for {
		select {
		case s, open := <-l.Ch():
			if open && is(s) {
				return s
			}
			require.True(f.t, open, "the run has ended: %v", f.events("web"))
		case <-late:
			f.t.Fatalf("the state never came: %v", f.events("web"))
		}
	}
}

func running(s *structs.AllocationState) bool  { return s.ClientStatus == structs.ClientRunning }
func terminal(s *structs.AllocationState) bool { return s.ClientStatus.Terminal() }

const (
	eventReceived = "Received: Task received by client"
	eventSetup    = "Task Setup: Building Task Directory"
	eventStarted  = "Started: Task started by client"
)

func TestRealMockDriver(t *testing.T) {
	t.Run("a task that ends well", func(t *testing.T) {
		f := newRealFixture(t, `run_for = "20ms"`)
		f.start()
		f.until(terminal)
		<-f.r.WaitCh()
		require.Equal(t, []string{eventReceived, eventSetup, eventStarted, "Terminated: Exit Code: 0"}, f.events("web"))
		f.finish()
	})
	t.Run("a task that fails and is given up", func(t *testing.T) {
		f := newRealFixture(t, `exit_code = 3`)
		f.start()
		s := f.until(terminal)
		require.Equal(t, structs.ClientFailed, s.ClientStatus)
		<-f.r.WaitCh()
		require.Equal(t, []string{
			eventReceived, eventSetup, eventStarted, "Terminated: Exit Code: 3", "Restarting: Task restarting in 10ms",
			eventStarted, "Terminated: Exit Code: 3",
			`Not Restarting: Exceeded allowed attempts 1 in interval 1h0m0s and mode is "fail"`,
		}, f.events("web"))
		f.finish()
	})
	t.Run("a task that is killed, over an agent's restart", func(t *testing.T) {
		f := newRealFixture(t, `run_for = "1h"`)
		f.start()
		f.until(running)
		before := f.events("web")
		f.restartAgent()
		f.until(running)
		require.NoError(t, f.r.Signal(context.Background(), "web", "HUP", ""))
		require.NoError(t, f.r.RestartTask("web", "by hand"))
		f.until(func(s *structs.AllocationState) bool {
			e := s.TaskStates["web"].Events
			return e[len(e)-1].Type == structs.EventStarted && len(e) > len(before)
		})
		f.stop()
		<-f.r.WaitCh()
		events := f.events("web")
		require.Equal(t, "Killed: Task successfully killed", events[len(events)-1])
		require.Contains(t, events, "Killing: Sent interrupt. Waiting 30s before force killing")
		f.finish()
	})
	t.Run("a start that faults in the sandbox", func(t *testing.T) {
		f := newRealFixture(t, `start_fault = "trap"`)
		f.start()
		f.until(terminal)
		<-f.r.WaitCh()
		require.Contains(t, fmt.Sprint(f.events("web")), "Driver Failure")
		f.finish()
	})
	t.Run("a config that the schema refuses", func(t *testing.T) {
		f := newRealFixture(t, `nonsense = 1`)
		f.start()
		f.until(terminal)
		<-f.r.WaitCh()
		require.Contains(t, fmt.Sprint(f.events("web")), "Failed Validation: config.nonsense: unknown field")
		f.finish()
	})
}
