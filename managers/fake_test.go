package managers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/internal/leaktest"
	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/workload"
)

// cacheDir keeps compiled guests for all tests of one run.
var cacheDir string

func TestMain(m *testing.M) {
	var err error
	if cacheDir, err = os.MkdirTemp("", "managers-cache"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(leaktest.WithTimeout(m), goleak.Cleanup(func(code int) {
		os.RemoveAll(cacheDir)
		os.Exit(code)
	}))
}

// recipe says how a fake plugin behaves; it is the content of its file.
type recipe struct {
	Name, Version string
	Type          PluginType
	LoadError     string
	TaskSchema    string
	PluginSchema  string
	ConfigureErr  string
	Blocks        bool // loading goes on until it is cancelled
	Pad           int  // makes another content
}

// module returns a recipe as a file: a module that is whole and does nothing.
func (r recipe) module(t testing.TB) []byte {
	text, err := json.Marshal(r)
	require.NoError(t, err)
	payload := append([]byte("\x04fake"), text...)
	size := len(payload)
	b := []byte("\x00asm\x01\x00\x00\x00\x00")
	for size >= 0x80 {
		b = append(b, byte(size)|0x80)
		size >>= 7
	}
	return append(append(b, byte(size)), payload...)
}

// fakeLoader makes fake plugins of recipes and knows all that are open.
type fakeLoader struct {
	// prepare, if set, completes a plugin before it is used.
	prepare func(p *fakePlugin)

	mu   sync.Mutex
	open map[*fakePlugin]bool
	made []*fakePlugin
}

func (l *fakeLoader) MaxFileBytes() int64 { return 1 << 16 }

func (l *fakeLoader) Load(ctx context.Context, content []byte) (Plugin, error) {
	at := bytes.Index(content, []byte("\x04fake"))
	if at < 0 {
		return nil, errors.New("scan: not a module")
	}
	p := newFakePlugin()
	if err := json.Unmarshal(content[at+5:], &p.recipe); err != nil {
		return nil, err
	}
	if p.recipe.LoadError != "" {
		return nil, errors.New(p.recipe.LoadError)
	}
	if p.recipe.Blocks {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.prepare != nil {
		l.prepare(p)
	}
	if l.open == nil {
		l.open = map[*fakePlugin]bool{}
	}
	l.open[p] = true
	l.made = append(l.made, p)
	p.onClose = func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if !l.open[p] {
			panic("closed twice")
		}
		delete(l.open, p)
	}
	return p, nil
}

func (l *fakeLoader) openCount() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.open)
}

func (l *fakeLoader) madeCount() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.made)
}

// fakePlugin answers calls with functions; without one it does not have the
// operation.
type fakePlugin struct {
	capabilities *wasmnodev1.DriverCapabilities
	recipe       recipe
	grants       host.Grants
	onClose      func()

	mu     sync.Mutex
	closed bool
	ops    map[string]func(ctx context.Context, c Call) error
	calls  map[string]int
}

func newFakePlugin() *fakePlugin {
	p := &fakePlugin{calls: map[string]int{}, onClose: func() {}}
	p.ops = map[string]func(context.Context, Call) error{
		abi.OpDriverFingerprint: func(_ context.Context, c Call) error {
			a := c.Answer.(*wasmnodev1.DriverFingerprintResponse)
			a.Health, a.Description = wasmnodev1.HealthState_HEALTH_STATE_HEALTHY, "Healthy"
			return nil
		},
		abi.OpDriverStartTask: func(_ context.Context, c Call) error {
			c.Answer.(*wasmnodev1.DriverStartTaskResponse).Handle = &wasmnodev1.TaskHandle{Version: 1}
			return nil
		},
	}
	return p
}

func (p *fakePlugin) on(op string, f func(ctx context.Context, c Call) error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ops[op] = f
}

func (p *fakePlugin) count(op string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.calls[op]
}

func (p *fakePlugin) Type() PluginType {
	if p.recipe.Type != "" {
		return p.recipe.Type
	}
	return TypeDriver
}

func (p *fakePlugin) Description() *wasmnodev1.DriverDescribeResponse {
	return &wasmnodev1.DriverDescribeResponse{
		Name: p.recipe.Name, Version: p.recipe.Version, Capabilities: p.capabilities,
		TaskConfigSchema: p.recipe.TaskSchema, PluginConfigSchema: p.recipe.PluginSchema,
	}
}

func (p *fakePlugin) CapabilitiesImported() []string { return []string{abi.ModuleABI, abi.ModuleLog} }
func (p *fakePlugin) Stats() host.Stats              { return host.Stats{} }
func (p *fakePlugin) CapabilitiesGranted() []string  { return []string{abi.ModuleABI} }

func (p *fakePlugin) Grants() host.Grants { return p.grants }

func (p *fakePlugin) Has(op string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ops[op] != nil
}

func (p *fakePlugin) Configure(context.Context, []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls[abi.OpDriverConfigure]++
	if p.recipe.ConfigureErr != "" {
		return abi.NewError(abi.InvalidArgument, p.recipe.ConfigureErr)
	}
	return nil
}

func (p *fakePlugin) Call(ctx context.Context, c Call) error {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		panic("called after close: " + c.Op)
	}
	f := p.ops[c.Op]
	p.calls[c.Op]++
	p.mu.Unlock()
	return f(ctx, c)
}

func (p *fakePlugin) Close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.onClose()
}

func trap(op string) error {
	return &host.FaultError{Plugin: "fake", Op: op, Kind: host.FaultTrap, Err: errors.New("unreachable")}
}

func fault(op string) func(context.Context, Call) error {
	return func(context.Context, Call) error { return trap(op) }
}

// fakeWorkloads is a supervisor of workloads that a test ends.
type fakeWorkloads struct {
	mu      sync.Mutex
	running map[string]chan struct{} // closed at the end
	log     []string
}

func (w *fakeWorkloads) start(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.running == nil {
		w.running = map[string]chan struct{}{}
	}
	w.running[id] = make(chan struct{})
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
	if err == nil && !isClosed(c) {
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
	if isClosed(c) {
		s.State = workload.Exited
	}
	return s, nil
}

func (w *fakeWorkloads) Destroy(_ context.Context, id string) error {
	_, _ = w.get("destroy", id)
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.running, id)
	return nil
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
	catalog   *Catalog
	manager   *DriverManager
	workloads *fakeWorkloads
	updates   *updates
}

func newWorld(t *testing.T, change func(*DriverManagerConfig)) *world {
	t.Helper()
	catalog, err := NewCatalog(CatalogConfig{Dir: t.TempDir(), Loader: &fakeLoader{}, Logger: hclog.NewNullLogger()})
	require.NoError(t, err)
	w := &world{t: t, catalog: catalog, workloads: &fakeWorkloads{}, updates: &updates{}}
	cfg := DriverManagerConfig{Catalog: catalog, Workloads: w.workloads, Logger: hclog.NewNullLogger(), Updater: w.updates.update}
	if change != nil {
		change(&cfg)
	}
	w.manager = NewDriverManager(cfg)
	t.Cleanup(func() {
		w.manager.Shutdown()
		catalog.Shutdown()
	})
	return w
}

// take puts a plugin in charge, in the place of old.
func (w *world) take(p *fakePlugin, old member) (*driverUnit, error) {
	if p.recipe.Name == "" {
		p.recipe.Name = "fake"
	}
	m, err := w.manager.take(context.Background(), candidate{plugin: p, file: "fake.wasm", digest: "d" + p.recipe.Version}, old)
	if err != nil {
		return nil, err
	}
	return m.(*driverUnit), nil
}

func (w *world) mustTake(p *fakePlugin, old member) *driverUnit {
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
