package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"time"

	"github.com/tetratelabs/wazero"

	"github.com/wasmnode/wasmnode/internal/apart"
	"github.com/wasmnode/wasmnode/sandbox/wasmbin"
)

// compilerProgram is the argument 0 by which [EnterCompiler] knows that it is in the new
// process.
const compilerProgram = "wasmnode: compiling"

// EnterCompiler is to be called first of all in main, or in TestMain: engines of a program
// that does so compile in a process of their own, which is this program again, so that a
// module which exhausts the compiler ends nothing but that process. It does not return in
// it. Without it, or on another system than Linux, engines compile in their own process,
// and the estimate of the scan is all that bounds it.
func EnterCompiler() {
	apart.Enter(compilerProgram, func(args []string, wasm []byte) any {
		report := compileInto(wasm, args[0])
		report.PeakBytes = apart.PeakBytes()
		return report
	})
	entered = apart.Entered(compilerProgram)
}

// entered: this program can be started as compilerProgram.
var entered bool

// ErrCompileLimit matches the error of a module whose compiling was ended for what it
// took of memory or of processor time.
var ErrCompileLimit = errors.New("the module is too costly to compile")

// compileTime is what it may take of processors: a Go program of 14 MB takes 5 s. Its memory
// is what the scan's estimate may reach.
const compileTime = 60 * time.Second

func boundsFor(wasm []byte) apart.Bounds {
	bytes := wasmbin.MaxCompileBytes(wasmbin.DefaultLimits().CompileBytes, len(wasm))
	return apart.Bounds{Bytes: bytes, Time: compileTime, Answer: maxReport}
}

// maxReport bounds a report; an error quotes at most a name of the module.
const maxReport = 1 << 20

// compileReport is what the process tells when it has ended by itself.
type compileReport struct {
	Error  string `json:",omitempty"` // why the module does not compile
	Panic  string `json:",omitempty"` // of the engine, with
	Stack  string `json:",omitempty"`
	Unkept string `json:",omitempty"` // why its code could not be written; it does compile
	// PeakBytes is the most memory that the process has had at once.
	PeakBytes uint64
	// CPU is what it has used of processors.
	CPU time.Duration
}

// refusal is how compiling in a process of its own failed: there is no other way to try.
type refusal struct{ err error }

func (r *refusal) Error() string { return r.err.Error() }

// Unwrap returns the cause.
func (r *refusal) Unwrap() error { return r.err }

// compileFirst compiles a module whose code is not on the disk, and returns where its code is
// then; empty: nowhere, and it is to be compiled again.
func (e *Engine) compileFirst(ctx context.Context, digest string, wasm []byte, on *diskCache) (dir string, err error) {
	if on == nil && !entered {
		return "", nil
	}
	var partial string
	if on != nil {
		if partial, err = on.begin(); err != nil {
			return "", err
		}
		defer os.RemoveAll(partial)
	}
	if entered {
		err = e.compileBounded(ctx, digest, wasm, partial)
	} else {
		err = compileHere(wasm, partial) //nolint:contextcheck // what wazero begins it has to end
	}
	var unkept *unkeptError
	if errors.As(err, &unkept) {
		e.logger.Warn("compiled code could not be kept", "digest", digest, "error", unkept.why)
		return "", nil
	}
	if err != nil || on == nil {
		return "", err
	}
	if dir, err = on.keep(digest, partial); err != nil {
		e.logger.Warn("compiled code could not be kept", "digest", digest, "error", err)
	}
	return dir, nil
}

// unkeptError is why the code of a module that does compile could not be written.
type unkeptError struct{ why string }

func (e *unkeptError) Error() string { return e.why }

// compileHere compiles a module in this process, into a directory.
func compileHere(wasm []byte, dir string) error {
	defer debug.FreeOSMemory() // it took more than the agent needs for all else
	report := compileInto(wasm, dir)
	if err := report.err(); err != nil {
		return err
	}
	return report.unkept()
}

// compileBounded compiles a module apart, into a directory or, if that is "", nowhere. One
// that exceeded the bounds a while ago is not tried again.
func (e *Engine) compileBounded(ctx context.Context, digest string, wasm []byte, dir string) error {
	if err := e.refused.of(digest, time.Now()); err != nil {
		return &refusal{err}
	}
	began := time.Now()
	report, err := compileApart(ctx, wasm, dir, boundsFor(wasm))
	if errors.Is(err, ErrCompileLimit) {
		e.refused.add(digest, err, time.Now())
	}
	if err != nil {
		return &refusal{err}
	}
	e.logger.Debug("compiled", "digest", digest, "bytes", len(wasm), "took", time.Since(began), "peak_bytes", report.PeakBytes)
	return report.unkept()
}

// unkept is an unkeptError or nil.
func (r *compileReport) unkept() error {
	if r.Unkept == "" {
		return nil
	}
	return &unkeptError{r.Unkept}
}

// compileApart has a module compiled in a process of its own, which ends with the
// context, and with this one. The code is then in dir, or nowhere if that is "".
func compileApart(ctx context.Context, wasm []byte, dir string, b apart.Bounds) (*compileReport, error) {
	var report compileReport
	used, err := apart.Run(ctx, compilerProgram, b, []string{dir}, wasm, &report)
	var exceeded *apart.LimitError
	switch {
	case errors.As(err, &exceeded):
		return nil, fmt.Errorf("%w: %w", ErrCompileLimit, exceeded)
	case err != nil:
		return nil, err
	}
	report.CPU = used
	return &report, report.err()
}

// err is why the module does not compile.
func (r *compileReport) err() error {
	switch {
	case r.Panic != "":
		return &PanicError{Value: r.Panic, Stack: r.Stack}
	case r.Error != "":
		return errors.New(r.Error)
	}
	return nil
}

// compileInto compiles a module and leaves the code in dir, unless that is "". A disk
// that does not take the code is told from a module that does not compile by trying
// again without.
func compileInto(wasm []byte, dir string) (r compileReport) {
	if dir != "" {
		cache, err := wazero.NewCompilationCacheWithDir(dir)
		if err == nil {
			err = compileOnly(wasm, cache)
		}
		if err == nil {
			return r
		}
		r.Unkept = err.Error()
	}
	err := compileOnly(wasm, wazero.NewCompilationCache())
	var p *PanicError
	if errors.As(err, &p) {
		r.Panic, r.Stack = fmt.Sprint(p.Value), p.Stack
	} else if err != nil {
		r.Error = err.Error()
	}
	return r
}

// compileOnly compiles a module for what is left of that on the disk.
func compileOnly(wasm []byte, cache wazero.CompilationCache) error {
	ctx := context.Background()
	r := wazero.NewRuntimeWithConfig(ctx, runtimeConfig(cache))
	_, err := compile(ctx, r, wasm)
	return errors.Join(err, r.Close(ctx), cache.Close(ctx))
}
