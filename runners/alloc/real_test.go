package alloc_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/host/engine"
	"github.com/wasmnode/wasmnode/internal/guestbuild"
	"github.com/wasmnode/wasmnode/managers"
	"github.com/wasmnode/wasmnode/runners/task"
	"github.com/wasmnode/wasmnode/state"
	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/workload/wasi"
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
      interval = "1m"
      delay    = "10ms"
      mode     = "fail"
    }
    task "web" {
      driver = "mock_driver"
      kill_timeout = "2s"
      config {
        %s
      }
    }
  }
}
`, config))
	var err error
	f.db, err = state.Open(filepath.Join(t.TempDir(), "state.db"), state.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.db.Close()) })
	f.dispense = realDispense(t)
	return f
}

func realDispense(t *testing.T) task.Dispense {
	t.Helper()
	plugins := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(plugins, "mock.wasm"), guestbuild.Plugin(t, "guest-examples/drivers/mock"), 0o600))
	e, err := engine.New(cacheDir)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close(context.Background())) })
	log := hclog.NewNullLogger()
	workloads := wasi.New(wasi.Config{Logger: log, Engine: e})
	t.Cleanup(func() { require.NoError(t, workloads.Close()) })
	h := host.New(host.Config{Logger: log, Engine: e, Workloads: workloads, Version: "0.0.0"})
	catalog, err := managers.NewCatalog(managers.CatalogConfig{Dir: plugins, Logger: log, Loader: managers.HostLoader{
		Host: h, Grants: func(string) host.Grants { return host.Grants{} },
	}})
	require.NoError(t, err)
	drivers := managers.NewDriverManager(managers.DriverManagerConfig{
		Catalog: catalog, Workloads: workloads, Logger: log,
		PluginConfig: func(string) map[string]any { return nil },
	})
	catalog.Start()
	t.Cleanup(func() {
		drivers.Shutdown()
		catalog.Shutdown()
	})
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	require.NoError(t, drivers.WaitForFirstFingerprint(ctx))
	return func(name string) (task.Driver, error) {
		d, err := drivers.Dispense(name)
		if err != nil {
			return nil, err // a nil *Driver is not a nil Driver
		}
		return d, nil
	}
}

// until waits for a state that is as asked.
func (f *fixture) until(is func(*structs.AllocationState) bool) *structs.AllocationState {
	f.t.Helper()
	l := f.r.Listener()
	defer l.Close()
	late := time.After(time.Minute)
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
	if testing.Short() {
		t.Skip("compiles a plugin")
	}
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
			`Not Restarting: Exceeded allowed attempts 1 in interval 1m0s and mode is "fail"`,
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
		require.Contains(t, events, "Killing: Sent interrupt. Waiting 2s before force killing")
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
