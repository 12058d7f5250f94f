package task_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/state"
	"github.com/wasmnode/wasmnode/structs"
)

// Whoever ran the task forgets how it ended when it is destroyed: an agent that dies
// right then has written it down.
func TestAnExitIsDurableBeforeTheTaskIsDestroyed(t *testing.T) {
	t.Run("the store works", func(t *testing.T) { testExitIsDurable(t, 0) })
	t.Run("the store fails once", func(t *testing.T) { testExitIsDurable(t, 1) })
}

// faulty is a store that does not store ends of runs as often as it says.
type faulty struct {
	state.DB
	faults *int
}

func (s faulty) PutTaskState(alloc, task string, ts *structs.TaskState) error {
	if ts.Events[len(ts.Events)-1].Type == structs.EventTerminated {
		if *s.faults--; *s.faults >= 0 {
			return errors.New("no")
		}
	}
	return s.DB.PutTaskState(alloc, task, ts)
}

func testExitIsDurable(t *testing.T, faults int) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, nil)
		f.db = faulty{f.db, &faults}
		died := state.NewMem() // as the agent leaves it that dies in the destroy
		f.world.Fail("destroy", func() error {
			local, shown, err := f.db.Task("a1", "web")
			require.NoError(t, err)
			require.NoError(t, died.PutTaskLocal("a1", "web", local))
			require.NoError(t, died.PutTaskState("a1", "web", shown))
			f.world.Fail("destroy", nil)
			return nil
		})
		f.start()
		synctest.Wait()
		require.True(t, f.world.Exit("web", structs.ExitResult{ExitCode: 7, Signal: 9, OOMKilled: true, Err: "why"}))
		synctest.Wait()
		f.r.Shutdown()
		<-f.r.WaitCh()
		before := f.events()

		f.db = died
		r := f.build()
		require.NoError(t, r.Restore())
		go r.Run()
		synctest.Wait()
		require.Equal(t, before, f.events())
		require.Contains(t, before[3], "Terminated: Exit Code: 7, Signal: 9")
		time.Sleep(11 * time.Second)
		synctest.Wait()
		require.Equal(t, begun, f.events()[5], "it is restarted once")
		require.Equal(t, 2, f.world.Started("web"))
		f.finish()
	})
}

// slowly is a store that takes its time to store the state of a task.
type slowly struct {
	state.DB
	begun chan string // the last event of each state
	over  chan error
}

func (s slowly) PutTaskState(alloc, task string, ts *structs.TaskState) error {
	s.begun <- ts.Events[len(ts.Events)-1].DisplayMessage
	if err := <-s.over; err != nil {
		return err
	}
	return s.DB.PutTaskState(alloc, task, ts)
}

func TestStatesAreStoredOneAfterAnotherAndThenShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, nil)
		store := slowly{f.db, make(chan string, 9), make(chan error)}
		f.db = store
		changed := 0
		f.cfg.Changed = func() { changed++ }
		r := f.build()
		emit := func(text string) {
			r.Emit(structs.NewTaskEvent(structs.EventDriver).WithMessage(text))
			synctest.Wait()
		}
		emit("one")
		require.Equal(t, "one", <-store.begun)
		emit("two")
		emit("three")
		require.Empty(t, store.begun, "one at a time")
		require.Len(t, r.State().Events, 1, "nothing is shown that is not stored")
		require.Zero(t, changed)
		store.over <- errors.New("no")
		require.Equal(t, "three", <-store.begun, "those that came meanwhile at once")
		require.Len(t, r.State().Events, 2, "a store that fails makes nobody blind")
		require.Equal(t, 1, changed)
		store.over <- nil
		r.Flush()
		require.Len(t, r.State().Events, 4)
		require.Equal(t, 2, changed)
		emit("four")
		require.Equal(t, "four", <-store.begun)
		r.Emit(structs.NewTaskEvent(structs.EventDriver).WithMessage("five"))
		closed := make(chan struct{})
		go func() { r.Close(); close(closed) }()
		synctest.Wait()
		store.over <- nil
		require.Equal(t, "five", <-store.begun)
		store.over <- nil
		<-closed
		emit("six")
		require.Empty(t, store.begun, "what comes after the end is not stored")
		require.Len(t, r.State().Events, 6)
	})
}
