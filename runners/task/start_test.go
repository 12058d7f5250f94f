package task_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/runners/task"
	"github.com/wasmnode/wasmnode/state"
	"github.com/wasmnode/wasmnode/structs"
)

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

// unkept is a store that does not store what a run left, once.
type unkept struct {
	state.DB
	failed *bool
}

func (s unkept) PutTaskLocal(alloc, task string, local *state.TaskLocal) error {
	if !*s.failed {
		*s.failed = true
		return errors.New("no")
	}
	return s.DB.PutTaskLocal(alloc, task, local)
}

// The driver was asked for a start, and the agent died before it had the answer. What could
// not be found again does not go on.
func TestAStartThatTheDriverKnowsGoesOn(t *testing.T) {
	t.Run("when that can be stored", func(t *testing.T) { testStartKnown(t, false) })
	t.Run("not when it cannot", func(t *testing.T) { testStartKnown(t, true) })
}

func testStartKnown(t *testing.T, fails bool) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, nil)
		local, _ := f.stored()
		begun := *local
		begun.Handle = nil
		f.db = state.NewMem()
		require.NoError(t, f.db.PutTaskLocal("a1", "web", &begun))
		failed := !fails
		f.db = unkept{f.db, &failed}
		f.restored()
		require.Equal(t, structs.TaskRunning, f.r.State().State)
		kept, _, err := f.db.Task("a1", "web")
		require.NoError(t, err)
		require.Equal(t, fails, local.TaskID != kept.TaskID)
		require.Equal(t, 1, f.world.Known())
		require.NotEmpty(t, kept.Handle)
		f.finish()
	})
}

// Whatever a driver starts can be found and ended, when the agent dies the next moment.
func TestAStartIsDurableBeforeTheDriverGetsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, nil)
		seen := map[string]bool{}
		f.world.Fail("start", func() error {
			local, _, err := f.db.Task("a1", "web")
			require.NoError(t, err)
			require.Equal(t, "mock", local.Driver)
			require.NotEmpty(t, local.Config)
			require.Empty(t, local.Handle)
			seen[local.TaskID] = true
			return nil
		})
		f.start()
		for n := range 3 {
			synctest.Wait()
			require.Len(t, seen, n+1)
			require.NoError(t, f.r.Restart(task.RestartRequest{}))
		}
		f.finish()
	})
}

func TestAnAgentThatStopsGivesAStartTimeToFinish(t *testing.T) {
	for takes, c := range map[string]struct {
		waits  time.Duration
		starts int
	}{"3s": {2 * time.Second, 1}, "1h": {startGrace, 0}} {
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(t, map[string]any{"start_for": takes})
			f.start()
			time.Sleep(time.Second)
			begin := time.Now()
			f.r.Shutdown()
			<-f.r.WaitCh()
			require.Equal(t, c.waits, time.Since(begin))
			require.Equal(t, []string{received, setup, begun}[:2+c.starts], f.events())
			require.Equal(t, c.starts, f.world.Known())
			f.restored()
			require.Equal(t, c.starts, f.world.Count("recover web"))
			require.Equal(t, c.starts, f.world.Started("web"))
			f.finish()
		})
	}
}

// startGrace is what a driver that starts a task gets when the agent stops.
const startGrace = 5 * time.Second
