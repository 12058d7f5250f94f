package alloc_test

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/internal/plugintest"
	"github.com/wasmnode/wasmnode/jobspec"
	"github.com/wasmnode/wasmnode/runners/alloc"
	"github.com/wasmnode/wasmnode/runners/allocdir"
	"github.com/wasmnode/wasmnode/runners/internal/runnertest"
	"github.com/wasmnode/wasmnode/runners/task"
	"github.com/wasmnode/wasmnode/state"
	"github.com/wasmnode/wasmnode/structs"
)

func TestMain(m *testing.M) { plugintest.Main(m) }

// bubble runs a test in its own time, twice: in this process, and on the plugin.
func bubble(t *testing.T, test func(*testing.T)) { t.Helper(); plugintest.Bubble(t, test) }

func onPlugin(t testing.TB) bool { return plugintest.OnPlugin(t) }

func openStore(t testing.TB) state.DB {
	t.Helper()
	db, err := state.Open(filepath.Join(t.TempDir(), "state.db"), state.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

// fixture is an allocation with all that is around it.
type fixture struct {
	t     testing.TB
	world *runnertest.World
	db    state.DB
	dir   string
	alloc *structs.Allocation
	watch alloc.Watcher
	// networks gives networks; nil: the node has none.
	networks alloc.Networks
	// services registers services; nil: nothing does.
	services alloc.Services
	// devices reserves devices; nil: the node has none.
	devices task.Devices
	left    task.Left     // what outlived the last agent; nil: that is not known
	heard   chan struct{} // closed when the control plane was heard; nil: nothing waits for that
	// dispense gives drivers; nil: those of the scripted world.
	dispense task.Dispense
	r        *alloc.Runner

	mu      sync.Mutex
	reports []*structs.AllocationState
}

// newFixture places the one group of a job.
func newFixture(t testing.TB, hcl string) *fixture {
	t.Helper()
	job, err := jobspec.Parse(jobspec.Options{Path: "job.hcl", Content: []byte(hcl)})
	require.NoError(t, err)
	job.Canonicalize()
	group := job.TaskGroups[0]
	f := &fixture{t: t, world: runnertest.NewWorld(), db: state.NewMem(), dir: t.TempDir()}
	if onPlugin(t) {
		f.world.Over(plugintest.Dispense(t))
		f.db = openStore(t)
	}
	f.alloc = &structs.Allocation{
		ID: "alloc-1", Name: *job.ID + "." + *group.Name + "[0]", JobID: *job.ID, Namespace: "default",
		TaskGroup: *group.Name, Job: job, DesiredStatus: structs.DesiredRun, ClientStatus: structs.ClientPending,
		Resources:        structs.AllocatedResources{Tasks: map[string]*structs.TaskResources{}},
		AllocModifyIndex: 1, CreateTime: time.Now().UnixNano(),
	}
	for _, t := range group.Tasks {
		f.alloc.Resources.Tasks[t.Name] = &structs.TaskResources{CPUMHz: 100, MemoryMB: 32}
	}
	return f
}

// build makes a runner: the first, or that of a restarted agent.
func (f *fixture) build() *alloc.Runner {
	f.t.Helper()
	if f.dispense == nil {
		f.dispense = f.world.Dispense
	}
	r, err := alloc.New(alloc.Config{
		Alloc: f.alloc, Node: func() *structs.Node { return &structs.Node{ID: "node-1", Name: "node"} }, AllocsDir: f.dir, State: f.db,
		Dispense: f.dispense, StateUpdated: f.report, Watcher: f.watch, Devices: f.devices, Networks: f.networks, DestroyNetwork: f.world.DestroyNetwork, Left: f.left, Heard: f.heard, Services: f.services,
		Jitter: func(d time.Duration) time.Duration { return d },
	})
	require.NoError(f.t, err)
	f.r = r
	return r
}

func (f *fixture) start() *alloc.Runner {
	r := f.build()
	go r.Run()
	return r
}

func (f *fixture) report(s *structs.AllocationState) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reports = append(f.reports, s)
}

func (f *fixture) lastReport() *structs.AllocationState {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.reports) == 0 {
		return nil
	}
	return f.reports[len(f.reports)-1]
}

// change sends the allocation anew, changed by fn.
func (f *fixture) change(fn func(*structs.Allocation)) {
	next := f.alloc.Copy()
	next.AllocModifyIndex++
	fn(next)
	f.alloc = next
	f.r.Update(next)
}

func (f *fixture) stop() {
	f.change(func(a *structs.Allocation) { a.DesiredStatus = structs.DesiredStop })
}

// restartAgent ends the runner as an agent's end does and starts another one.
func (f *fixture) restartAgent() {
	f.r.Shutdown()
	<-f.r.ShutdownCh()
	f.build()
	require.NoError(f.t, f.r.Restore())
	go f.r.Run()
}

// finish destroys the allocation and checks that nothing is left of it.
func (f *fixture) finish() {
	f.t.Helper()
	f.r.Destroy()
	<-f.r.DestroyCh()
	require.NoDirExists(f.t, filepath.Join(f.dir, f.alloc.ID))
	allocs, bad, err := f.db.Allocations()
	require.NoError(f.t, err)
	require.Empty(f.t, allocs)
	require.Empty(f.t, bad)
	require.Zero(f.t, f.world.Holds(), "drivers that were not released")
	require.Empty(f.t, f.world.Doubled(), "tasks that ran twice at once")
	require.Empty(f.t, f.world.Running(), "tasks left running")
	require.Zero(f.t, f.world.Known(), "tasks that were not destroyed")
}

// events are a task's events as people read them, the oldest first.
func (f *fixture) events(name string) []string {
	var out []string
	for _, e := range f.r.AllocState().TaskStates[name].Events {
		out = append(out, fmt.Sprintf("%s: %s", e.Type, e.DisplayMessage))
	}
	return out
}

func (f *fixture) group() *nomad.TaskGroup { return f.alloc.Job.TaskGroups[0] }

// previous is a watcher whose allocations end when the test says so.
type previous struct {
	ended   chan struct{}
	migrate func(*allocdir.Dir, []string) error
}

func (p *previous) Wait(ctx context.Context, _ func(string)) error {
	select {
	case <-p.ended:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p *previous) Migrate(_ context.Context, to *allocdir.Dir, tasks []string) (string, error) {
	if p.migrate == nil {
		return "", nil
	}
	return "", p.migrate(to, tasks)
}

func (p *previous) Waiting() string {
	select {
	case <-p.ended:
		return ""
	default:
		return "Waiting for allocation alloc-0 to end"
	}
}
