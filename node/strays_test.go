package node

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/state"
	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/structs/errdefs"
	"github.com/wasmnode/wasmnode/workload"
)

// leftWorkloads outlived the node.
type leftWorkloads struct {
	left, destroyed []string
	beside          map[string]string // what they stand beside
	started         time.Time         // all of them
	mu              sync.Mutex
	ended           bool // all of them have, since they were listed
}

func (l *leftWorkloads) Answers(context.Context) bool { return true }

func (l *leftWorkloads) List(context.Context) (list []*workload.Status, err error) {
	for _, id := range l.left {
		list = append(list, &workload.Status{ID: id, Beside: l.beside[id], State: workload.Running, StartedAt: l.started})
	}
	return list, nil
}

func (l *leftWorkloads) Inspect(_ context.Context, id string) (*workload.Status, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case !slices.Contains(l.left, id) || slices.Contains(l.destroyed, id):
		return nil, abi.ErrTaskNotFound
	case l.ended:
		return &workload.Status{ID: id, State: workload.Exited}, nil
	}
	return &workload.Status{ID: id, State: workload.Running}, nil
}

func (l *leftWorkloads) Destroy(_ context.Context, id string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.destroyed = append(l.destroyed, id)
	return nil
}

// unreadableTasks has allocations whose tasks cannot be read.
type unreadableTasks struct{ state.DB }

func (unreadableTasks) Task(string, string) (*state.TaskLocal, *structs.TaskState, error) {
	return nil, nil, errors.New("damaged")
}

// unreadableAllocation has one allocation more, which cannot be read.
type unreadableAllocation struct{ state.DB }

func (u unreadableAllocation) Allocations() ([]*structs.Allocation, map[string]error, error) {
	allocs, _, err := u.DB.Allocations()
	return allocs, map[string]error{"unreadable": errors.New("damaged")}, err
}

// unclaimed is what waits for a decision once the control plane has answered.
func (w *world) unclaimed() (ids []string) {
	require.Eventually(w.t, func() bool {
		w.node.mu.Lock()
		defer w.node.mu.Unlock()
		return w.node.settled
	}, 30*time.Second, time.Millisecond)
	for _, u := range w.node.Unclaimed(context.Background()) {
		ids = append(ids, u.AllocID)
	}
	return ids
}

// leftRunning is a node that has ended and left a task running.
func leftRunning(t *testing.T) (w *world, a *structs.Allocation, local *state.TaskLocal) {
	t.Helper()
	w = newWorld(t)
	w.start()
	w.run("s", "service")
	a = w.awaitStatus("s", structs.ClientRunning)
	w.end()
	local, _, err := w.db.Task(a.ID, "t")
	require.NoError(t, err)
	return w, a, local
}

func TestOnlyWhatItsOwnAllocationDoesNotHaveIsDestroyed(t *testing.T) {
	w, a, local := leftRunning(t)

	earlier := a.ID + "/t/earlier"
	side, earlierSide := local.TaskID+"/side", earlier+"/side"
	for range 2 { // what was kept once is kept again
		left := &leftWorkloads{left: []string{local.TaskID, side, earlier, earlierSide, "forgotten/t/1", "odd"}, beside: map[string]string{side: local.TaskID, earlierSide: earlier}}
		w.left = left
		w.start()
		require.Equal(t, []string{earlier, earlierSide}, left.destroyed)
		require.Equal(t, []string{"forgotten", "odd"}, w.unclaimed())
		require.Equal(t, 1, w.machine.started(a.ID))
		w.end()
	}
}

// A request that reads may come from anybody who may read.
func TestReadingWhatIsUnclaimedHasNoEffect(t *testing.T) {
	w := newWorld(t)
	left := &leftWorkloads{left: []string{"forgotten/t/1"}}
	w.left = left
	w.start()
	require.Equal(t, []string{"forgotten"}, w.unclaimed())
	left.mu.Lock()
	left.ended = true
	left.mu.Unlock()
	require.Empty(t, w.unclaimed())
	destroyed := func() []string {
		left.mu.Lock()
		defer left.mu.Unlock()
		return slices.Clone(left.destroyed)
	}
	require.Empty(t, destroyed())
	w.node.ended.Set() // the garbage collector looks
	require.Eventually(t, func() bool { return len(destroyed()) == 1 }, 30*time.Second, time.Millisecond)
}

func TestATaskOfWhichNothingIsStoredHasNotBegun(t *testing.T) {
	w := newWorld(t)
	w.start()
	tasks := []*nomad.Task{{Name: "one"}, {Name: "other"}}
	group := "g"
	a := &structs.Allocation{ID: "a", TaskGroup: group, Job: &nomad.Job{TaskGroups: []*nomad.TaskGroup{{Name: &group, Tasks: tasks}}}}
	require.Equal(t, structs.ClientPending, w.node.storedState(a).ClientStatus)
	require.NoError(t, w.db.PutTaskState("a", "one", &structs.TaskState{State: structs.TaskDead, Failed: true}))
	require.Equal(t, structs.ClientFailed, w.node.storedState(a).ClientStatus)
	b := *a
	b.ID = "b"
	require.NoError(t, w.db.PutAllocationState(&structs.AllocationState{ID: "b", ClientStatus: structs.ClientFailed, ClientDescription: "before its tasks"}))
	require.Equal(t, structs.ClientFailed, w.node.storedState(&b).ClientStatus, "it does not look live")
}

func TestWhatCannotBeReadIsKeptUntilSomebodyDecides(t *testing.T) {
	w := newWorld(t)
	w.db = unreadableAllocation{w.db}
	for range 2 {
		left := &leftWorkloads{left: []string{"unreadable/t/1"}}
		w.left = left
		w.start()
		require.Empty(t, left.destroyed)
		require.Equal(t, []string{"unreadable"}, w.unclaimed())
		require.ErrorIs(t, w.node.Adopt(t.Context(), "unreadable"), errdefs.FailedPrecondition)
		w.end()
	}
	left := &leftWorkloads{left: []string{"unreadable/t/1"}}
	w.left = left
	w.start()
	require.NoError(t, w.node.Discard(t.Context(), "unreadable"))
	require.Equal(t, left.left, left.destroyed)
	require.Empty(t, w.unclaimed())
	require.ErrorIs(t, w.node.Discard(t.Context(), "unreadable"), errdefs.NotFound)
}

func TestADirectoryThatNobodyKnowsIsKeptUntilSomebodyDecides(t *testing.T) {
	w := newWorld(t)
	const id = "5b9fc6a4-6c66-4fbc-9ba6-0b8a3f7f4a11"
	dir := filepath.Join(w.dir, "alloc", id)
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "alloc", "data"), 0o755))
	w.start()
	require.Equal(t, []string{id}, w.unclaimed())
	w.node.CollectGarbage(t.Context())
	require.DirExists(t, dir)
	require.NoError(t, w.node.Discard(t.Context(), id))
	require.NoDirExists(t, dir)
	require.Empty(t, w.unclaimed())
}

// An allocation that has ended, and of which the node knows no more, is collected as any other.
func TestTheDirectoryOfAnEndedAllocationIsCollectedThoughTheNodeLostItsDatabase(t *testing.T) {
	w := newWorld(t)
	w.start()
	w.run("b", "batch")
	a := w.awaitStatus("b", structs.ClientRunning)
	w.machine.end(a.ID, 0)
	w.awaitStatus("b", structs.ClientComplete)
	w.end()
	w.db = state.NewMem()
	w.start()
	require.Empty(t, w.unclaimed())
	dir := filepath.Join(w.dir, "alloc", a.ID)
	require.DirExists(t, dir)
	require.Eventually(t, func() bool {
		w.node.CollectGarbage(t.Context())
		_, err := os.Stat(dir)
		return errors.Is(err, os.ErrNotExist)
	}, 30*time.Second, time.Millisecond)
	require.Equal(t, 1, w.machine.started(a.ID))
	require.Equal(t, structs.ClientComplete, w.embedded.Allocation(a.ID).ClientStatus)
}

func TestARunWhoseTaskCannotBeReadIsTakenBack(t *testing.T) {
	w, a, local := leftRunning(t)
	w.db = unreadableTasks{w.db}
	left := &leftWorkloads{left: []string{local.TaskID}}
	w.left = left
	w.start()
	require.Eventually(t, func() bool {
		r, err := w.node.runner(a.ID)
		return err == nil && r.AllocState().ClientStatus == structs.ClientRunning
	}, 30*time.Second, time.Millisecond)
	require.Equal(t, 1, w.machine.started(a.ID))
	require.Empty(t, left.destroyed)
	require.Empty(t, w.unclaimed())
}

// A copy of the node's database is older than the task's last restart: what runs since then is
// the task, and nothing that nobody wants.
func TestARunThatIsNewerThanWhatIsStoredIsTakenBack(t *testing.T) {
	for _, newer := range []bool{true, false} {
		w := newWorld(t)
		w.start()
		w.run("s", "service")
		a := w.awaitStatus("s", structs.ClientRunning)
		w.end()
		local, ts, err := w.db.Task(a.ID, "t")
		require.NoError(t, err)
		stale := *local
		stale.TaskID = a.ID + "/t/stale"
		handle := &wasmnodev1.TaskHandle{WorkloadId: stale.TaskID}
		stale.Handle, err = handle.MarshalVT()
		require.NoError(t, err)
		require.NoError(t, w.db.PutTask(a.ID, "t", &stale, ts))

		left := &leftWorkloads{left: []string{local.TaskID}, started: ts.StartedAt.Add(time.Second)}
		if !newer {
			left.started = ts.StartedAt.Add(-time.Second)
		}
		w.left = left
		w.start()
		require.Empty(t, w.unclaimed())
		if !newer {
			require.Equal(t, []string{local.TaskID}, left.destroyed)
			continue
		}
		require.Empty(t, left.destroyed)
		w.await("the task has its run", func() bool {
			now, _, err := w.db.Task(a.ID, "t")
			require.NoError(t, err)
			return now.TaskID == local.TaskID && len(now.Handle) > 0
		})
		require.Equal(t, 1, w.machine.started(a.ID))
	}
}

func TestWhatRunsHasNotFailedBecauseItCannotBeStored(t *testing.T) {
	w, a, local := leftRunning(t)
	db := &refusing{DB: state.NewMem()}
	failed := errors.New("input/output error")
	db.err.Store(&failed)
	w.db = db
	left := &leftWorkloads{left: []string{local.TaskID}}
	w.left = left
	w.start()
	require.Equal(t, []string{a.ID}, w.unclaimed())
	require.Contains(t, w.node.Unclaimed(t.Context())[0].Reason, "input/output error")
	require.Empty(t, left.destroyed)
	require.Len(t, w.embedded.JobAllocations("default", "s"), 1, "no other is started beside it")
}
