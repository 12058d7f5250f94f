package watcher

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"

	"github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/wasmnode/wasmnode/runners/allocdir"
	"github.com/wasmnode/wasmnode/structs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// other is an allocation that ends when the test says so.
type other struct {
	id     string
	status structs.ClientStatus
	done   chan struct{}
	dir    *allocdir.Dir
}

func (o *other) Alloc() *structs.Allocation { return &structs.Allocation{ID: o.id} }
func (o *other) AllocState() *structs.AllocationState {
	return &structs.AllocationState{ID: o.id, ClientStatus: o.status}
}
func (o *other) AllocDir() *allocdir.Dir { return o.dir }
func (o *other) WaitCh() <-chan struct{} { return o.done }
func (o *other) end(s structs.ClientStatus) {
	o.status = s
	close(o.done)
}

func runs(id string) *other {
	return &other{id: id, status: structs.ClientRunning, done: make(chan struct{})}
}

func among(others ...*other) func(string) Other {
	return func(id string) Other {
		for _, o := range others {
			if o.id == id {
				return o
			}
		}
		return nil
	}
}

func TestNothingToWaitFor(t *testing.T) {
	for _, a := range []*structs.Allocation{{}, {PreviousAllocation: "gone", PreemptedAllocations: []string{"gone too"}}} {
		w := New(a, among())
		require.Empty(t, w.Waiting())
		require.NoError(t, w.Wait(context.Background()))
		require.NoError(t, w.Migrate(context.Background(), allocdir.New(t.TempDir(), "a"), nil))
	}
}

func TestAllOthersAreWaitedForInWhateverOrderTheyEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, e1, e2 := runs("p"), runs("e1"), runs("e2")
		w := New(&structs.Allocation{PreviousAllocation: "p", PreemptedAllocations: []string{"e1", "e2", "p"}}, among(p, e1, e2))
		require.Equal(t, "Waiting for previous allocation p, preempted allocation e1, preempted allocation e2 to end", w.Waiting())
		done := make(chan error, 1)
		go func() { done <- w.Wait(context.Background()) }()
		e2.end(structs.ClientComplete)
		synctest.Wait()
		require.Empty(t, done)
		p.end(structs.ClientFailed)
		synctest.Wait()
		require.Equal(t, "Waiting for preempted allocation e1, preempted allocation e2 to end", w.Waiting())
		e1.end(structs.ClientComplete)
		require.NoError(t, <-done)
		require.Empty(t, w.Waiting())
		require.NoError(t, w.Wait(context.Background()), "a second wait returns at once")
	})
}

func TestAWaitEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	w := New(&structs.Allocation{PreviousAllocation: "p"}, among(runs("p")))
	require.ErrorIs(t, w.Wait(ctx), context.Canceled)
	require.NotEmpty(t, w.Waiting())
}

func TestAnAllocationThatTheAgentLeftHasNotEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := runs("p")
		w := New(&structs.Allocation{PreviousAllocation: "p"}, among(p))
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- w.Wait(ctx) }()
		p.end(structs.ClientRunning)
		synctest.Wait()
		require.Empty(t, done)
		cancel()
		require.ErrorIs(t, <-done, context.Canceled)
	})
}

func TestTheDiskIsTakenOverWhenTheGroupSaysSo(t *testing.T) {
	yes := true
	name := "g"
	for title, c := range map[string]struct {
		disk *api.EphemeralDisk
		kept bool
	}{
		"sticky":  {&api.EphemeralDisk{Sticky: &yes}, true},
		"migrate": {&api.EphemeralDisk{Migrate: &yes}, true},
		"neither": {&api.EphemeralDisk{}, false},
		"none":    {nil, false},
	} {
		t.Run(title, func(t *testing.T) {
			parent := t.TempDir()
			p := runs("p")
			p.dir = allocdir.New(parent, "p")
			require.NoError(t, p.dir.Build())
			require.NoError(t, os.WriteFile(filepath.Join(p.dir.Data(), "kept"), nil, 0o600))
			to := allocdir.New(parent, "a")
			require.NoError(t, to.Build())
			w := New(&structs.Allocation{
				ID: "a", PreviousAllocation: "p", TaskGroup: "g",
				Job: &api.Job{TaskGroups: []*api.TaskGroup{{Name: &name, EphemeralDisk: c.disk}}},
			}, among(p))
			require.NoError(t, w.Migrate(context.Background(), to, nil))
			if c.kept {
				require.FileExists(t, filepath.Join(to.Data(), "kept"))
			} else {
				require.NoFileExists(t, filepath.Join(to.Data(), "kept"))
			}
		})
	}
}
