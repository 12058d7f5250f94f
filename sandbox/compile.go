package sandbox

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/tetratelabs/wazero"

	"github.com/wasmnode/wasmnode/sandbox/meter"
	"github.com/wasmnode/wasmnode/sandbox/scan"
	"github.com/wasmnode/wasmnode/sandbox/wasmbin"
)

// PageSize is a WebAssembly page in bytes.
const PageSize = 64 << 10

// maxPages is WebAssembly's own limit: 4 GiB.
const maxPages = 65536

// Options are how a module is compiled.
type Options struct {
	// MemoryMaxBytes bounds an instance's memory: at least one page, at most 4 GiB,
	// rounded down to pages.
	MemoryMaxBytes uint64
	// Template prepares the module for [Instance.Snapshot], if that is possible.
	Template bool
	// Lines has the stacks of traps tell lines of source, where the module has what that takes: see
	// [Module.Frames].
	Lines bool
	// Wanted reports whether somebody waits for the module, so that it is compiled before others
	// that wait for their turn; it must not block. Nil: nobody does.
	Wanted func() bool
	// Link adds host modules to the module's runtime.
	Link func(ctx context.Context, r wazero.Runtime) error
}

// Compile compiles a module that was scanned within [scan.DefaultLimits], in a process of
// its own if the program calls [EnterCompiler], up to four at once. The context ends the wait
// for other compiles, and that process. Bytes that an engine has compiled are not compiled again while a module
// of them is open or the cache has them.
//
// # Errors
//
// A [StageError] names the stage that refused the module; it matches [ErrCompileLimit] when
// that takes more memory or time than it may, and then the same module is refused at once
// for some minutes, and [ErrProcessor] where no module can be run. The context's error when it ended first.
func (e *Engine) Compile(ctx context.Context, scanned *scan.Module, opts Options) (*Module, error) {
	pages := min(opts.MemoryMaxBytes/PageSize, maxPages)
	if pages == 0 {
		return nil, &StageError{StagePolicy, fmt.Errorf("memory limit of %d bytes is less than one page of %d", opts.MemoryMaxBytes, PageSize)}
	}
	if e.processor != nil {
		return nil, &StageError{StageCompile, e.processor}
	}
	slot := e.compiles.Join(opts.Wanted)
	if err := slot.Wait(ctx); err != nil {
		return nil, err
	}
	defer slot.Leave()
	metered, info, err := addMeter(scanned, uint32(pages), opts)
	if err != nil {
		return nil, err
	}
	m, err := e.build(ctx, metered, opts.Link)
	if err != nil && ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, &StageError{StageCompile, err}
	}
	m.digest, m.limit = scanned.Digest, pages*PageSize
	m.template, m.noTemplate = newTemplate(info.Template), info.NoTemplate
	if info.Origins != nil {
		m.lines = &sourceLines{info.Origins, lineTables(scanned)}
	}
	return m, nil
}

// addMeter adds the fuel meter: nothing unmetered is compiled.
func addMeter(scanned *scan.Module, pages uint32, opts Options) (metered []byte, info *meter.Info, err error) {
	if m := scanned.Memory; m != nil && m.Min > pages {
		return nil, nil, &StageError{StagePolicy, fmt.Errorf("the module begins with %d bytes of memory, the limit is %d",
			uint64(scanned.Memory.Min)*PageSize, uint64(pages)*PageSize)}
	}
	if metered, info, err = meter.Rewrite(scanned.Binary, meter.Options{Template: opts.Template, Origins: opts.Lines && hasLines(scanned)}); err != nil {
		return nil, nil, &StageError{StageMeter, err}
	}
	return metered, info, nil
}

// build makes the runtime of a module and compiles the module in it. Code that the
// disk cannot give back is thrown away and compiled again, once; a disk that is full
// or broken costs the next start a compile, and does not stop this one.
func (e *Engine) build(ctx context.Context, wasm []byte, link func(context.Context, wazero.Runtime) error) (*Module, error) {
	digest := codeDigest(wasm)
	if err := e.begin(ctx, digest); err != nil {
		return nil, err
	}
	defer e.end(digest)
	m, err := e.tryBuild(ctx, digest, wasm, e.disk, link)
	if err == nil || e.disk == nil || final(err) {
		return m, err
	}
	if e.disk.forget(digest) {
		if m, err := e.tryBuild(ctx, digest, wasm, e.disk, link); err == nil || final(err) {
			return m, err
		}
	}
	m, withoutErr := e.tryBuild(ctx, digest, wasm, nil, link)
	if withoutErr == nil {
		e.logger.Warn("compiled code could not be kept", "digest", digest, "error", err)
	}
	return m, withoutErr
}

// final reports whether a module would fail again without the disk.
func final(err error) bool {
	return errors.As(err, new(*PanicError)) || errors.As(err, new(*refusal))
}

func (e *Engine) tryBuild(ctx context.Context, digest string, wasm []byte, on *diskCache, link func(context.Context, wazero.Runtime) error) (m *Module, err error) {
	shared, err := e.acquire(ctx, digest, wasm, on)
	if err != nil {
		return nil, err
	}
	ctx = context.WithoutCancel(ctx) // what wazero begins it has to end
	r := wazero.NewRuntimeWithConfig(ctx, runtimeConfig(shared.cache))
	m = &Module{engine: e, runtime: r, code: digest, kept: shared.dir != ""}
	defer func() {
		if err != nil {
			_ = m.Close(ctx)
			m = nil
		}
	}()
	if err := linkWASI(ctx, r); err != nil {
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
	e.settle(shared, on, digest, m.compiled)
	return m, nil
}

// runtimeConfig is how every runtime is configured: it decides what the code looks like.
func runtimeConfig(cache wazero.CompilationCache) wazero.RuntimeConfig {
	return wazero.NewRuntimeConfigCompiler().
		WithCompilationCache(cache).
		WithCoreFeatures(meter.CoreFeatures(wasmbin.Pinned))
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
