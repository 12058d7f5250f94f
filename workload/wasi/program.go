package wasi

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/sandbox"
	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/workload"
	"github.com/wasmnode/wasmnode/workload/tasklog"
)

// Exit codes that a shell shows for how a program ended, where it did not exit itself.
const (
	trapExitCode = 128 + int(syscall.SIGABRT) // a trap is an abort
	oomExitCode  = 128 + int(syscall.SIGKILL) // what the kernel does to processes
	maxExitCode  = 255                        // of a process; larger ones of a guest become it
)

var errShutdown = errors.New("the supervisor was shut down")

// killed is the cause with which a program's context is cancelled.
type killed struct{ signal syscall.Signal }

func (k killed) Error() string { return "killed by " + k.signal.String() }

// program is one workload, from start to destruction. It holds the program's files
// and memory only while it runs.
type program struct {
	id      string
	owner   string
	beside  string
	limit   uint64 // of its memory, in bytes
	logger  hclog.Logger
	ctx     context.Context
	cancel  context.CancelCauseFunc
	started time.Time
	share   *sandbox.Share
	main    entry
	execs   execs

	done chan struct{}
	// What follows is set before done is closed. No exit: it was never entered.
	exit  *structs.ExitResult
	ended time.Time
}

func newProgram(life context.Context, spec *workload.Spec, logger hclog.Logger) *program {
	ctx, cancel := context.WithCancelCause(life)
	share := sandbox.NewShare(spec.CPUMHz)
	return &program{
		share: share, main: entry{guest: sandbox.Guest{Share: share}},
		id: spec.ID, owner: spec.Owner, beside: spec.Beside, limit: spec.MemoryMaxBytes, logger: logger,
		ctx: ctx, cancel: cancel, started: time.Now(), done: make(chan struct{}),
	}
}

// prepare opens, compiles and links all that the program needs; what fails here fails
// the start. Nothing is left open on an error.
func (p *program) prepare(ctx context.Context, spec *workload.Spec, modules *moduleCache) (err error) {
	// A kill ends the start, too.
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	defer context.AfterFunc(p.ctx, func() { stop(context.Cause(p.ctx)) })() //nolint:contextcheck // the program has a context of its own, which is meant
	defer func() {
		if err != nil {
			err = startError(ctx, err)
			p.execs.close()
			p.release()
		}
	}()
	logs, err := tasklog.Open(spec.ID, spec.Logs, p.logger)
	if err != nil {
		return abi.NewRecoverableError(abi.Unavailable, fmt.Sprintf("log files: %v", err))
	}
	p.main.cleanup = append(p.main.cleanup, logs.Close)
	// A port in use is found before the module is compiled.
	if err := p.main.openDescriptors(spec.WASI); err != nil {
		return err
	}
	module, err := modules.acquire(ctx, spec.WASI, spec.MemoryMaxBytes)
	if err != nil {
		return err
	}
	p.execs.open(p.ctx, spec, p.share, modules, module)                         //nolint:contextcheck // it is the program's end, not the caller's
	p.main.cleanup = append(p.main.cleanup, func() { modules.release(module) }) //nolint:contextcheck // a module is closed by its last user
	return p.main.open(ctx, module.module, p.execs.spec, streams{stdout: logs.Stdout, stderr: logs.Stderr})
}

// startError is what a start fails with: where it was ended from outside, that.
func startError(ctx context.Context, err error) error {
	var k killed
	cause := context.Cause(ctx)
	switch {
	case errors.As(cause, &k):
		return abi.NewError(abi.Cancelled, k.Error()+" while it was starting")
	case errors.Is(cause, errShutdown):
		return abi.NewRecoverableError(abi.Unavailable, errShutdown.Error())
	case cause != nil:
		return cause
	}
	return err
}

// run runs the program to its end.
func (p *program) run() {
	err := p.main.run(p.ctx)
	p.execs.close()
	p.exit, p.ended = resultOf(context.Cause(p.ctx), err, &p.main.guest, p.limit), time.Now()
	p.release()
	var bug *sandbox.PanicError
	if errors.As(err, &bug) {
		p.logger.Error("the engine failed while it ran a program", "id", p.id, "error", bug, "stack", bug.Stack)
	}
	p.logger.Debug("program ended", "id", p.id, "exit_code", p.exit.ExitCode, "signal", p.exit.Signal, "error", p.exit.Err)
	close(p.done)
}

// resultOf is how a run ended. That it was killed counts, not what the guest made of it: a
// killed guest may still return in its own way.
func resultOf(cause, err error, guest *sandbox.Guest, limit uint64) *structs.ExitResult {
	var k killed
	switch {
	case errors.As(cause, &k):
		return &structs.ExitResult{ExitCode: 128 + int(k.signal), Signal: int(k.signal)}
	case cause != nil:
		return &structs.ExitResult{ExitCode: oomExitCode, Signal: int(syscall.SIGKILL), Err: cause.Error()}
	case err == nil:
		return &structs.ExitResult{}
	}
	if code, ok := sandbox.ExitCode(err); ok {
		return &structs.ExitResult{ExitCode: int(min(code, maxExitCode))}
	}
	if sandbox.Interrupted(err) {
		// It was not interrupted: it exited with the number that means so, such as -1.
		return &structs.ExitResult{ExitCode: maxExitCode}
	}
	if guest.Memory.Crowded() {
		return &structs.ExitResult{ExitCode: oomExitCode, Signal: int(syscall.SIGKILL), OOMKilled: true,
			Err: fmt.Sprintf("out of memory: the limit is %d bytes, of which the processes beside it use too much", limit)}
	}
	if guest.Memory.Refused() {
		return &structs.ExitResult{ExitCode: oomExitCode, Signal: int(syscall.SIGKILL), OOMKilled: true,
			Err: fmt.Sprintf("out of memory: the limit is %d bytes", limit)}
	}
	return &structs.ExitResult{ExitCode: trapExitCode, Signal: int(syscall.SIGABRT), Err: firstLine(err.Error())}
}

// release gives back all that the program held, once, and ends its context.
func (p *program) release() {
	p.main.close()
	p.cancel(nil)
}

// end ends the program as that signal would. The first counts.
func (p *program) end(signal syscall.Signal) { p.cancel(killed{signal}) }

// Kill implements [registry.Workload].
func (p *program) Kill() { p.end(syscall.SIGKILL) }

// ID implements [registry.Workload].
func (p *program) ID() string { return p.id }

// Done implements [registry.Workload].
func (p *program) Done() <-chan struct{} { return p.done }

func (p *program) hasEnded() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Status implements [registry.Workload].
func (p *program) Status() *workload.Status {
	s := &workload.Status{ID: p.id, Owner: p.owner, Beside: p.beside, State: workload.Running, StartedAt: p.started}
	if p.hasEnded() && p.exit != nil {
		exit := *p.exit
		s.State, s.ExitedAt, s.Exit = workload.Exited, p.ended, &exit
	}
	return s
}

func (p *program) stats() *workload.Stats {
	used, most, cpu := p.main.guest.Memory.Size(), p.main.guest.Memory.Most(), p.share.Used()
	return &workload.Stats{Time: time.Now(), CPUTotal: &cpu, MemoryBytes: &used, MemoryMaxBytes: &most}
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}
