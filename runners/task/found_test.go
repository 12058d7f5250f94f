package task_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/state"
	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/workload"
)

// left is what a node found of the last agent's.
type left struct {
	gone     string
	run      string                          // the task's; empty: none
	workload atomic.Pointer[workload.Status] // its workload; nil: there is none
}

func (l *left) Gone(string, bool) string            { return l.gone }
func (l *left) Run(_, _ string, _ time.Time) string { return l.run }
func (l *left) Inspect(context.Context, string) (*workload.Status, error) {
	if status := l.workload.Load(); status != nil {
		return status, nil
	}
	return nil, abi.ErrTaskNotFound
}

// forgotten is a task that runs and of which nothing is stored any more.
func forgotten(t *testing.T) (*fixture, *left) {
	f := newFixture(t, nil)
	f.start()
	synctest.Wait()
	local, _, err := f.db.Task("a1", "web")
	require.NoError(t, err)
	f.r.Shutdown()
	<-f.r.WaitCh()
	f.db = state.NewMem()
	found := &left{run: local.TaskID}
	found.workload.Store(&workload.Status{ID: local.TaskID, State: workload.Running})
	f.cfg.Left = found
	return f, found
}

// restored runs the task under a runner that reads back what there is.
func (f *fixture) restored() {
	r := f.build()
	require.NoError(f.t, r.Restore())
	go r.Run()
	synctest.Wait()
}

func TestARunOfWhichNothingIsStoredIsTakenBackByItsID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, found := forgotten(t)
		f.restored()
		require.Equal(t, structs.TaskRunning, f.r.State().State)
		require.Equal(t, 1, f.world.Started("web"))
		local, _, err := f.db.Task("a1", "web")
		require.NoError(t, err)
		require.Equal(t, found.run, local.TaskID)
		require.NotEmpty(t, local.Handle, "the next agent finds it as any other")
		f.cfg.Left = nil
		f.restartAgent()
		synctest.Wait()
		require.Equal(t, 1, f.world.Started("web"))
		f.finish()
	})
}

func TestATaskIsNotStartedBesideARunThatItsDriverDoesNotTakeBack(t *testing.T) {
	refuse := func() error { return abi.NewError(abi.InvalidArgument, "no driver state") }
	for name, end := range map[string]func(*fixture, *left){
		"until it has ended": func(_ *fixture, l *left) {
			l.workload.Store(&workload.Status{ID: l.run, State: workload.Exited, Exit: &structs.ExitResult{ExitCode: 1}})
		},
		"until it is discarded": func(_ *fixture, l *left) { l.workload.Store(nil) },
		"until it is taken":     func(f *fixture, _ *left) { f.world.Fail("recover", nil) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, found := forgotten(t)
				f.world.Fail("recover", refuse)
				f.restored()
				time.Sleep(time.Hour)
				synctest.Wait()
				require.Equal(t, 1, f.world.Started("web"))
				require.Equal(t, []string{"web"}, f.world.Running())
				require.Equal(t, structs.TaskPending, f.r.State().State)
				require.Contains(t, f.r.Held(), "wasmnode operator discard a1")
				require.Len(t, f.events(), 2, "%v", f.events())

				if name != "until it is taken" {
					f.world.Lose()
				}
				end(f, found)
				time.Sleep(time.Minute)
				synctest.Wait()
				require.Equal(t, structs.TaskRunning, f.r.State().State, "%v", f.events())
				require.Empty(t, f.r.Held())
				f.world.Fail("recover", nil)
				f.finish()
			})
		})
	}
}

func TestAHeldRunEndsWithItsTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, _ := forgotten(t)
		f.world.Fail("recover", func() error { return abi.NewError(abi.InvalidArgument, "no driver state") })
		f.restored()
		f.finish() // wants nothing to be left running
	})
}
