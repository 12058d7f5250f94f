package host

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental/sysfs"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/sandbox"
	"github.com/wasmnode/wasmnode/sandbox/rootfs"
)

// errClosed is the cause with which calls end when their plugin is closed.
var errClosed = abi.NewRecoverableError(abi.Unavailable, "the plugin is closed")

// pool holds a plugin's instances: those at work, counted, and a few at rest.
type pool struct {
	plugin *Plugin
	slots  chan struct{} // one for each call at work
	waits  chan struct{} // one for each wait_task
	max    int           // at rest
	life   context.Context
	end    context.CancelCauseFunc

	mu     sync.Mutex
	idle   []*instance
	era    int               // instances of an earlier era are not kept
	begun  *sandbox.Snapshot // what instances of this era begin as; nil: each for itself
	tried  bool              // to take it
	closed bool
	calls  sync.WaitGroup
}

func newPool(p *Plugin, l Limits) *pool {
	life, end := context.WithCancelCause(context.Background())
	return &pool{
		plugin: p,
		slots:  make(chan struct{}, l.Instances),
		waits:  make(chan struct{}, l.Waiters),
		max:    l.IdleInstances,
		life:   life,
		end:    end,
	}
}

// instance is one instantiated guest. One call at a time uses it.
type instance struct {
	module *sandbox.Instance
	memory sandbox.Memory
	funcs  map[string]api.Function
	era    int
	files  []*rootfs.FS
	output []*lineLogger // standard output and error
}

func (i *instance) close(ctx context.Context) {
	if i.module != nil {
		_ = i.module.Close(ctx)
	}
	for _, f := range i.files {
		_ = f.Close()
	}
}

// use runs f with an instance, a fresh one or one at rest. The instance is kept only
// when f succeeds in keeping it whole: on any fault it is closed.
func (p *pool) use(ctx context.Context, op string, f func(context.Context, *instance) (whole bool, err error)) error {
	if err := p.enter(); err != nil {
		return err
	}
	defer p.calls.Done()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	//nolint:contextcheck // the pool's life ends this call; it is no parent of it
	defer context.AfterFunc(p.life, func() { cancel(errClosed) })()
	gate := p.slots
	if op == abi.OpDriverWaitTask {
		gate = p.waits
	}
	select {
	case gate <- struct{}{}:
		defer func() { <-gate }()
	case <-ctx.Done():
		return fmt.Errorf("plugin %s: %s: waiting for one of %d instances: %w", p.plugin.Name(), op, cap(gate), context.Cause(ctx))
	}
	inst, err := p.take(ctx)
	if err != nil {
		return err
	}
	whole, err := f(ctx, inst)
	p.put(ctx, inst, whole)
	return err
}

// enter counts a call, unless the pool is closed.
func (p *pool) enter() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return errClosed
	}
	p.calls.Add(1)
	return nil
}

// take returns an instance at rest, or makes one.
func (p *pool) take(ctx context.Context) (*instance, error) {
	p.mu.Lock()
	if n := len(p.idle); n > 0 {
		inst := p.idle[n-1]
		p.idle = p.idle[:n-1]
		p.mu.Unlock()
		return inst, nil
	}
	era := p.era
	p.mu.Unlock()
	return p.make(ctx, era)
}

// put keeps an instance for the next call, or closes it.
func (p *pool) put(ctx context.Context, inst *instance, whole bool) {
	for _, l := range inst.output {
		l.flush()
	}
	p.mu.Lock()
	if whole && !p.closed && inst.era == p.era && len(p.idle) < p.max {
		p.idle = append(p.idle, inst)
		inst = nil
	}
	p.mu.Unlock()
	if inst != nil {
		inst.close(ctx)
	}
}

// try makes an instance and keeps it: it fails when the plugin cannot be set up.
func (p *pool) try(ctx context.Context) error {
	op, _ := p.plugin.spec.Kind.configuration(nil)
	return p.use(ctx, op, func(context.Context, *instance) (bool, error) { return true, nil })
}

// drain closes the instances at rest; those at work are closed when they are done.
func (p *pool) drain(ctx context.Context) {
	p.mu.Lock()
	idle, begun := p.idle, p.begun
	p.idle, p.begun, p.tried = nil, nil, false
	p.era++
	p.mu.Unlock()
	if begun != nil {
		begun.Close()
	}
	for _, i := range idle {
		i.close(ctx)
	}
}

// close ends all calls and waits for them.
func (p *pool) close(ctx context.Context) {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.end(errClosed)
	p.calls.Wait()
	p.drain(ctx)
}

// make instantiates the plugin, runs its initialiser and configures it.
func (p *pool) make(ctx context.Context, era int) (_ *instance, err error) {
	settings := p.plugin.currentSettings()
	inst := &instance{funcs: map[string]api.Function{}, era: era}
	defer func() {
		if err == nil {
			return
		}
		for _, l := range inst.output {
			l.flush()
		}
		inst.close(ctx)
	}()
	cfg, err := p.plugin.moduleConfig(inst, settings)
	if err != nil {
		return nil, err
	}
	c := newCall(p.plugin, abi.ExportInitialize, nil, nil)
	if inst.module, err = p.begin(sandbox.WithMemory(withCall(ctx, c), &inst.memory), cfg, inst, settings != nil); err != nil {
		return nil, p.plugin.fault(ctx, c, inst, err)
	}
	if settings != nil {
		op, request := p.plugin.spec.Kind.configuration(settings.config)
		if _, _, err := p.plugin.callInstance(ctx, inst, op, marshal(request), nil); err != nil {
			return nil, err
		}
	}
	return inst, nil
}

// begin makes an instance that has begun: a copy of the first one of its era, where
// there is one. What begins before the plugin is configured is not worth copying.
func (p *pool) begin(ctx context.Context, cfg wazero.ModuleConfig, inst *instance, configured bool) (*sandbox.Instance, error) {
	p.mu.Lock()
	begun := p.begun
	p.mu.Unlock()
	if begun != nil {
		module, err := begun.Instantiate(ctx, cfg)
		if !errors.Is(err, sandbox.ErrClosed) { // else the era has ended meanwhile
			p.plugin.tally.made(true)
			return module, err
		}
	}
	module, err := p.plugin.module.Instantiate(ctx, cfg)
	p.plugin.tally.made(false)
	if err == nil && configured {
		p.copyFrom(module, inst)
	}
	return module, err
}

// copyFrom has the instances of this era begin as copies of one that has just begun.
// Whoever comes first is asked, and once.
func (p *pool) copyFrom(module *sandbox.Instance, inst *instance) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.tried || p.closed || inst.era != p.era {
		return
	}
	p.tried = true
	for _, f := range inst.files {
		if f.OpenFiles() > 0 {
			p.plugin.logger.Debug("instances begin each for itself", "reason", "the plugin opens files when it begins")
			return
		}
	}
	begun, err := module.Snapshot()
	if err != nil {
		p.plugin.logger.Debug("instances begin each for itself", "reason", err)
		return
	}
	p.begun = begun
}

// moduleConfig is what an instance sees of the world.
func (p *Plugin) moduleConfig(inst *instance, s *settings) (wazero.ModuleConfig, error) {
	stdout := &lineLogger{plugin: p, level: wasmnodev1.LogLevel_LOG_LEVEL_INFO}
	stderr := &lineLogger{plugin: p, level: wasmnodev1.LogLevel_LOG_LEVEL_WARN}
	inst.output = []*lineLogger{stdout, stderr}
	cfg := wazero.NewModuleConfig().
		WithName("").
		WithStartFunctions(abi.ExportInitialize).
		WithStdout(stdout).
		WithStderr(stderr).
		WithRandSource(rand.Reader).
		WithSysWalltime().
		WithNanotime(p.host.nanotime, 1). // resolution: a nanosecond
		WithOsyield(func() {})
	if s == nil {
		return cfg, nil
	}
	files := wazero.NewFSConfig()
	mount := func(dirs []string, readOnly bool) error {
		for _, dir := range dirs {
			root, err := rootfs.Open(dir, readOnly)
			if err != nil {
				return abi.NewRecoverableError(abi.Unavailable, fmt.Sprintf("plugin %s: granted directory: %v", p.Name(), err))
			}
			inst.files = append(inst.files, root)
			files = files.(sysfs.FSConfig).WithSysFSMount(root, dir)
		}
		return nil
	}
	if err := errors.Join(mount(s.grants.FS.ReadOnly, true), mount(s.grants.FS.ReadWrite, false)); err != nil {
		return nil, err
	}
	rootfs.Join(inst.files...)
	return cfg.WithFSConfig(files), nil
}
