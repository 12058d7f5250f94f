package task_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/internal/boltfile"
	"github.com/wasmnode/wasmnode/runners/task"
	"github.com/wasmnode/wasmnode/state"
	"github.com/wasmnode/wasmnode/structs"
)

// filling is a store on a disk that fills up.
type filling struct {
	state.DB
	full  atomic.Bool
	after atomic.Int64 // writes that there is room for before; below 1: full says it
}

func (f *filling) room() error {
	if f.after.Add(-1) == 0 {
		f.full.Store(true)
	}
	if f.full.Load() {
		return fmt.Errorf("client.db: %w", boltfile.ErrFull)
	}
	return nil
}

func (f *filling) PutTaskLocal(alloc, task string, local *state.TaskLocal) error {
	if err := f.room(); err != nil {
		return err
	}
	return f.DB.PutTaskLocal(alloc, task, local)
}

func (f *filling) PutTaskState(alloc, task string, s *structs.TaskState) error {
	if err := f.room(); err != nil {
		return err
	}
	return f.DB.PutTaskState(alloc, task, s)
}

func (f *filling) PutTask(alloc, task string, local *state.TaskLocal, s *structs.TaskState) error {
	if err := f.room(); err != nil {
		return err
	}
	return f.DB.PutTask(alloc, task, local, s)
}

const waitingForRoom = "Task Setup: Waiting for room on the node's disk"

// A full disk is no failure of the task: at whichever write it fills up, the task starts
// once when there is room, and no attempt is charged.
func TestATaskStartsWhenThereIsRoomOnTheDisk(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for n := range int64(8) {
			f := newFixture(t, nil)
			db := &filling{DB: f.db}
			db.after.Store(n + 1)
			f.db = db
			f.start()
			time.Sleep(time.Hour)
			synctest.Wait()
			waited := db.full.Load()
			db.full.Store(false)
			time.Sleep(2 * time.Second)
			synctest.Wait()
			require.Equal(t, structs.TaskRunning, f.r.State().State, "%d: %v", n, f.events())
			require.Zero(t, f.r.State().Restarts)
			require.Equal(t, 1, f.world.Started("web"))
			if n == 0 {
				require.True(t, waited)
				require.Contains(t, f.events(), waitingForRoom)
			}
			f.finish()
		}
	})
}

// Who ran a task forgets how it ended when it is told to: not before that is stored. An
// agent that dies or ends on the full disk finds it again.
func TestAnExitOnAFullDiskIsKeptUntilThereIsRoom(t *testing.T) {
	for _, agent := range []string{"stays", "ends"} {
		t.Run(agent, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFixture(t, nil)
				f.task.RestartPolicy.Attempts = ptr(0)
				db := &filling{DB: f.db}
				f.db = db
				f.start()
				synctest.Wait()
				db.full.Store(true)
				f.world.Exit("web", structs.ExitResult{ExitCode: 7})
				time.Sleep(time.Hour)
				synctest.Wait()
				require.Equal(t, structs.TaskPending, f.r.State().State, "it does not run")
				require.Contains(t, f.events(), waitingForRoom)
				require.Equal(t, 1, f.world.Known(), "how it ended")
				if agent == "ends" {
					before := f.r
					f.restartAgent()
					require.ErrorIs(t, before.CanExec(), task.ErrNotRunning)
				}
				db.full.Store(false)
				time.Sleep(2 * time.Second)
				synctest.Wait()
				require.Equal(t, structs.TaskDead, f.r.State().State)
				require.Contains(t, f.events(), "Terminated: Exit Code: 7")
				require.Equal(t, 1, f.world.Started("web"))
				f.finish()
			})
		})
	}
}

// A kill does not wait for room.
func TestATaskIsKilledOnAFullDisk(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for _, started := range []bool{false, true} {
			f := newFixture(t, nil)
			db := &filling{DB: f.db}
			f.db = db
			db.full.Store(!started)
			f.start()
			synctest.Wait()
			db.full.Store(true)
			begin := time.Now()
			f.r.Kill(nil)
			<-f.r.WaitCh()
			require.LessOrEqual(t, time.Since(begin), 5*time.Second)
			require.Equal(t, structs.TaskDead, f.r.State().State)
			f.finish()
		}
	})
}
