package wasi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/sandbox"
	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/workload"
)

// maxExecs bounds the runs of a program beside its own: each may use as much memory as the
// program itself.
const maxExecs = 4

// execs are the runs of a program's module beside its own, with other arguments.
type execs struct {
	spec    *workload.Spec // what each begins with
	share   *sandbox.Share
	modules *moduleCache
	module  *sharedModule
	ending  context.Context // done when the program's own run has ended
	end     context.CancelFunc
	running sync.WaitGroup

	mu     sync.Mutex
	opened bool // and not closed
	count  int
}

// open lets runs begin. It is called once.
func (x *execs) open(life context.Context, spec *workload.Spec, share *sandbox.Share, modules *moduleCache, m *sharedModule) {
	own, program := *spec, *spec.WASI
	program.Module, program.Args, program.Mounts = nil, slices.Clone(program.Args), slices.Clone(program.Mounts)
	own.WASI, own.Env = &program, maps.Clone(spec.Env)
	x.spec, x.share, x.modules, x.module = &own, share, modules, m
	x.ending, x.end = context.WithCancel(life)
	x.mu.Lock()
	defer x.mu.Unlock()
	x.opened = true
}

// close ends all runs, refuses others, and returns when nothing of them runs.
func (x *execs) close() {
	x.mu.Lock()
	opened := x.opened
	x.opened = false
	x.mu.Unlock()
	if opened {
		x.end()
		x.running.Wait()
	}
}

// begin takes a place for a run, which is given back by done. The program has not ended by
// then, and is not about to.
func (x *execs) begin() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case !x.opened || x.ending.Err() != nil:
		return abi.NewError(abi.FailedPrecondition, "it does not run")
	case x.count == maxExecs:
		return abi.NewRecoverableError(abi.ResourceExhausted, fmt.Sprintf("%d commands run in it, which is the limit", maxExecs))
	}
	x.running.Add(1)
	x.count++
	return nil
}

func (x *execs) done() {
	x.mu.Lock()
	x.count--
	x.mu.Unlock()
	x.running.Done()
}

// Exec implements [workload.Runtime]: the program's own module runs again, with other
// arguments, in what the program sees of files and in its environment. Of its listeners and
// its signals it has none. Nothing else can be run there: the command is the module's name, with or
// without its ending.
func (r *Runtime) Exec(ctx context.Context, id string, spec *workload.ExecSpec) (*structs.ExitResult, error) {
	p, err := r.Find(id)
	if err != nil {
		return nil, err
	}
	exit, err := p.execs.run(ctx, spec)
	if err != nil {
		return nil, fmt.Errorf("workload %s: %w", id, err)
	}
	return exit, nil
}

// run runs one to its end.
func (x *execs) run(ctx context.Context, spec *workload.ExecSpec) (*structs.ExitResult, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := x.begin(); err != nil {
		return nil, err
	}
	defer x.done()
	if spec.TTY {
		return nil, abi.NewError(abi.Unimplemented, "a WASI program has no terminal: use exec with -t=false")
	}
	if name := x.spec.WASI.Name; spec.Command != name && spec.Command != strings.TrimSuffix(name, ".wasm") {
		return nil, abi.NewError(abi.NotFound, fmt.Sprintf("%s: a WASI program has no other programs: only %s can be run", spec.Command, name))
	}
	x.modules.retain(x.module)
	defer x.modules.release(x.module) //nolint:contextcheck // a module is closed by its last user
	runCtx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(x.ending, func() { cancel(errEnded) })() //nolint:contextcheck // it is the program's end, not the caller's
	exit, err := x.execute(runCtx, cancel, spec)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return exit, err
}

var errEnded = errors.New("the program has ended")

// execute makes an entry of the module and runs that.
func (x *execs) execute(ctx context.Context, cancel context.CancelCauseFunc, spec *workload.ExecSpec) (*structs.ExitResult, error) {
	e := &entry{}
	defer e.close()
	e.guest.Descriptors, e.guest.Share = &e.descriptors, x.share
	e.cleanup = append(e.cleanup, e.descriptors.Close)
	stdin := spec.Stdin
	if stdin == nil {
		stdin = strings.NewReader("")
	}
	if err := e.descriptors.ReadFrom(stdin); err != nil {
		return nil, abi.NewRecoverableError(abi.ResourceExhausted, fmt.Sprintf("standard input: %v", err))
	}
	again, program := *x.spec, *x.spec.WASI
	program.Args, program.Stdin, again.WASI = spec.Args, nil, &program
	if err := e.open(ctx, x.module.module, &again, streams{stdout: ending{spec.Stdout, cancel}, stderr: ending{spec.Stderr, cancel}}); err != nil {
		return nil, err
	}
	err := e.run(ctx)
	return resultOf(context.Cause(ctx), err, &e.guest, again.MemoryMaxBytes), nil
}

// ending is an output of a run that ends with the first write that fails.
type ending struct {
	to  io.Writer // nil: it is dropped
	end context.CancelCauseFunc
}

// Write implements [io.Writer].
func (w ending) Write(p []byte) (int, error) {
	if w.to == nil {
		return len(p), nil
	}
	n, err := w.to.Write(p)
	if err != nil {
		w.end(fmt.Errorf("its output could not be written: %w", err))
	}
	return n, err
}
