package watcher

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/wasmnode/wasmnode/internal/leaktest"
	"github.com/wasmnode/wasmnode/runners/allocdir"
	"github.com/wasmnode/wasmnode/runners/broadcast"
	"github.com/wasmnode/wasmnode/structs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(leaktest.WithTimeout(m)) }

// neighbor is an allocation that ends when the test says so.
type neighbor struct {
	id      string
	status  structs.ClientStatus
	states  broadcast.Broadcaster
	dir     *allocdir.Dir
	started bool
}

func (o *neighbor) AllocState() *structs.AllocationState {
	s := &structs.AllocationState{ID: o.id, ClientStatus: o.status, TaskStates: map[string]*structs.TaskState{"web": {}}}
	if o.started {
		s.TaskStates["web"].StartedAt = time.Unix(1, 0)
	}
	return s
}
func (o *neighbor) AllocDir() *allocdir.Dir       { return o.dir }
func (o *neighbor) Listener() *broadcast.Listener { return o.states.Listen() }

// become reports a status.
func (o *neighbor) become(s structs.ClientStatus) {
	o.status = s
	if err := o.states.Send(o.AllocState()); err != nil {
		panic(err)
	}
}

// end reports the last status.
func (o *neighbor) end(s structs.ClientStatus) {
	o.become(s)
	o.states.Close()
}

func runs(id string) *neighbor {
	return &neighbor{id: id, status: structs.ClientRunning, started: true}
}

func silent(string) {}

func among(others ...*neighbor) Find {
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
		w := New(a, nil, among(), nil)
		require.Empty(t, w.Waiting())
		require.NoError(t, w.Wait(context.Background(), silent))
		_, err := w.Migrate(context.Background(), allocdir.New(t.TempDir(), "a"), nil)
		require.NoError(t, err)
	}
}

func TestAllOthersAreWaitedForInWhateverOrderTheyEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, e1, e2 := runs("p"), runs("e1"), runs("e2")
		w := New(&structs.Allocation{PreviousAllocation: "p", PreemptedAllocations: []string{"e1", "e2", "p"}}, nil, among(p, e1, e2), nil)
		require.Equal(t, "Waiting for previous allocation p, preempted allocation e1, preempted allocation e2 to end", w.Waiting())
		done := make(chan error, 1)
		go func() { done <- w.Wait(context.Background(), silent) }()
		e2.end(structs.ClientComplete)
		synctest.Wait()
		require.Empty(t, done)
		p.end(structs.ClientFailed)
		synctest.Wait()
		require.Equal(t, "Waiting for preempted allocation e1 to end", w.Waiting())
		e1.end(structs.ClientComplete)
		require.NoError(t, <-done)
		require.Empty(t, w.Waiting())
		require.NoError(t, w.Wait(context.Background(), silent), "a second wait returns at once")
	})
}

func TestD14_AWaitEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	w := New(&structs.Allocation{PreviousAllocation: "p"}, nil, among(runs("p")), nil)
	require.ErrorIs(t, w.Wait(ctx, silent), context.Canceled)
	require.NotEmpty(t, w.Waiting())
}

func TestAnAllocationThatTheAgentLeftHasNotEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := runs("p")
		w := New(&structs.Allocation{PreviousAllocation: "p"}, nil, among(p), nil)
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- w.Wait(ctx, silent) }()
		p.end(structs.ClientRunning)
		synctest.Wait()
		require.Empty(t, done)
		cancel()
		require.ErrorIs(t, <-done, context.Canceled)
	})
}

func TestAnAllocationHasEndedWhenItIsTerminalAndReportsNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := runs("p")
		done := make(chan error, 1)
		go func() {
			done <- New(&structs.Allocation{PreviousAllocation: "p"}, nil, among(p), nil).Wait(context.Background(), silent)
		}()
		for _, status := range []structs.ClientStatus{structs.ClientRunning, structs.ClientPending, structs.ClientFailed} {
			p.become(status)
			synctest.Wait()
			require.Empty(t, done, status)
		}
		p.states.Close()
		require.NoError(t, <-done)
	})
}

func TestTheDiskIsTakenOverWhenTheGroupAsksForIt(t *testing.T) {
	yes := true
	name := "g"
	for title, c := range map[string]struct {
		disk *nomad.EphemeralDisk
		kept bool
	}{
		"sticky":  {&nomad.EphemeralDisk{Sticky: &yes}, true},
		"migrate": {&nomad.EphemeralDisk{Migrate: &yes}, true},
		"neither": {&nomad.EphemeralDisk{}, false},
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
				Job: &nomad.Job{TaskGroups: []*nomad.TaskGroup{{Name: &name, EphemeralDisk: c.disk}}},
			}, nil, among(p), nil)
			_, err := w.Migrate(context.Background(), to, nil)
			require.NoError(t, err)
			if c.kept {
				require.FileExists(t, filepath.Join(to.Data(), "kept"))
			} else {
				require.NoFileExists(t, filepath.Join(to.Data(), "kept"))
			}
		})
	}
}

func TestD14_AllThatWereReplacedAreWaitedForThoughTheLastNeverRan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second := runs("first"), runs("second")
		a := &structs.Allocation{ID: "third", PreviousAllocation: "second"}
		known := replacing("third", "second", "second", "first", "first", "third") // a circle is no reason to hang
		w := New(a, known, among(first, second), nil)
		done := make(chan error, 1)
		go func() { done <- w.Wait(context.Background(), silent) }()
		second.end(structs.ClientComplete)
		synctest.Wait()
		require.Empty(t, done)
		require.Equal(t, "Waiting for previous allocation first to end", w.Waiting())
		first.end(structs.ClientComplete)
		require.NoError(t, <-done)
	})
}

func TestD14_WhatIsRestoredAfterItsSuccessorIsWaitedFor(t *testing.T) {
	p := runs("p")
	var known []*neighbor
	w := New(&structs.Allocation{PreviousAllocation: "p"}, nil, func(id string) Other { return among(known...)(id) }, nil)
	known = append(known, p)
	require.Equal(t, "Waiting for previous allocation p to end", w.Waiting())
}

// replacing are allocations by ID, each of which replaces the one named after it.
func replacing(pairs ...string) map[string]*structs.Allocation {
	known := map[string]*structs.Allocation{}
	for i := 0; i < len(pairs); i += 2 {
		known[pairs[i]] = &structs.Allocation{ID: pairs[i], PreviousAllocation: pairs[i+1]}
	}
	return known
}

func TestWhatAPreemptedAllocationWaitedForIsWaitedForInItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		low, mid, old := runs("low"), runs("mid"), runs("old")
		known := replacing("mid", "old")
		known["mid"].PreemptedAllocations = []string{"low"}
		a := &structs.Allocation{ID: "high", PreemptedAllocations: []string{"mid"}}
		w := New(a, known, among(low, mid, old), nil)
		done := make(chan error, 1)
		go func() { done <- w.Wait(context.Background(), silent) }()
		mid.end(structs.ClientComplete) // at once: it waited itself
		synctest.Wait()
		require.Empty(t, done)
		require.Equal(t, "Waiting for previous allocation old, preempted allocation low to end", w.Waiting())
		old.end(structs.ClientComplete)
		synctest.Wait()
		require.Empty(t, done)
		low.end(structs.ClientFailed)
		require.NoError(t, <-done)
	})
}

func TestTheDiskPassesByAnAllocationThatNeverStarted(t *testing.T) {
	parent := t.TempDir()
	dir := func(id string) *allocdir.Dir {
		d := allocdir.New(parent, id)
		require.NoError(t, d.Build())
		return d
	}
	zeroth, first, second := runs("zeroth"), runs("first"), runs("second")
	second.started = false
	zeroth.dir, first.dir, second.dir = dir("zeroth"), dir("first"), dir("second")
	for _, o := range []*neighbor{zeroth, first} {
		require.NoError(t, os.WriteFile(filepath.Join(o.dir.Data(), "of"), []byte(o.id), 0o600))
	}
	yes, name, to := true, "g", dir("third")
	a := &structs.Allocation{
		ID: "third", PreviousAllocation: "second", TaskGroup: "g",
		Job: &nomad.Job{TaskGroups: []*nomad.TaskGroup{{Name: &name, EphemeralDisk: &nomad.EphemeralDisk{Sticky: &yes}}}},
	}
	w := New(a, replacing("second", "first", "first", "zeroth"), among(zeroth, first, second), nil)
	_, err := w.Migrate(context.Background(), to, nil)
	require.NoError(t, err)
	data, err := os.ReadFile(filepath.Join(to.Data(), "of"))
	require.NoError(t, err)
	require.Equal(t, "first", string(data), "the newest that there is, and no older one")
	require.DirExists(t, zeroth.dir.Data())
}
