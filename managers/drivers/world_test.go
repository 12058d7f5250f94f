package drivers

import (
	"context"
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/internal/wake"
	"github.com/wasmnode/wasmnode/managers/catalog"
	"github.com/wasmnode/wasmnode/managers/internal/catalogtest"
	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/workload"
)

// fakeWorkloads is a supervisor of workloads that a test ends.
type fakeWorkloads struct {
	mu         sync.Mutex
	running    map[string]chan struct{} // closed at the end
	log        []string
	destroyErr error // of every Destroy
}

func (w *fakeWorkloads) start(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.running == nil {
		w.running = map[string]chan struct{}{}
	}
	w.running[id] = make(chan struct{})
}

// end has a workload end by itself.
func (w *fakeWorkloads) end(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.running[id])
}

func (w *fakeWorkloads) get(what, id string) (chan struct{}, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.log = append(w.log, what)
	c, ok := w.running[id]
	if !ok {
		return nil, abi.NewError(abi.NotFound, "no workload "+id)
	}
	return c, nil
}

func (w *fakeWorkloads) Wait(ctx context.Context, id string) (*structs.ExitResult, error) {
	c, err := w.get("wait", id)
	if err != nil {
		return nil, err
	}
	select {
	case <-c:
		return &structs.ExitResult{ExitCode: 7}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (w *fakeWorkloads) Stop(_ context.Context, id, signal string, timeout time.Duration) error {
	c, err := w.get(fmt.Sprintf("stop %s %v", signal, timeout.Round(time.Second)), id)
	if err == nil && !wake.IsClosed(c) {
		close(c)
	}
	return err
}

func (w *fakeWorkloads) Signal(_ context.Context, id, signal string) error {
	_, err := w.get("signal "+signal, id)
	return err
}

func (w *fakeWorkloads) Exec(_ context.Context, id string, spec *workload.ExecSpec) (*structs.ExitResult, error) {
	if _, err := w.get("exec "+spec.Command, id); err != nil {
		return nil, err
	}
	if spec.Command == "impossible" {
		return nil, abi.NewError(abi.Unimplemented, "no commands in this workload")
	}
	_, err := io.WriteString(spec.Stdout, "by the host")
	return &structs.ExitResult{ExitCode: 5}, err
}

func (w *fakeWorkloads) Stats(_ context.Context, id string) (*workload.Stats, error) {
	_, err := w.get("stats", id)
	total := 3 * time.Second
	return &workload.Stats{CPUTotal: &total}, err
}

func (w *fakeWorkloads) Inspect(_ context.Context, id string) (*workload.Status, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c, ok := w.running[id]
	if !ok {
		return nil, abi.NewError(abi.NotFound, "no workload "+id)
	}
	s := &workload.Status{ID: id, State: workload.Running}
	if wake.IsClosed(c) {
		s.State = workload.Exited
	}
	return s, nil
}

func (w *fakeWorkloads) Destroy(_ context.Context, id string) error {
	_, _ = w.get("destroy", id)
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.running, id)
	return w.destroyErr
}

func (w *fakeWorkloads) said() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string(nil), w.log...)
}

// updates records what an updater is told.
type updates struct {
	mu  sync.Mutex
	all []string
}

func (u *updates) update(name string, info *structs.DriverInfo) {
	u.mu.Lock()
	defer u.mu.Unlock()
	line := name + ": lost"
	if info != nil {
		line = fmt.Sprintf("%s: detected %v, healthy %v, %s", name, info.Detected, info.Healthy, info.HealthDescription)
	}
	u.all = append(u.all, line)
}

func (u *updates) get() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return append([]string(nil), u.all...)
}

// world is a manager with fake plugins that are taken without a directory.
type world struct {
	t         *testing.T
	catalog   *catalog.Catalog
	manager   *Manager
	workloads *fakeWorkloads
	updates   *updates
	config    map[string]any // the operator's, for the plugins that are taken
}

func newWorld(t *testing.T, change func(*Config)) *world {
	t.Helper()
	files, err := catalog.New(catalog.Config{Dir: t.TempDir(), Loader: &catalogtest.Loader{}, Logger: hclog.NewNullLogger()})
	require.NoError(t, err)
	w := &world{t: t, catalog: files, workloads: &fakeWorkloads{}, updates: &updates{}}
	cfg := Config{Catalog: files, Workloads: w.workloads, Logger: hclog.NewNullLogger(), Updater: w.updates.update}
	if change != nil {
		change(&cfg)
	}
	w.manager = New(cfg)
	t.Cleanup(func() {
		w.manager.Shutdown()
		files.Shutdown()
	})
	return w
}

// take puts a plugin in charge, in the place of old.
func (w *world) take(p *catalogtest.Plugin, old *plugin) (*plugin, error) {
	if p.Recipe.Name == "" {
		p.Recipe.Name = "fake"
	}
	u, err := w.manager.registry.Take(context.Background(), catalog.Candidate{Plugin: p, Config: w.config, File: "fake.wasm"}, old != nil)
	if err != nil {
		return nil, err
	}
	return pluginOf(u), nil
}

func (w *world) mustLoad(p *catalogtest.Plugin, old *plugin) *plugin {
	w.t.Helper()
	u, err := w.take(p, old)
	require.NoError(w.t, err)
	return u
}

func (w *world) dispense() *Driver {
	w.t.Helper()
	d, err := w.manager.Dispense("fake")
	require.NoError(w.t, err)
	return d
}
