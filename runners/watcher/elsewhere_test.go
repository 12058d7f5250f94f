package watcher

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/runners/allocdir"
	"github.com/wasmnode/wasmnode/structs"
)

// others are allocations of other nodes, by ID.
type others map[string]*foreign

// foreign is one of them.
type foreign struct {
	ended chan struct{} // closed when it has
	node  string
	disk  func() (io.ReadCloser, error)
}

func (o others) AwaitEnd(ctx context.Context, _ *structs.Allocation, id string, waits func(string)) (string, error) {
	f := o[id]
	if f == nil {
		return "", nil
	}
	select {
	case <-f.ended:
		return f.node, nil
	default:
		waits(f.node)
	}
	select {
	case <-f.ended:
		return f.node, nil
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

func (o others) Disk(_ context.Context, _ *structs.Allocation, id, node string) (io.ReadCloser, error) {
	if o[id].node != node {
		return nil, errors.New("it was not asked where it was")
	}
	return o[id].disk()
}

// endedOn is an allocation that has ended on another node, with a file of a content on its disk.
func endedOn(t *testing.T, node, content string) *foreign {
	t.Helper()
	dir := allocdir.New(t.TempDir(), "foreign")
	require.NoError(t, dir.Build())
	require.NoError(t, os.WriteFile(filepath.Join(dir.Data(), "kept"), []byte(content), 0o600))
	f := &foreign{ended: make(chan struct{}), node: node, disk: func() (io.ReadCloser, error) {
		var out bytes.Buffer
		_, err := dir.Snapshot(context.Background(), &out)
		return io.NopCloser(&out), err
	}}
	close(f.ended)
	return f
}

// withDisk is an allocation of a group that has one.
func withDisk(disk *nomad.EphemeralDisk, previous string) *structs.Allocation {
	name := "g"
	return &structs.Allocation{
		ID: "a", PreviousAllocation: previous, TaskGroup: name,
		Job: &nomad.Job{TaskGroups: []*nomad.TaskGroup{{Name: &name, EphemeralDisk: disk}}},
	}
}

func TestAnAllocationOfAnotherNodeIsWaitedForAndSaid(t *testing.T) {
	p := &foreign{ended: make(chan struct{}), node: "n2"}
	w := New(withDisk(nil, "p"), nil, among(), others{"p": p})
	require.Empty(t, w.Waiting(), "nothing is known yet")
	var told []string
	require.NoError(t, w.Wait(t.Context(), func(what string) {
		told = append(told, what)
		require.Equal(t, "Waiting for previous allocation p on another node to end", w.Waiting())
		close(p.ended)
	}))
	require.Equal(t, []string{"Waiting for previous allocation p on node n2 to end"}, told)
	require.Empty(t, w.Waiting())
	ctx, cancel := context.WithCancel(t.Context())
	p.ended = make(chan struct{})
	require.ErrorIs(t, w.Wait(ctx, func(string) { cancel() }), context.Canceled)
}

// What was preempted was on this node: it is not asked for elsewhere when it is gone.
func TestPreemptedAllocationsAreOfThisNode(t *testing.T) {
	w := New(&structs.Allocation{ID: "a", PreemptedAllocations: []string{"e"}}, nil, among(), others{"e": {ended: make(chan struct{})}})
	require.NoError(t, w.Wait(t.Context(), func(string) { t.Error("it waits") }))
}

func TestADiskIsFetchedFromAnotherNodeWhereItIsToBeMigrated(t *testing.T) {
	yes := true
	started := func(id, content string) *neighbor {
		n := runs(id)
		n.status, n.started, n.dir = structs.ClientComplete, content != "", allocdir.New(t.TempDir(), id)
		require.NoError(t, n.dir.Build())
		if content != "" {
			require.NoError(t, os.WriteFile(filepath.Join(n.dir.Data(), "kept"), []byte(content), 0o600))
		}
		n.states.Close()
		return n
	}
	known := map[string]*structs.Allocation{"never": withDisk(nil, "p"), "has run": withDisk(nil, "p")}
	for name, c := range map[string]struct {
		disk     *nomad.EphemeralDisk
		previous string
		want     string
		fails    string
	}{
		"migrate":                           {&nomad.EphemeralDisk{Migrate: &yes}, "p", "foreign", ""},
		"sticky is of one node":             {&nomad.EphemeralDisk{Sticky: &yes}, "p", "", ""},
		"none":                              {nil, "p", "", ""},
		"the one between has never started": {&nomad.EphemeralDisk{Migrate: &yes}, "never", "foreign", ""},
		"the one between has run here":      {&nomad.EphemeralDisk{Migrate: &yes}, "has run", "here", ""},
		"nobody knows it":                   {&nomad.EphemeralDisk{Migrate: &yes}, "forgotten", "", "allocation forgotten: the servers do not tell where it was"},
		"its node does not give it":         {&nomad.EphemeralDisk{Migrate: &yes}, "kept back", "", "allocation kept back: 403"},
		"its node gives something else":     {&nomad.EphemeralDisk{Migrate: &yes}, "odd", "", "allocation odd: allocdir: the disk is not taken"},
	} {
		t.Run(name, func(t *testing.T) {
			ended := make(chan struct{})
			close(ended)
			elsewhere := others{
				"p":         endedOn(t, "n2", "foreign"),
				"kept back": {ended: ended, node: "n2", disk: func() (io.ReadCloser, error) { return nil, errors.New("403") }},
				"odd":       {ended: ended, node: "n2", disk: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewBufferString("no archive")), nil }},
			}
			w := New(withDisk(c.disk, c.previous), known, among(started("never", ""), started("has run", "here")), elsewhere)
			to := allocdir.New(t.TempDir(), "a")
			require.NoError(t, to.Build())
			require.NoError(t, w.Wait(t.Context(), silent))
			told, err := w.Migrate(t.Context(), to, []string{"web"})
			require.Empty(t, told)
			if c.fails != "" {
				require.ErrorContains(t, err, c.fails)
				return
			}
			require.NoError(t, err)
			got, _ := os.ReadFile(filepath.Join(to.Data(), "kept")) // there may be none
			require.Equal(t, c.want, string(got))
		})
	}
}

// An agent that was killed over it goes on with what it had fetched.
func TestADiskIsFetchedOnce(t *testing.T) {
	yes := true
	to := allocdir.New(t.TempDir(), "a")
	require.NoError(t, to.Build())
	require.NoError(t, os.MkdirAll(filepath.Join(to.Path(), ".disk", "data"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(to.Path(), ".disk", "data", "kept"), nil, 0o600))
	p := endedOn(t, "n2", "foreign")
	p.disk = func() (io.ReadCloser, error) { return nil, errors.New("it is asked again") }
	w := New(withDisk(&nomad.EphemeralDisk{Migrate: &yes}, "p"), nil, among(), others{"p": p})
	require.NoError(t, w.Wait(t.Context(), silent))
	_, err := w.Migrate(t.Context(), to, nil)
	require.NoError(t, err)
	require.FileExists(t, filepath.Join(to.Data(), "kept"))
}
