package node

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/state"
	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/structs/errdefs"
	"github.com/wasmnode/wasmnode/workload"
)

// leftWorkloads outlived the node.
type leftWorkloads struct{ left, destroyed []string }

func (l *leftWorkloads) Answers(context.Context) bool { return true }

func (l *leftWorkloads) List(context.Context) (list []*workload.Status, err error) {
	for _, id := range l.left {
		list = append(list, &workload.Status{ID: id, State: workload.Running})
	}
	return list, nil
}

func (l *leftWorkloads) Inspect(_ context.Context, id string) (*workload.Status, error) {
	if slices.Contains(l.left, id) && !slices.Contains(l.destroyed, id) {
		return &workload.Status{ID: id, State: workload.Running}, nil
	}
	return nil, abi.ErrTaskNotFound
}

func (l *leftWorkloads) Destroy(_ context.Context, id string) error {
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

func (w *world) unclaimed() (ids []string) {
	for _, u := range w.node.Unclaimed(context.Background()) {
		ids = append(ids, u.AllocID)
	}
	return ids
}

func TestOnlyWhatItsOwnAllocationDoesNotHaveIsDestroyed(t *testing.T) {
	w := newWorld(t)
	w.start()
	w.run("s", "service")
	a := w.awaitStatus("s", structs.ClientRunning)
	w.end()
	local, _, err := w.db.Task(a.ID, "t")
	require.NoError(t, err)

	earlier := a.ID + "/t/earlier"
	for range 2 { // what was kept once is kept again
		left := &leftWorkloads{left: []string{local.TaskID, earlier, "forgotten/t/1", "odd"}}
		w.left = left
		w.start()
		require.Equal(t, []string{earlier}, left.destroyed)
		require.Equal(t, []string{"forgotten", "odd"}, w.unclaimed())
		require.Equal(t, 1, w.machine.started(a.ID))
		w.end()
	}
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

func TestARunWhoseTaskCannotBeReadIsTakenBack(t *testing.T) {
	w := newWorld(t)
	w.start()
	w.run("s", "service")
	a := w.awaitStatus("s", structs.ClientRunning)
	w.end()
	local, _, err := w.db.Task(a.ID, "t")
	require.NoError(t, err)
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
