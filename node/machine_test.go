package node

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"sync"
	"time"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/runners/task"
	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/workload"
)

// machine is where tests' tasks run: it outlives drivers, runners and nodes. A task
// runs until it is stopped or the test ends it.
type machine struct {
	mu      sync.Mutex
	tasks   map[string]*running // by invocation
	starts  map[string]int      // by allocation
	changed chan struct{}       // closed and replaced at a start
	holding bool                // stops wait until release
	release chan struct{}
}

type running struct {
	allocID string
	ended   chan struct{}
	code    int
}

func newMachine() *machine {
	return &machine{tasks: map[string]*running{}, starts: map[string]int{}, changed: make(chan struct{}), release: make(chan struct{})}
}

// end ends an allocation's tasks by themselves.
func (m *machine) end(allocID string, code int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.tasks {
		if r.allocID == allocID {
			r.finish(code)
		}
	}
}

// endOne ends one of an allocation's tasks by itself.
func (m *machine) endOne(allocID string, code int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.tasks {
		if r.allocID == allocID {
			r.finish(code)
			return
		}
	}
}

func (r *running) finish(code int) {
	select {
	case <-r.ended:
	default:
		r.code = code
		close(r.ended)
	}
}

func (m *machine) started(allocID string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.starts[allocID]
}

func (m *machine) running() (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.tasks {
		select {
		case <-r.ended:
		default:
			n++
		}
	}
	return n
}

// hold has stops wait for the function that it returns.
func (m *machine) hold() (release func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.holding = true
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.holding {
			m.holding = false
			close(m.release)
		}
	}
}

func (m *machine) dispense(name string) (task.Driver, error) {
	if name != "mock" {
		return nil, abi.NewError(abi.NotFound, "no such driver: "+name)
	}
	return machineDriver{m}, nil
}

type machineDriver struct{ m *machine }

func (machineDriver) Name() string                 { return "mock" }
func (machineDriver) PluginDigest() string         { return "sha256:1" }
func (machineDriver) Replaced() <-chan struct{}    { return nil }
func (machineDriver) Release()                     {}
func (machineDriver) RunsProcesses() bool          { return true }
func (machineDriver) KeepSecrets(string, []string) {}
func (machineDriver) Capabilities() *wasmnodev1.DriverCapabilities {
	return &wasmnodev1.DriverCapabilities{SendSignals: true, Exec: true}
}
func (machineDriver) CreateNetwork(context.Context, string, string) (*os.File, error) {
	return nil, abi.NewError(abi.Unimplemented, "it makes no networks")
}
func (machineDriver) DecodeConfig(config map[string]any) ([]byte, error) { return json.Marshal(config) }

func (d machineDriver) StartTask(_ context.Context, cfg *wasmnodev1.TaskConfig, _ func(*wasmnodev1.TaskEvent)) (*wasmnodev1.TaskHandle, *wasmnodev1.DriverNetwork, error) {
	d.m.mu.Lock()
	defer d.m.mu.Unlock()
	d.m.tasks[cfg.Id] = &running{allocID: cfg.AllocId, ended: make(chan struct{})}
	d.m.starts[cfg.AllocId]++
	close(d.m.changed)
	d.m.changed = make(chan struct{})
	return &wasmnodev1.TaskHandle{Version: 1}, nil, nil
}

func (d machineDriver) find(id string) (*running, error) {
	d.m.mu.Lock()
	defer d.m.mu.Unlock()
	if r := d.m.tasks[id]; r != nil {
		return r, nil
	}
	return nil, abi.ErrTaskNotFound
}

func (d machineDriver) RecoverTask(_ context.Context, cfg *wasmnodev1.TaskConfig, h *wasmnodev1.TaskHandle, _ func(*wasmnodev1.TaskEvent)) (*wasmnodev1.TaskHandle, error) {
	_, err := d.find(cfg.Id)
	return h, err
}

func (d machineDriver) WaitTask(ctx context.Context, cfg *wasmnodev1.TaskConfig, _ *wasmnodev1.TaskHandle) (*structs.ExitResult, error) {
	r, err := d.find(cfg.Id)
	if err != nil {
		return nil, err
	}
	select {
	case <-r.ended:
		return &structs.ExitResult{ExitCode: r.code}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (d machineDriver) StopTask(ctx context.Context, cfg *wasmnodev1.TaskConfig, h *wasmnodev1.TaskHandle, _ string, _ time.Duration) (*wasmnodev1.TaskHandle, error) {
	r, err := d.find(cfg.Id)
	if err != nil {
		return nil, err
	}
	d.m.mu.Lock()
	holding, release := d.m.holding, d.m.release
	d.m.mu.Unlock()
	if holding {
		select {
		case <-release:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	d.m.mu.Lock()
	defer d.m.mu.Unlock()
	r.finish(0)
	return h, nil
}

func (machineDriver) SignalTask(_ context.Context, _ *wasmnodev1.TaskConfig, h *wasmnodev1.TaskHandle, _ string) (*wasmnodev1.TaskHandle, error) {
	return h, nil
}

func (machineDriver) ExecTask(_ context.Context, _ *wasmnodev1.TaskConfig, _ *wasmnodev1.TaskHandle, spec *workload.ExecSpec) (*structs.ExitResult, error) {
	_, err := io.WriteString(spec.Stdout, spec.Command)
	return &structs.ExitResult{ExitCode: 3}, err
}

func (d machineDriver) DestroyTask(_ context.Context, cfg *wasmnodev1.TaskConfig, _ *wasmnodev1.TaskHandle, _ bool) error {
	d.m.mu.Lock()
	defer d.m.mu.Unlock()
	if r := d.m.tasks[cfg.Id]; r != nil {
		r.finish(137)
		delete(d.m.tasks, cfg.Id)
	}
	return nil
}

func (machineDriver) TaskStats(context.Context, *wasmnodev1.TaskConfig, *wasmnodev1.TaskHandle) (*wasmnodev1.TaskStats, error) {
	rss := uint64(4096)
	return &wasmnodev1.TaskStats{MemoryRssBytes: &rss}, nil
}
