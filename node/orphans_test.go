package node

import (
	"context"
	"errors"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/state"
	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/workload"
)

// leftovers are the workloads that an earlier node left.
type leftovers struct {
	ids       []string
	err       error
	destroyed []string
}

func (l *leftovers) List(context.Context) (list []*workload.Status, err error) {
	for _, id := range l.ids {
		list = append(list, &workload.Status{ID: id})
	}
	return list, l.err
}

func (l *leftovers) Destroy(_ context.Context, id string) error {
	l.destroyed = append(l.destroyed, id)
	return nil
}

func TestAWorkloadThatNoTaskClaimsIsDestroyed(t *testing.T) {
	db := state.NewMem()
	require.NoError(t, db.PutAllocation(&structs.Allocation{ID: "a"}))
	require.NoError(t, db.PutTaskLocal("a", "web", &state.TaskLocal{TaskID: "a/web/2"}))
	left := &leftovers{ids: []string{"a/web/1", "a/web/2", "a/db/1", "gone/web/1", "odd"}}
	n := &Node{logger: hclog.NewNullLogger(), cfg: Config{State: db, Workloads: left}}
	n.destroyOrphans(t.Context())
	require.Equal(t, []string{"a/web/1", "a/db/1", "gone/web/1", "odd"}, left.destroyed)
}

func TestNothingIsDestroyedWhenTheStateCannotBeRead(t *testing.T) {
	db := state.NewFailing(state.NewMem(), 1)
	left := &leftovers{ids: []string{"a/web/1"}}
	n := &Node{logger: hclog.NewNullLogger(), cfg: Config{State: db, Workloads: left}}
	n.destroyOrphans(t.Context())
	require.Empty(t, left.destroyed)

	left.err = errors.New("no answer")
	n.destroyOrphans(t.Context())
	require.Empty(t, left.destroyed)
}
