package wasi

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/host/engine"
)

// moduleCache shares compiled programs between the workloads that run them. A module
// is closed when its last program ends; the engine keeps its code on disk.
type moduleCache struct {
	engine *engine.Engine

	mu      sync.Mutex
	modules map[moduleKey]*sharedModule
}

type moduleKey struct {
	digest string
	memory uint64
}

// sharedModule is compiled once, by whoever comes first.
type sharedModule struct {
	ready  chan struct{}
	module *engine.Module
	err    error
	users  int
}

func newModuleCache(e *engine.Engine) *moduleCache {
	return &moduleCache{engine: e, modules: map[moduleKey]*sharedModule{}}
}

// acquire returns the compiled module and a function that gives it back. The context
// bounds the wait for somebody else's compile, not the compile.
func (c *moduleCache) acquire(ctx context.Context, wasm []byte, memory uint64) (*engine.Module, func(), error) {
	key := moduleKey{engine.Digest(wasm), memory}
	c.mu.Lock()
	m, found := c.modules[key]
	if !found {
		m = &sharedModule{ready: make(chan struct{})}
		c.modules[key] = m
	}
	m.users++
	c.mu.Unlock()
	release := func() { c.release(key, m) }
	if !found {
		m.module, m.err = c.engine.Compile(context.WithoutCancel(ctx), wasm, engine.Options{MemoryMaxBytes: memory})
		close(m.ready)
	}
	select {
	case <-m.ready:
	case <-ctx.Done():
		release()
		return nil, nil, ctx.Err()
	}
	if m.err != nil {
		release()
		return nil, nil, abi.NewError(abi.InvalidArgument, fmt.Sprintf("module: %v", m.err))
	}
	return m.module, release, nil
}

// release drops one user, and the module with the last.
func (c *moduleCache) release(key moduleKey, m *sharedModule) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m.users--
	if m.users > 0 {
		return
	}
	if c.modules[key] == m {
		delete(c.modules, key)
	}
	if m.module != nil {
		_ = m.module.Close(context.Background())
	}
}

// close closes what is left; no program runs any more.
func (c *moduleCache) close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var errs []error
	for _, m := range c.modules {
		if m.module != nil {
			errs = append(errs, m.module.Close(context.Background()))
		}
	}
	clear(c.modules)
	return errors.Join(errs...)
}
