package sandbox

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"

	"github.com/hashicorp/go-hclog"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"

	"github.com/wasmnode/wasmnode/sandbox/meter"
	"github.com/wasmnode/wasmnode/sandbox/scan"
	"github.com/wasmnode/wasmnode/sandbox/wasmbin"
)

// PageSize is a WebAssembly page in bytes.
const PageSize = 64 << 10

// maxPages is WebAssembly's own limit: 4 GiB.
const maxPages = 65536

// Config configures an engine; the zero value keeps nothing on disk.
type Config struct {
	// CacheDir is where compiled code is kept for the next start; it is made with
	// mode 0700, since who can write there can run code in the agent. Empty:
	// nowhere.
	CacheDir string
	// CacheBytes bounds CacheDir; what was used longest ago goes first. 0 means
	// [DefaultCacheBytes].
	CacheBytes int64
	// Logger gets what happens to the cache; nil: it is not logged.
	Logger hclog.Logger
}

// DefaultCacheBytes is the bound on the compilation cache: about a hundred Go
// plugins of 9 MB each.
const DefaultCacheBytes = 1 << 30

// Engine compiles modules and keeps what it compiled, in memory while it is used
// and on disk for the next start. It is safe for concurrent use.
type Engine struct {
	logger hclog.Logger
	disk   *disk // nil: nothing is kept
	// compiling is the compile semaphore: a compile cannot be cancelled and takes a core,
	// so there is one at a time.
	compiling chan struct{}

	mu     sync.Mutex
	shared map[string]*sharedCode // by digest
}

// sharedCode is the compiled code of one digest, for all modules made of it.
type sharedCode struct {
	cache wazero.CompilationCache
	users int
	fresh bool // the disk has a directory for it, without a seal yet
}

// Open returns an engine.
func Open(cfg Config) (*Engine, error) {
	e := &Engine{logger: cfg.Logger, compiling: make(chan struct{}, 1), shared: map[string]*sharedCode{}}
	if e.logger == nil {
		e.logger = hclog.NewNullLogger()
	}
	if cfg.CacheBytes < 0 {
		return nil, fmt.Errorf("compilation cache: a bound of %d bytes", cfg.CacheBytes)
	}
	if cfg.CacheBytes == 0 {
		cfg.CacheBytes = DefaultCacheBytes
	}
	if cfg.CacheDir == "" {
		return e, nil
	}
	var err error
	if e.disk, err = openDisk(cfg.CacheDir, cfg.CacheBytes, e.logger); err != nil {
		return nil, fmt.Errorf("compilation cache: %w", err)
	}
	return e, nil
}

// Close releases what the engine keeps in memory. Modules must have been closed.
func (e *Engine) Close(ctx context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	var errs []error
	for digest, s := range e.shared {
		errs = append(errs, s.cache.Close(ctx))
		delete(e.shared, digest)
	}
	return errors.Join(errs...)
}

// Options are how a module is compiled.
type Options struct {
	// MemoryMaxBytes bounds an instance's memory: at least one page, at most 4 GiB,
	// rounded down to pages.
	MemoryMaxBytes uint64
	// Template prepares the module for [Instance.Snapshot], if that is possible.
	Template bool
	// Link adds host modules to the module's runtime.
	Link func(ctx context.Context, r wazero.Runtime) error
}

// Compile compiles a module that was scanned within [scan.DefaultLimits]. The context
// bounds the wait for other compiles, not this one, which is bounded by these limits.
// Bytes that an engine has
// compiled are not compiled again while a module of them is open or the cache has
// them.
//
// # Errors
//
// A [StageError] names the stage that refused the module; the context's error when
// it ended first.
func (e *Engine) Compile(ctx context.Context, scanned *scan.Module, opts Options) (*Module, error) {
	pages := min(opts.MemoryMaxBytes/PageSize, maxPages)
	if pages == 0 {
		return nil, &StageError{StagePolicy, fmt.Errorf("memory limit of %d bytes is less than one page of %d", opts.MemoryMaxBytes, PageSize)}
	}
	select {
	case e.compiling <- struct{}{}:
		defer func() { <-e.compiling }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	metered, info, err := addMeter(scanned, uint32(pages), opts)
	if err != nil {
		return nil, err
	}
	m, err := e.build(context.WithoutCancel(ctx), metered, opts.Link)
	if err != nil {
		return nil, &StageError{StageCompile, err}
	}
	m.digest, m.limit, m.template = scanned.Digest, pages*PageSize, newTemplate(info.Template)
	return m, nil
}

// addMeter adds the fuel meter: nothing unmetered is compiled.
func addMeter(scanned *scan.Module, pages uint32, opts Options) (metered []byte, info *meter.Info, err error) {
	if m := scanned.Memory; m != nil && m.Min > pages {
		return nil, nil, &StageError{StagePolicy, fmt.Errorf("the module begins with %d bytes of memory, the limit is %d",
			uint64(scanned.Memory.Min)*PageSize, uint64(pages)*PageSize)}
	}
	if metered, info, err = meter.Rewrite(scanned.Binary, meter.Options{Template: opts.Template}); err != nil {
		return nil, nil, &StageError{StageMeter, err}
	}
	return metered, info, nil
}

// build makes the runtime of a module and compiles the module in it. Code that the
// disk cannot give back is thrown away and compiled anew, once; a disk that is full
// or broken costs the next start a compile, and does not stop this one.
func (e *Engine) build(ctx context.Context, wasm []byte, link func(context.Context, wazero.Runtime) error) (*Module, error) {
	digest := digestOf(wasm)
	m, err := e.tryBuild(ctx, digest, wasm, e.disk, link)
	if err == nil || e.disk == nil || errors.As(err, new(*PanicError)) {
		return m, err
	}
	if e.disk.forget(digest) {
		if m, err := e.tryBuild(ctx, digest, wasm, e.disk, link); err == nil {
			return m, nil
		}
	}
	m, withoutErr := e.tryBuild(ctx, digest, wasm, nil, link)
	if withoutErr == nil {
		e.logger.Warn("compiled code could not be kept", "digest", digest, "error", err)
	}
	return m, withoutErr
}

func (e *Engine) tryBuild(ctx context.Context, digest string, wasm []byte, on *disk, link func(context.Context, wazero.Runtime) error) (m *Module, err error) {
	cache, err := e.acquire(digest, on)
	if err != nil {
		return nil, err
	}
	r := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigCompiler().
		WithCompilationCache(cache).
		WithCoreFeatures(meter.CoreFeatures(wasmbin.Pinned)))
	m = &Module{engine: e, runtime: r, code: digest}
	defer func() {
		if err != nil {
			_ = m.Close(ctx)
			m = nil
		}
	}()
	if _, err := wasi_snapshot_preview1.Instantiate(ctx, r); err != nil {
		return m, err
	}
	if err := meter.Link(ctx, r); err != nil {
		return m, err
	}
	if link != nil {
		if err := link(ctx, r); err != nil {
			return m, err
		}
	}
	if m.compiled, err = compile(ctx, r, wasm); err != nil {
		return m, err
	}
	e.keep(digest)
	return m, nil
}

// keep has the disk keep what was compiled, unless it had it already. What compiling
// took of memory, more than the agent needs for all else, is given back.
func (e *Engine) keep(digest string) {
	e.mu.Lock()
	s := e.shared[digest]
	fresh := s.fresh
	s.fresh = false
	e.mu.Unlock()
	if fresh {
		e.disk.seal(digest)
		debug.FreeOSMemory()
	}
}

// acquire returns the cache of one digest's code, which is kept on that disk unless
// it is nil. The caller holds the compile semaphore.
func (e *Engine) acquire(digest string, on *disk) (wazero.CompilationCache, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	s, ok := e.shared[digest]
	if !ok {
		s = &sharedCode{cache: wazero.NewCompilationCache()}
		if on != nil {
			dir, fresh, err := on.open(digest)
			if err != nil {
				return nil, err
			}
			s.fresh = fresh
			if s.cache, err = wazero.NewCompilationCacheWithDir(dir); err != nil {
				return nil, err
			}
		}
		e.shared[digest] = s
	}
	s.users++
	return s.cache, nil
}

// release is the inverse of acquire.
func (e *Engine) release(ctx context.Context, digest string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.shared[digest]
	if s == nil {
		return nil
	}
	if s.users--; s.users > 0 {
		return nil
	}
	delete(e.shared, digest)
	return s.cache.Close(ctx)
}

// compile enters wazero's compiler and turns its panics into errors: malformed
// modules have made it panic.
func compile(ctx context.Context, r wazero.Runtime, wasm []byte) (c wazero.CompiledModule, err error) {
	defer recovered(&err)
	return r.CompileModule(ctx, wasm)
}

// recovered turns a panic into an error.
func recovered(err *error) {
	if p := recover(); p != nil {
		*err = &PanicError{Value: p, Stack: string(debug.Stack())}
	}
}
