package task_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/runners/task"
	"github.com/wasmnode/wasmnode/state"
	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/workload"
)

// left is what a node found of the last agent's.
type left struct {
	gone     string
	run      string // the task's; empty: none
	mu       sync.Mutex
	workload *workload.Status // its workload; nil: there is none

	since time.Time // what the run was asked for last with
	had   bool      // whether a run that was asked for last has a workload
}

func (l *left) Gone(_ string, workload bool) string {
	l.had = workload
	return l.gone
}

func (l *left) Run(_, _ string, since time.Time) string {
	l.since = since
	return l.run
}

func (l *left) Inspect(context.Context, string) (*workload.Status, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.workload == nil {
		return nil, abi.ErrTaskNotFound
	}
	now := *l.workload
	return &now, nil
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
	found := &left{run: local.TaskID, workload: &workload.Status{ID: local.TaskID, State: workload.Running}}
	f.cfg.Left = found
	return f, found
}

// stored runs the task until its agent ends, and returns what is stored of it then.
func (f *fixture) stored() (*state.TaskLocal, *structs.TaskState) {
	f.start()
	synctest.Wait()
	f.r.Shutdown()
	<-f.r.WaitCh()
	local, s, err := f.db.Task("a1", "web")
	require.NoError(f.t, err)
	return local, s
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
		require.Contains(t, string(local.Handle), "version 0", "the next agent finds it as any other")
		f.cfg.Left = &left{run: "a1/web/another"}
		f.restartAgent()
		synctest.Wait()
		require.Equal(t, 1, f.world.Started("web"), "what is stored and not gone is the task's")
		f.finish()
	})
}

// A database may be whole, and what is in it not.
func TestARunWhoseRecordCannotBeReadIsTakenBackByItsID(t *testing.T) {
	for name, damage := range map[string]func(*state.TaskLocal){
		"configuration": func(l *state.TaskLocal) { l.Config = []byte{0xff} },
		"handle":        func(l *state.TaskLocal) { l.Handle = []byte{0xff} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, nil)
				local, s := f.stored()
				damaged := *local
				damage(&damaged)
				require.NoError(t, f.db.PutTask("a1", "web", &damaged, s))
				f.cfg.Left = &left{}
				f.restored()
				require.Equal(t, structs.TaskRunning, f.r.State().State)
				require.Equal(t, 1, f.world.Started("web"), "it runs, and nothing is started beside it")
				stored, _, err := f.db.Task("a1", "web")
				require.NoError(t, err)
				require.NotEqual(t, damaged, *stored, "the next agent finds it as any other")
				f.finish()
			})
		})
	}
}

// A copy of the store may be older than the run that goes on.
func TestARunThatWasStartedAfterWhatIsStoredIsTakenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, nil)
		local, s := f.stored()
		older := *local
		older.TaskID = "a1/web/older"
		var err error
		older.Config, err = (&wasmnodev1.TaskConfig{Id: older.TaskID, Name: "web", AllocId: "a1"}).MarshalVT()
		require.NoError(t, err)
		f.db = state.NewMem()
		require.NoError(t, f.db.PutTask("a1", "web", &older, s))
		found := &left{gone: "the end of the supervisor", run: local.TaskID}
		f.cfg.Left = found
		f.restored()
		require.Equal(t, structs.TaskRunning, f.r.State().State)
		require.Equal(t, 1, f.world.Started("web"))
		require.Equal(t, s.StartedAt, found.since)
		f.finish()
	})
}

// Nor has a copy to have a run: the task waited for its start then, or its run had ended.
func TestARunIsTakenBackWhateverTheTaskDidWhenItsStoreWasCopied(t *testing.T) {
	ended := structs.NewTaskEvent(structs.EventTerminated).WithExit(&structs.ExitResult{ExitCode: 1})
	for name, stored := range map[string]*structs.TaskState{
		"it was new":                     {State: structs.TaskPending, Events: []*structs.TaskEvent{structs.NewTaskEvent(structs.EventReceived)}},
		"it was to start again":          {State: structs.TaskPending, Events: []*structs.TaskEvent{ended, structs.NewTaskEvent(structs.EventRestarting)}},
		"it was to be decided on":        {State: structs.TaskRunning, Events: []*structs.TaskEvent{ended}},
		"it was to be decided on, later": {State: structs.TaskPending, Events: []*structs.TaskEvent{ended}},
	} {
		for _, run := range []string{"", "a1/web/older"} {
			t.Run(name+run, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f, found := forgotten(t)
					found.gone = "the end of the supervisor"
					require.NoError(t, f.db.PutTask("a1", "web", &state.TaskLocal{TaskID: run}, stored))
					f.restored()
					require.Equal(t, 1, f.world.Started("web"), "nothing is started beside it: %v", f.events())
					require.Equal(t, []string{"web"}, f.world.Running())
					require.Equal(t, structs.TaskRunning, f.r.State().State)
					if stored.State == structs.TaskPending {
						require.Equal(t, stored.Events[len(stored.Events)-1].Time, found.since.UnixNano(), "what was started before is not its")
					}
					f.cfg.Left = &left{}
					f.restartAgent()
					synctest.Wait()
					require.Equal(t, 1, f.world.Started("web"), "nor by the next agent: %v", f.events())
					f.finish()
				})
			})
		}
	}
}

func TestADeadTaskHasNoRunToTakeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, _ := forgotten(t)
		f.world.Lose()
		f.alloc.TaskStates = map[string]*structs.TaskState{"web": {State: structs.TaskDead}}
		f.restored()
		require.Empty(t, f.r.RestoredRun())
		require.Equal(t, structs.TaskDead, f.r.State().State)
		f.finish()
	})
}

func TestWhatAStoredStateIsWorth(t *testing.T) {
	handle, err := (&wasmnodev1.TaskHandle{WorkloadId: "a1/web/1"}).MarshalVT()
	require.NoError(t, err)
	bare, err := (&wasmnodev1.TaskHandle{Version: 1}).MarshalVT()
	require.NoError(t, err)
	running := &structs.TaskState{State: structs.TaskRunning}
	stored := &state.TaskLocal{TaskID: "a1/web/1", Handle: handle}
	const why = "the restart of the machine"
	for name, c := range map[string]struct {
		state *structs.TaskState
		local *state.TaskLocal
		gone  string
		had   bool
		want  structs.TaskPhase
	}{
		"it may be there":          {running, stored, "", true, structs.TaskRunning},
		"it is gone":               {running, stored, why, true, structs.TaskPending},
		"it had no workload":       {running, &state.TaskLocal{TaskID: "a1/web/1", Handle: bare}, why, false, structs.TaskPending},
		"its handle is unreadable": {running, &state.TaskLocal{TaskID: "a1/web/1", Handle: handle[:len(handle)-1]}, why, false, structs.TaskPending},
		"it has no run":            {running, &state.TaskLocal{}, why, false, structs.TaskRunning},
		"nothing else is stored":   {running, nil, why, false, structs.TaskRunning},
		"it has ended":             {&structs.TaskState{State: structs.TaskDead}, stored, why, false, structs.TaskDead},
	} {
		found := &left{gone: c.gone}
		require.Equal(t, c.want, task.Restored(c.state, c.local, found).State, name)
		require.Equal(t, c.had, found.had, name)
		require.Equal(t, c.state, task.Restored(c.state, c.local, nil), name)
	}
	require.Nil(t, task.Restored(nil, stored, &left{gone: why}))
}

func TestATaskIsNotStartedBesideARunThatItsDriverDoesNotTakeBack(t *testing.T) {
	refuse := func() error { return abi.NewError(abi.InvalidArgument, "no driver state") }
	for name, end := range map[string]func(*fixture, *left){
		"until it has ended": func(_ *fixture, l *left) {
			l.workload.State, l.workload.Exit = workload.Exited, &structs.ExitResult{ExitCode: 1}
		},
		"until it is discarded": func(_ *fixture, l *left) { l.workload = nil },
		"until it is taken":     func(f *fixture, _ *left) { f.world.Fail("recover", nil) },
		"until its job is right": func(f *fixture, _ *left) {
			f.task.Config = nil
			f.world.Fail("recover", nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, found := forgotten(t)
				f.world.Fail("recover", refuse)
				if name == "until its job is right" {
					f.task.Config = map[string]any{"nonsense": 1}
				}
				f.restored()
				time.Sleep(time.Hour)
				synctest.Wait()
				require.Equal(t, 1, f.world.Started("web"))
				require.Equal(t, []string{"web"}, f.world.Running())
				require.Equal(t, structs.TaskPending, f.r.State().State)
				require.Contains(t, f.r.Held(), "wasmnode operator discard a1")
				require.Len(t, f.events(), 2, "%v", f.events())

				if name != "until it is taken" && name != "until its job is right" {
					f.world.Lose()
				}
				found.mu.Lock()
				end(f, found)
				found.mu.Unlock()
				time.Sleep(time.Minute)
				synctest.Wait()
				require.Equal(t, structs.TaskRunning, f.r.State().State, "%v", f.events())
				require.Empty(t, f.r.Held())
				require.Equal(t, name == "until it has ended", slices.Contains(f.events(), exit1))
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
