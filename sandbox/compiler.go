package sandbox

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tetratelabs/wazero"

	"github.com/wasmnode/wasmnode/sandbox/wasmbin"
)

// compilerProgram is the argument 0 by which [EnterCompiler] knows that it is in the new
// process.
const compilerProgram = "wasmnode: compiling"

// entered: this program can be started as compilerProgram.
var entered bool

// EnterCompiler is to be called first of all in main, or in TestMain: engines of a program
// that does so compile in a process of their own, which is this program again, so that a
// module which exhausts the compiler ends nothing but that process. It does not return in
// it. Without it, or on another system than Linux, engines compile in their own process,
// and the estimate of the scan is all that bounds it.
func EnterCompiler() {
	entered = compilerAvailable
	if os.Args[0] != compilerProgram {
		return
	}
	report := compileAlone(os.Args[1:])
	if err := json.NewEncoder(os.Stdout).Encode(report); err != nil {
		os.Exit(1)
	}
	os.Exit(0)
}

// ErrCompileLimit matches the error of a module whose compiling was ended for what it
// took of memory or of processor time.
var ErrCompileLimit = errors.New("the module is too costly to compile")

// compileTime is what it may take of processors: a Go program of 14 MB takes 5 s. Its memory
// is what the scan's estimate may reach.
const compileTime = 60 * time.Second

// bounds are what compiling one module may take.
type bounds struct {
	bytes uint64        // of memory
	time  time.Duration // of processors, in whole seconds
}

func boundsFor(wasm []byte) bounds {
	return bounds{wasmbin.MaxCompileBytes(wasmbin.DefaultLimits().CompileBytes, len(wasm)), compileTime}
}

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
func compileApart(ctx context.Context, wasm []byte, dir string, b bounds) (*compileReport, error) {
	// The kernel ends the process with the thread that started it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := exec.CommandContext(ctx, "/proc/self/exe")
	cmd.Args = []string{compilerProgram, dir, strconv.Itoa(len(wasm)), strconv.FormatUint(b.bytes, 10), strconv.Itoa(int(b.time / time.Second))}
	cmd.Env = []string{"GOGC=400"} // it lives for a second; its memory is bounded by other means
	cmd.SysProcAttr = compilerAttributes()
	cmd.Stdin = bytes.NewReader(wasm)
	var out, complaint firstBytes
	cmd.Stdout, cmd.Stderr = &out, &complaint
	err := cmd.Run()
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case cmd.ProcessState == nil:
		return nil, fmt.Errorf("the compiler could not be started: %w", err)
	case !cmd.ProcessState.Success():
		return nil, whyEnded(cmd.ProcessState, string(complaint.b), b)
	}
	var report compileReport
	if err := json.Unmarshal(out.b, &report); err != nil {
		return nil, fmt.Errorf("the compiler's report: %w", err)
	}
	report.CPU = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	return &report, report.err()
}

// whyEnded is why a process ended without a report: whatever it was, the module did it, or
// the machine has no room for it.
func whyEnded(state *os.ProcessState, complaint string, b bounds) error {
	first, _, _ := strings.Cut(complaint, "\n")
	switch {
	case slices.ContainsFunc(shortOfMemory, func(words string) bool { return strings.Contains(complaint, words) }):
		return fmt.Errorf("%w: it takes more than %d MB of memory", ErrCompileLimit, b.bytes>>20)
	case state.ExitCode() == outOfTime:
		return fmt.Errorf("%w: it takes more than %d s of a processor", ErrCompileLimit, b.time/time.Second)
	case first == "":
		return fmt.Errorf("%w: the compiler ended with %v; the machine may be short of memory", ErrCompileLimit, state)
	}
	return fmt.Errorf("%w: the compiler ended with %v: %s", ErrCompileLimit, state, first)
}

// shortOfMemory is what a Go program says that gets no more memory; the last, when it is
// the stack of a thread for which there is none.
var shortOfMemory = []string{"out of memory", "cannot allocate memory", "pthread_create failed"}

// outOfTime is the exit code of a process that has used the time that it has.
const outOfTime = 3

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

// compileAlone is what the process does: it takes its bounds, reads the module and leaves
// its code in the directory.
func compileAlone(args []string) compileReport {
	if len(args) != 4 {
		return compileReport{Error: "this program compiles what an engine gives it, and does nothing else"}
	}
	dir := args[0]
	size, err1 := strconv.Atoi(args[1])
	memory, err2 := strconv.ParseUint(args[2], 10, 64)
	seconds, err3 := strconv.Atoi(args[3])
	if err := errors.Join(err1, err2, err3); err != nil {
		return compileReport{Error: err.Error()}
	}
	if err := limitCompiler(bounds{memory, time.Duration(seconds) * time.Second}); err != nil {
		return compileReport{Error: "bounding the compiler: " + err.Error()}
	}
	wasm := make([]byte, size)
	if _, err := io.ReadFull(os.Stdin, wasm); err != nil {
		return compileReport{Error: "reading the module: " + err.Error()}
	}
	report := compileInto(wasm, dir)
	report.PeakBytes = peakBytes()
	return report
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

// firstBytes keeps the first bytes of what a process writes.
type firstBytes struct{ b []byte }

// maxReport bounds it; an error quotes at most a name of the module.
const maxReport = 1 << 20

// Write implements [io.Writer].
func (f *firstBytes) Write(p []byte) (int, error) {
	f.b = append(f.b, p[:min(len(p), maxReport-len(f.b))]...)
	return len(p), nil
}
