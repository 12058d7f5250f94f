package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	experimentalsys "github.com/tetratelabs/wazero/experimental/sys"
	"github.com/tetratelabs/wazero/experimental/sysfs"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/internal/inflight"
	"github.com/wasmnode/wasmnode/internal/secrets"
	"github.com/wasmnode/wasmnode/sandbox"
	"github.com/wasmnode/wasmnode/sandbox/rootfs"
)

// errClosed is the cause with which calls end when their plugin is closed.
var errClosed = abi.NewRecoverableError(abi.Unavailable, "the plugin is closed")

// pool holds a plugin's instances: those in calls, counted, and a few idle ones.
type pool struct {
	plugin   *Plugin
	slots    chan struct{} // one for each call in progress
	waits    chan struct{} // one for each wait_task
	commands chan struct{} // one for each exec_task
	max      int           // idle
	lifetime context.Context
	end      context.CancelCauseFunc
	calls    inflight.Group

	mu      sync.Mutex
	idle    []*instance // all of the current generation
	waiting int         // calls that had no place when they came, and have no instance yet
	current generation
}

// generation is what instances begin with. It is a value: other settings are another
// generation, and instances of an earlier one are not kept.
type generation struct {
	number   int
	settings *settings         // nil: nothing is granted
	snapshot *sandbox.Snapshot // what instances begin as a copy of; nil: each for itself
	asked    bool              // whether a snapshot can be taken
	recorded *RecordedCall     // that the one instance is made for; nil: they are made for all calls
}

func newPool(p *Plugin, l Limits) *pool {
	lifetime, end := context.WithCancelCause(context.Background())
	return &pool{
		plugin:   p,
		slots:    make(chan struct{}, l.Instances),
		waits:    make(chan struct{}, l.Waiters),
		commands: make(chan struct{}, l.Commands),
		max:      l.IdleInstances,
		lifetime: lifetime,
		end:      end,
	}
}

// instance is one instantiated guest. One call at a time uses it.
type instance struct {
	module     *sandbox.Instance
	guest      sandbox.Guest
	funcs      map[string]api.Function
	generation int
	files      []*rootfs.FS
	task       taskFiles
	output     []*lineLogger // standard output and error
	words      lastWords     // of the call in progress
	scope      *TaskScope    // that it is about
	op         string        // that it is in
	refused    string        // what it was refused first in this call; empty: nothing

	plugin  *Plugin
	config  []byte          // the plugin's, as JSON; nil: it has none yet
	secrets *secrets.Masker // of the call in progress; nil: nobody has asked yet
	masked  bool            // what it says in this call is masked in any case, see [Observer]
}

// sees is a directory at a path as the instance sees it; open opens the machine's.
func (i *instance) sees(own Surroundings, at string, open func() (experimentalsys.FS, error)) (experimentalsys.FS, error) {
	if own == nil {
		return open()
	}
	return own.Files(at, func() string { return i.op }, open)
}

// flush logs what was written without a line's end.
func (i *instance) flush() {
	for _, l := range i.output {
		l.flush()
	}
}

func (i *instance) close(ctx context.Context) {
	if i.module != nil {
		_ = i.module.Close(ctx)
	}
	for _, f := range i.files {
		_ = f.Close()
	}
}

// lease is an instance for one call.
type lease struct {
	pool  *pool
	slots chan struct{} // where its place is; nil: it has none yet
	inst  *instance     // nil: there is none yet
	end   context.CancelFunc
	// reusable is set by a call after which the instance may be kept.
	reusable bool
}

// lease waits for a place and hands out an instance, an idle one or a new one, and the
// context of its call, which the pool's end ends too. Whoever has it calls [lease.release].
func (p *pool) lease(ctx context.Context, op string) (_ context.Context, _ *lease, err error) {
	if !p.calls.Enter() {
		return nil, nil, errClosed
	}
	l := &lease{pool: p}
	defer func() {
		if l.inst == nil {
			l.release(ctx)
		}
	}()
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(p.lifetime, func() { cancel(errClosed) })
	l.end = func() { stop(); cancel(nil) }
	slots := p.slots
	switch op {
	case abi.OpDriverWaitTask:
		slots = p.waits
	case abi.OpDriverExecTask:
		slots = p.commands
		if len(slots) == cap(slots) { // whoever runs them may never end them
			return nil, nil, abi.NewRecoverableError(abi.ResourceExhausted, fmt.Sprintf("plugin %s runs %d commands, which is the limit", p.plugin.Name(), cap(slots)))
		}
	}
	waited := false
	select {
	case slots <- struct{}{}:
	default:
		waited = true
		if err = p.await(ctx, slots); err != nil {
			return nil, nil, fmt.Errorf("plugin %s: %s: waiting for one of %d instances: %w", p.plugin.Name(), op, cap(slots), err)
		}
	}
	l.slots = slots
	l.inst, err = p.take(ctx, mustRun(op), waited)
	return ctx, l, err
}

// await waits for a place. An instance that a call gives back meanwhile is kept for this one,
// until it takes one.
func (p *pool) await(ctx context.Context, slots chan<- struct{}) error {
	p.mu.Lock()
	p.waiting++
	p.mu.Unlock()
	select {
	case slots <- struct{}{}:
		return nil
	case <-ctx.Done():
	}
	p.mu.Lock()
	p.waiting--
	spare := p.spareLocked()
	p.mu.Unlock()
	closeAll(ctx, spare)
	return context.Cause(ctx)
}

// spareLocked takes the idle instances that are not to be kept. The lock is held.
func (p *pool) spareLocked() (spare []*instance) {
	if n := p.max + p.waiting; len(p.idle) > n {
		spare = slices.Clone(p.idle[n:])
		clear(p.idle[n:])
		p.idle = p.idle[:n]
	}
	return spare
}

func closeAll(ctx context.Context, instances []*instance) {
	for _, i := range instances {
		i.close(ctx)
	}
}

// release gives the place and the instance back; one that is not reusable is closed.
func (l *lease) release(ctx context.Context) {
	if l.inst != nil {
		l.pool.put(ctx, l.inst, l.reusable)
	}
	if l.slots != nil {
		<-l.slots
	}
	l.end()
	l.pool.calls.Leave()
}

// take returns an idle instance, or makes one; exempt: for a call that needs no processor time
// to be left; waited: for one that has awaited its place.
func (p *pool) take(ctx context.Context, exempt, waited bool) (*instance, error) {
	p.mu.Lock()
	if waited {
		p.waiting--
	}
	if r := recordedCall(ctx); r != nil {
		own := p.current.apart(r)
		p.mu.Unlock()
		return p.newInstance(ctx, own, exempt)
	}
	if n := len(p.idle); n > 0 {
		inst := p.idle[n-1]
		p.idle = p.idle[:n-1]
		p.mu.Unlock()
		inst.guest.Exempt = exempt
		return inst, nil
	}
	current := p.current
	p.mu.Unlock()
	return p.newInstance(ctx, current, exempt)
}

// put keeps an instance for the next calls, a few and those that wait now, or closes it.
func (p *pool) put(ctx context.Context, inst *instance, reusable bool) {
	inst.flush()
	inst.secrets = nil // nobody keeps a task's
	p.mu.Lock()
	closed := []*instance{inst}
	if reusable && inst.generation == p.current.number {
		p.idle = append(p.idle, inst)
		closed = p.spareLocked()
	}
	p.mu.Unlock()
	closeAll(ctx, closed)
}

// prepare makes an instance and keeps it: it fails when the plugin cannot be set up.
func (p *pool) prepare(ctx context.Context) error {
	op, _ := p.plugin.spec.Kind.configuration(nil)
	leased, l, err := p.lease(ctx, op)
	if err != nil {
		return p.plugin.tell(ctx, nil, err)
	}
	l.reusable = true
	l.release(leased)
	return nil
}

// settings returns those in force; nil: nothing is granted.
func (p *pool) settings() *settings {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.current.settings
}

// renew begins another generation with the settings that change makes of those in force,
// which it returns. Idle instances are closed at once, the others after their calls.
func (p *pool) renew(ctx context.Context, change func(now *settings) *settings) (before *settings) {
	p.mu.Lock()
	old, idle := p.current, p.idle
	p.current, p.idle = generation{number: old.number + 1, settings: change(old.settings)}, nil
	p.mu.Unlock()
	if old.snapshot != nil {
		old.snapshot.Close()
	}
	closeAll(ctx, idle)
	if old.settings != nil {
		old.settings.http.Close() // what was connected to may not be granted any more
	}
	return old.settings
}

// close ends all calls, waits for them, and closes all instances.
func (p *pool) close(ctx context.Context) {
	p.end(errClosed)
	p.calls.Close()
	p.renew(ctx, func(now *settings) *settings { return now })
}

// newInstance instantiates the plugin, runs its initialiser and configures it.
func (p *pool) newInstance(ctx context.Context, g generation, exempt bool) (_ *instance, err error) {
	inst := &instance{plugin: p.plugin, config: g.settings.configuration(), funcs: map[string]api.Function{}, generation: g.number}
	inst.guest.Budget, inst.guest.Exempt = p.plugin.budget, exempt
	defer func() {
		if err == nil {
			return
		}
		inst.flush()
		inst.close(ctx)
	}()
	cfg, err := p.plugin.moduleConfig(inst, g)
	if err != nil {
		return nil, err
	}
	if g.recorded != nil {
		g.recorded.Configured(g.settings.configuration(), g.settings.files())
	}
	c := newCall(p.plugin, inst, abi.ExportInitialize, nil, nil)
	if inst.module, err = p.instantiate(sandbox.WithGuest(withCall(ctx, c), &inst.guest), cfg, inst, g); err != nil {
		return nil, p.plugin.fault(ctx, c, inst, err)
	}
	if g.settings != nil {
		op, request := p.plugin.spec.Kind.configuration(g.settings.config)
		if _, _, err := p.plugin.callInstance(ctx, inst, op, marshal(request), nil); err != nil {
			return nil, err
		}
	}
	return inst, nil
}

// instantiate makes an instance whose initialiser has run: a copy of the first one of its
// generation, where there is one. Before the plugin is configured, too few are made for a
// copy to pay.
func (p *pool) instantiate(ctx context.Context, cfg wazero.ModuleConfig, inst *instance, g generation) (*sandbox.Instance, error) {
	if g.snapshot != nil {
		module, err := g.snapshot.Instantiate(ctx, cfg)
		if !errors.Is(err, sandbox.ErrClosed) { // else the generation has ended meanwhile
			p.plugin.counters.made(true)
			return module, err
		}
	}
	module, err := p.plugin.module.Instantiate(ctx, cfg)
	p.plugin.counters.made(false)
	if err == nil && g.settings != nil {
		p.offerSnapshot(module, inst)
	}
	return module, err
}

// offerSnapshot has the instances of the current generation begin as copies of one whose
// initialiser has just run. The first instance is asked, and once.
func (p *pool) offerSnapshot(module *sandbox.Instance, inst *instance) {
	if p.plugin.host.cfg.Surroundings != nil {
		return // what an initialiser does with files belongs to the calls that are repeated
	}
	p.mu.Lock()
	ask := !p.current.asked && inst.generation == p.current.number
	p.current.asked = p.current.asked || ask
	p.mu.Unlock()
	if !ask {
		return
	}
	snapshot, err := takeSnapshot(module, inst)
	if err != nil {
		p.plugin.logger.Debug("instances are not copied from a snapshot", "reason", err)
		return
	}
	p.mu.Lock()
	current := inst.generation == p.current.number
	if current {
		p.current.snapshot = snapshot
	}
	p.mu.Unlock()
	if !current {
		snapshot.Close()
	}
}

func takeSnapshot(module *sandbox.Instance, inst *instance) (*sandbox.Snapshot, error) {
	for _, f := range inst.files {
		if f.OpenFiles() > 0 {
			return nil, errors.New("the plugin opens files in its initialiser")
		}
	}
	return module.Snapshot()
}

// moduleConfig is what an instance sees of the world.
func (p *Plugin) moduleConfig(inst *instance, g generation) (wazero.ModuleConfig, error) {
	stdout := &lineLogger{plugin: p, inst: inst, level: wasmnodev1.LogLevel_LOG_LEVEL_INFO}
	stderr := &lineLogger{plugin: p, inst: inst, level: wasmnodev1.LogLevel_LOG_LEVEL_WARN}
	inst.output = []*lineLogger{stdout, stderr}
	cfg := wazero.NewModuleConfig().
		WithName("").
		WithStartFunctions(abi.ExportInitialize).
		WithStdout(stdout).
		WithStderr(stderr).
		WithSysWalltime().
		WithNanotime(p.host.nanotime, 1). // resolution: a nanosecond
		WithOsyield(func() {})
	own, s := p.host.cfg.Surroundings, g.settings
	if g.recorded != nil {
		own = g.recorded.Surroundings
	}
	if own != nil {
		cfg = cfg.WithWalltime(own.Walltime, 1).WithNanotime(own.Nanotime, 1)
		inst.guest.Random, inst.guest.Asleep = own, own.Asleep
	}
	if s == nil {
		return cfg, nil
	}
	files := wazero.NewFSConfig()
	mount := func(dirs []string, readOnly bool) error {
		for _, dir := range dirs {
			seen, err := inst.sees(own, dir, func() (experimentalsys.FS, error) {
				root, err := rootfs.Open(dir, readOnly)
				if err != nil {
					return nil, abi.NewRecoverableError(abi.Unavailable, fmt.Sprintf("plugin %s: granted directory: %v", p.Name(), err))
				}
				root.StopOn(inst.guest.Done)
				inst.files = append(inst.files, root)
				return root, nil
			})
			if err != nil {
				return err
			}
			files = files.(sysfs.FSConfig).WithSysFSMount(seen, dir)
		}
		return nil
	}
	if err := errors.Join(mount(s.grants.FS.ReadOnly, true), mount(s.grants.FS.ReadWrite, false)); err != nil {
		return nil, err
	}
	rootfs.Join(inst.files...)
	if p.seesTaskFiles() {
		inst.task = newTaskFiles(inst.guest.Done)
		var err error
		if files, err = inst.task.mount(files, inst, own); err != nil {
			return nil, err
		}
	}
	if !slices.Contains(slices.Concat(s.grants.FS.ReadOnly, s.grants.FS.ReadWrite), "/") {
		files = files.(sysfs.FSConfig).WithSysFSMount(p.refusedFiles(inst), "/") // the last, so that the others keep their descriptors
	}
	return cfg.WithFSConfig(files), nil
}
