package wasi

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/sandbox"
	"github.com/wasmnode/wasmnode/sandbox/scan"
	"github.com/wasmnode/wasmnode/workload"
)

// maxIdleModules bounds the compiled programs that are kept though nothing runs them,
// for the next restart of a task. A Go program's code takes about 10 MB.
const maxIdleModules = 8

// wasiModule is the host module that programs may import, and startExport what they
// begin with.
const (
	wasiModule  = "wasi_snapshot_preview1"
	startExport = "_start"
)

// moduleCache shares compiled programs between the workloads that run them, and keeps
// the latest few that none runs.
type moduleCache struct {
	engine   *sandbox.Engine
	life     context.Context
	compiles sync.WaitGroup

	mu      sync.Mutex
	modules map[moduleKey]*sharedModule
	idle    []*sharedModule // the longest idle first
}

type moduleKey struct {
	digest string
	memory uint64
}

// sharedModule is compiled once, for all that need it.
type sharedModule struct {
	key    moduleKey
	ready  chan struct{} // closed when module and err are set
	module *sandbox.Module
	err    error
	users  int
}

func newModuleCache(life context.Context, e *sandbox.Engine) *moduleCache {
	return &moduleCache{engine: e, life: life, modules: map[moduleKey]*sharedModule{}}
}

// acquire returns the compiled module, which is to be released. The context bounds the wait;
// a compile goes on for those who come later.
func (c *moduleCache) acquire(ctx context.Context, program *workload.WASIProgram, memory uint64) (*sharedModule, error) {
	src := scan.KnownSource(program.Module, program.Digest)
	if program.Digest == "" {
		src = scan.NewSource(program.Module)
	}
	m := c.share(moduleKey{src.Digest(), memory}, src) //nolint:contextcheck // a compile serves later callers, too
	select {
	case <-m.ready:
	case <-ctx.Done():
		c.release(m) //nolint:contextcheck // a module is closed by its last user
		return nil, ctx.Err()
	}
	if m.err != nil {
		c.release(m) //nolint:contextcheck // a module is closed by its last user
		return nil, m.err
	}
	return m, nil
}

// retain counts one more user of a module that has one.
func (c *moduleCache) retain(m *sharedModule) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m.users++
}

// share counts one more user of a module, and has it compiled for the first.
func (c *moduleCache) share(key moduleKey, src scan.Source) *sharedModule {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m := c.modules[key]; m != nil {
		m.users++
		c.idle = slices.DeleteFunc(c.idle, func(i *sharedModule) bool { return i == m })
		return m
	}
	m := &sharedModule{key: key, ready: make(chan struct{}), users: 2} // the caller, and the compile
	c.modules[key] = m
	c.compiles.Go(func() {
		m.module, m.err = c.compile(src, key.memory)
		close(m.ready)
		c.release(m)
	})
	return m
}

// compile turns a file into a program, or returns why it is none.
func (c *moduleCache) compile(src scan.Source, memory uint64) (*sandbox.Module, error) {
	refused := func(err error) error { return abi.NewError(abi.InvalidArgument, "module: "+err.Error()) }
	scanned, err := scan.Read(src, scan.DefaultLimits())
	if err != nil {
		return nil, refused(err)
	}
	if err := checkCommand(scanned.Spec); err != nil {
		return nil, refused(err)
	}
	// As a template, programs share the data that they do not write to.
	m, err := c.engine.Compile(c.life, scanned, sandbox.Options{MemoryMaxBytes: memory, Template: true})
	if c.life.Err() != nil {
		return m, abi.NewRecoverableError(abi.Unavailable, errShutdown.Error())
	}
	if err != nil {
		return nil, refused(err)
	}
	return m, nil
}

// checkCommand returns what is wrong with a module that is not a WASI command.
func checkCommand(spec *scan.Spec) error {
	for _, i := range spec.Imports {
		if i.Module != wasiModule {
			return fmt.Errorf("it imports %q from %q, but a program can only import from %s", i.Name, i.Module, wasiModule)
		}
	}
	start := spec.Export(scan.KindFunc, startExport)
	switch {
	case start == nil && spec.IsReactor:
		return errors.New("it is a WASI reactor (such as a plugin), which has no _start; build it as a command")
	case start == nil:
		return errors.New("it is not a WASI command: it does not export the function _start")
	}
	return nil
}

// release drops one user. A module that nothing uses stays for a while.
func (c *moduleCache) release(m *sharedModule) {
	if evicted := c.drop(m); evicted != nil {
		_ = evicted.module.Close(context.Background())
	}
}

// drop returns the module that has to go, if one has to.
func (c *moduleCache) drop(m *sharedModule) *sharedModule {
	c.mu.Lock()
	defer c.mu.Unlock()
	m.users--
	if m.users > 0 {
		return nil
	}
	if m.module == nil {
		delete(c.modules, m.key)
		return nil
	}
	c.idle = append(c.idle, m)
	if len(c.idle) <= maxIdleModules {
		return nil
	}
	oldest := c.idle[0]
	c.idle = slices.Delete(c.idle, 0, 1)
	delete(c.modules, oldest.key)
	return oldest
}

// close closes what is left. No program runs any more.
func (c *moduleCache) close() error {
	c.compiles.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	var errs []error
	for _, m := range c.modules {
		if m.module != nil {
			errs = append(errs, m.module.Close(context.Background()))
		}
	}
	clear(c.modules)
	c.idle = nil
	return errors.Join(errs...)
}
