package task_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/internal/plugintest"
	"github.com/wasmnode/wasmnode/runners/allocdir"
	"github.com/wasmnode/wasmnode/runners/internal/runnertest"
	"github.com/wasmnode/wasmnode/runners/task"
	"github.com/wasmnode/wasmnode/state"
	"github.com/wasmnode/wasmnode/structs"
)

func TestMain(m *testing.M) { plugintest.Main(m) }

// bubble runs a test in its own time, twice: in this process, and on the plugin.
func bubble(t *testing.T, test func(*testing.T)) { t.Helper(); plugintest.Bubble(t, test) }

// twice is bubble in the machine's time.
func twice(t *testing.T, test func(*testing.T)) { t.Helper(); plugintest.Twice(t, test) }

func onPlugin(t testing.TB) bool { return plugintest.OnPlugin(t) }

// errUnavailable is a driver that is not there yet.
var errUnavailable = abi.NewRecoverableError(abi.Unavailable, "loading")

func ptr[T any](v T) *T { return &v }

// fixture is a task with all that is around it.
type fixture struct {
	t     *testing.T
	world *runnertest.World
	db    state.DB
	alloc *structs.Allocation
	task  *nomad.Task
	dir   *allocdir.Dir
	cfg   task.Config
	r     *task.Runner
	as    func(task.Driver) task.Driver // what the driver is taken for; nil: itself
}

// newFixture makes a task that the test may change before it calls start. Restart
// delays have no jitter.
func newFixture(t *testing.T, config map[string]any) *fixture {
	t.Helper()
	f := &fixture{t: t, world: runnertest.NewWorld(), db: state.NewMem()}
	if onPlugin(t) {
		f.world.Over(plugintest.Dispense(t))
		f.db = open(t)
	}
	f.task = &nomad.Task{
		Name: "web", Driver: "mock", Config: config,
		KillTimeout: ptr(5 * time.Second),
		RestartPolicy: &nomad.RestartPolicy{
			Attempts: ptr(1), Interval: ptr(time.Minute), Delay: ptr(10 * time.Second), Mode: ptr("fail"),
		},
	}
	f.alloc = &structs.Allocation{
		ID: "a1", Name: "job.g[0]", JobID: "job", Namespace: "default", TaskGroup: "g",
		Job: &nomad.Job{ID: ptr("job"), Name: ptr("job"), Type: ptr("batch"), TaskGroups: []*nomad.TaskGroup{
			{Name: ptr("g"), Tasks: []*nomad.Task{f.task}},
		}},
		DesiredStatus: structs.DesiredRun,
		Resources:     structs.AllocatedResources{Tasks: map[string]*structs.TaskResources{"web": {CPUMHz: 100, MemoryMB: 64}}},
	}
	f.dir = allocdir.New(t.TempDir(), "a1")
	require.NoError(t, f.dir.Build())
	return f
}

func (f *fixture) service() *fixture {
	f.alloc.Job.Type = ptr("service")
	return f
}

// build makes a runner, the first one or that of a restarted agent.
func (f *fixture) build() *task.Runner {
	f.t.Helper()
	dir, err := f.dir.Task("web")
	require.NoError(f.t, err)
	cfg := f.cfg
	cfg.Alloc, cfg.Task, cfg.Dir, cfg.State = f.alloc, "web", dir, f.db
	cfg.Node = func() *structs.Node {
		return &structs.Node{ID: "n1", Name: "node", Resources: structs.NodeResources{MemoryMB: 2048}}
	}
	cfg.Dispense = func(name string) (task.Driver, error) {
		d, err := f.world.Dispense(name)
		if err == nil && f.as != nil {
			d = f.as(d)
		}
		return d, err
	}
	if cfg.Changed == nil {
		cfg.Changed = func() {}
	}
	cfg.Jitter = func(d time.Duration) time.Duration { return d }
	f.r, err = task.New(cfg)
	require.NoError(f.t, err)
	return f.r
}

func (f *fixture) start() *task.Runner {
	r := f.build()
	go r.Run()
	return r
}

// restartAgent ends the runner as an agent's end does and starts another one.
func (f *fixture) restartAgent() *task.Runner {
	f.r.Shutdown()
	<-f.r.WaitCh()
	r := f.build()
	require.NoError(f.t, r.Restore())
	go r.Run()
	return r
}

// finish releases the runner, if need be, and waits for its end.
func (f *fixture) finish() {
	f.r.Kill(nil)
	<-f.r.WaitCh()
	f.r.Run() // returns at once
	require.Zero(f.t, f.world.Holds(), "drivers that were not released")
	require.Empty(f.t, f.world.Doubled(), "tasks that ran twice at once")
	require.Empty(f.t, f.world.Running(), "tasks left running")
}

// events is the task's events as people read them, the oldest first.
func (f *fixture) events() []string {
	var out []string
	for _, e := range f.r.State().Events {
		out = append(out, fmt.Sprintf("%s: %s", e.Type, e.DisplayMessage))
	}
	return out
}

func open(t testing.TB) state.DB {
	t.Helper()
	db, err := state.Open(filepath.Join(t.TempDir(), "state.db"), state.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

const (
	received = "Received: Task received by client"
	setup    = "Task Setup: Building Task Directory"
	begun    = "Started: Task started by client"
	killing  = "Killing: Sent interrupt. Waiting 5s before force killing"
	killed   = "Killed: Task successfully killed"
	exit0    = "Terminated: Exit Code: 0"
	exit1    = "Terminated: Exit Code: 1"
)
