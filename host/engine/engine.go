package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"runtime/debug"
	"sync"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
	wazerosys "github.com/tetratelabs/wazero/sys"
)

// PageSize is a WebAssembly page in bytes.
const PageSize = 64 << 10

// maxPages is WebAssembly's own limit: 4 GiB.
const maxPages = 65536

// Engine compiles modules and keeps what it compiled, in memory while it is used
// and on disk for the next start. It is safe for concurrent use.
type Engine struct {
	cache     wazero.CompilationCache
	compiling sync.Mutex // one compile at a time: it cannot be cancelled and takes a core
}

// New returns an engine whose compiled code is cached below cacheDir, which is made
// with mode 0700: who can write there can run code in the agent. An empty cacheDir
// keeps nothing.
func New(cacheDir string) (*Engine, error) {
	if cacheDir == "" {
		return &Engine{cache: wazero.NewCompilationCache()}, nil
	}
	if err := os.MkdirAll(cacheDir, 0o700); err != nil {
		return nil, fmt.Errorf("compilation cache: %w", err)
	}
	if err := os.Chmod(cacheDir, 0o700); err != nil {
		return nil, fmt.Errorf("compilation cache: %w", err)
	}
	cache, err := wazero.NewCompilationCacheWithDir(cacheDir)
	if err != nil {
		return nil, fmt.Errorf("compilation cache: %w", err)
	}
	return &Engine{cache: cache}, nil
}

// Close releases the cache. Modules must have been closed.
func (e *Engine) Close(ctx context.Context) error { return e.cache.Close(ctx) }

// Options are how a module is compiled.
type Options struct {
	// MemoryMaxBytes bounds an instance's memory: at least one page, at most 4 GiB,
	// rounded down to pages.
	MemoryMaxBytes uint64
	// Link adds host modules to the module's runtime.
	Link func(ctx context.Context, r wazero.Runtime) error
}

// Module is compiled code that can be instantiated. It is safe for concurrent use.
type Module struct {
	runtime  wazero.Runtime
	compiled wazero.CompiledModule
	digest   string
}

// Compile compiles a module. The context does not interrupt it.
//
// # Errors
//
// A [StageError] names the stage that refused the module.
func (e *Engine) Compile(ctx context.Context, wasm []byte, opts Options) (m *Module, err error) {
	pages := min(opts.MemoryMaxBytes/PageSize, maxPages)
	if pages == 0 {
		return nil, &StageError{StagePolicy, fmt.Errorf("memory limit of %d bytes is less than one page of %d", opts.MemoryMaxBytes, PageSize)}
	}
	r := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigCompiler().
		WithCompilationCache(e.cache).
		WithMemoryLimitPages(uint32(pages)).
		WithCloseOnContextDone(true))
	defer func() {
		if err != nil {
			r.Close(ctx)
		}
	}()
	if _, err := wasi_snapshot_preview1.Instantiate(ctx, r); err != nil {
		return nil, &StageError{StageCompile, err}
	}
	if opts.Link != nil {
		if err := opts.Link(ctx, r); err != nil {
			return nil, &StageError{StageCompile, err}
		}
	}
	compiled, err := e.compile(ctx, r, wasm)
	if err != nil {
		return nil, &StageError{StageCompile, err}
	}
	return &Module{runtime: r, compiled: compiled, digest: Digest(wasm)}, nil
}

// compile enters wazero's compiler, one at a time, and turns its panics into errors:
// malformed modules can make it panic.
func (e *Engine) compile(ctx context.Context, r wazero.Runtime, wasm []byte) (c wazero.CompiledModule, err error) {
	e.compiling.Lock()
	defer e.compiling.Unlock()
	defer recovered(&err)
	return r.CompileModule(ctx, wasm)
}

// recovered turns a panic into an error.
func recovered(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("the compiler panicked: %v\n%s", p, debug.Stack())
	}
}

// Digest names a module by its content: lower-case hexadecimal SHA-256.
func Digest(wasm []byte) string {
	sum := sha256.Sum256(wasm)
	return hex.EncodeToString(sum[:])
}

// Digest returns the digest of the bytes that were compiled.
func (m *Module) Digest() string { return m.digest }

// Instantiate makes an instance and runs its start functions. Ending ctx ends them.
func (m *Module) Instantiate(ctx context.Context, cfg wazero.ModuleConfig) (mod api.Module, err error) {
	defer recovered(&err)
	return m.runtime.InstantiateModule(ctx, m.compiled, cfg)
}

// Close closes the module and all its instances. No call may be under way.
func (m *Module) Close(ctx context.Context) error { return m.runtime.Close(ctx) }

// Interrupted reports whether err says that a guest was ended by its context.
func Interrupted(err error) bool {
	exit, ok := exitError(err)
	return ok && (exit.ExitCode() == wazerosys.ExitCodeContextCanceled || exit.ExitCode() == wazerosys.ExitCodeDeadlineExceeded)
}

// ExitCode returns the code that a guest exited with.
func ExitCode(err error) (code uint32, ok bool) {
	exit, ok := exitError(err)
	if !ok || Interrupted(err) {
		return 0, false
	}
	return exit.ExitCode(), true
}
