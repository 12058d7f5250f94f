package task_test

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"
)

func TestADispatchedPayloadIsWrittenOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, map[string]any{"run_for": "1s", "exit_code": 1})
		f.task.DispatchPayload = &nomad.DispatchPayloadConfig{File: "in/put.json"}
		f.alloc.Job.Payload = []byte(`{"n":1}`)
		f.start()
		synctest.Wait()
		require.Equal(t, `{"n":1}`, f.read("web/local/in/put.json"))
		require.NoError(t, os.WriteFile(filepath.Join(f.dir.Path(), "web/local/in/put.json"), []byte("the task's own"), 0o600))
		time.Sleep(500 * time.Millisecond)
		f.restartAgent()
		time.Sleep(20 * time.Second)
		require.Equal(t, 2, f.world.Started("web"))
		require.Equal(t, "the task's own", f.read("web/local/in/put.json"))
		f.finish()
	})
}

func TestATaskWithoutAPayloadGetsNoFile(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, nil)
		f.task.DispatchPayload = &nomad.DispatchPayloadConfig{File: "input"}
		f.start()
		synctest.Wait()
		require.Equal(t, []string{received, setup, begun}, f.events())
		require.NoFileExists(t, filepath.Join(f.dir.Path(), "web/local/input"))
		f.finish()
	})
}

func TestAPayloadStaysInTheTasksDirectory(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, nil)
		f.task.DispatchPayload = &nomad.DispatchPayloadConfig{File: "../secrets/input"}
		f.alloc.Job.Payload = []byte("x")
		f.start()
		f.untilDead()
		require.Equal(t, []string{
			received, setup,
			"Task hook failed: dispatch_payload: mkdirat ../secrets: path escapes from parent",
			"Not Restarting: Error was unrecoverable",
		}, f.events())
		require.NoFileExists(t, filepath.Join(f.dir.Path(), "web/secrets/input"))
		f.finish()
	})
}
