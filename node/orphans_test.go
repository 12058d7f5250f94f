package node

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/state"
	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/workload"
)

// leftWorkloads outlived the node.
type leftWorkloads struct{ left, destroyed []string }

func (l *leftWorkloads) Answers(context.Context) bool { return true }

func (l *leftWorkloads) List(context.Context) (list []*workload.Status, err error) {
	for _, id := range l.left {
		list = append(list, &workload.Status{ID: id})
	}
	return list, nil
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

func TestWorkloadsThatNoTaskClaimsAreDestroyed(t *testing.T) {
	w := newWorld(t)
	w.start()
	w.run("s", "service")
	a := w.awaitStatus("s", structs.ClientRunning)
	w.end()
	local, _, err := w.db.Task(a.ID, "t")
	require.NoError(t, err)

	earlier := a.ID + "/t/earlier"
	left := &leftWorkloads{left: []string{local.TaskID, earlier, "forgotten/t/1", "odd"}}
	w.left = left
	w.start()
	require.Equal(t, []string{earlier, "forgotten/t/1", "odd"}, left.destroyed)
	require.Equal(t, 1, w.machine.started(a.ID))
	w.end()

	w.db = unreadableTasks{w.db}
	left = &leftWorkloads{left: []string{local.TaskID, "forgotten/t/1"}}
	w.left = left
	w.start()
	require.Equal(t, []string{"forgotten/t/1"}, left.destroyed, "what cannot be read may claim it")
}

func TestWorkloadsOfAnAllocationThatCannotBeReadAreKept(t *testing.T) {
	w := newWorld(t)
	w.db = unreadableAllocation{w.db}
	left := &leftWorkloads{left: []string{"unreadable/t/1", "forgotten/t/1"}}
	w.left = left
	w.start()
	require.Equal(t, []string{"forgotten/t/1"}, left.destroyed)
}
