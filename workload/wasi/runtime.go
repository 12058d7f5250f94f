package wasi

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/sandbox"
	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/workload"
	"github.com/wasmnode/wasmnode/workload/registry"
)

// Config configures a [Runtime].
type Config struct {
	Logger hclog.Logger
	// Engine compiles the programs. It must be closed after the runtime.
	Engine *sandbox.Engine
	// ShareMemory bounds a program together with processes beside it: see that of
	// workload/process; optional: a program is bounded by itself.
	ShareMemory func(program string) (take func(bytes uint64) bool, leave func())
	// MaxPrograms bounds the programs held, running and ended; 0 or less: [registry.DefaultMax].
	MaxPrograms int
}

// Runtime runs programs in this process. It is safe for concurrent use.
type Runtime struct {
	*registry.Registry[*program]
	logger  hclog.Logger
	modules *moduleCache
	share   func(program string) (take func(bytes uint64) bool, leave func()) // see [Config]
	life    context.Context                                                   // of all programs
	end     context.CancelCauseFunc
}

var _ workload.Runtime = (*Runtime)(nil)

// New returns a runtime. Close it to end its programs.
func New(cfg Config) *Runtime {
	life, end := context.WithCancelCause(context.Background())
	return &Runtime{
		Registry: registry.New[*program](cfg.MaxPrograms),
		logger:   cfg.Logger,
		modules:  newModuleCache(life, cfg.Engine),
		share:    cfg.ShareMemory,
		life:     life,
		end:      end,
	}
}

// Close ends every program and waits for them. It is idempotent.
func (r *Runtime) Close() error {
	r.Registry.Close()
	r.end(errShutdown)
	r.WaitAll()
	return r.modules.close()
}

// CheckIsolation implements [workload.Runtime]: there are no processes.
func (*Runtime) CheckIsolation(workload.Isolation) error {
	return abi.NewError(abi.Unimplemented, "only WASI programs run here, no processes")
}

// Start implements [workload.Runtime].
func (r *Runtime) Start(ctx context.Context, spec *workload.Spec) error {
	if spec.WASI == nil {
		return abi.NewError(abi.InvalidArgument, "workload "+spec.ID+": no program")
	}
	p := newProgram(r.life, spec, r.logger) //nolint:contextcheck // a program outlives its start
	if err := r.Add(p); err != nil {
		p.cancel(nil)
		return err
	}
	if r.share != nil {
		take, leave := r.share(spec.ID)
		p.main.guest.Takes = take
		p.main.cleanup = append(p.main.cleanup, leave)
	}
	if err := p.prepare(ctx, spec, r.modules); err != nil {
		r.Remove(p)
		close(p.done)
		r.Ended()
		return fmt.Errorf("workload %s: %w", spec.ID, err)
	}
	go func() {
		defer r.Ended()
		p.run()
	}()
	return nil
}

// Stop implements [workload.Runtime]. A program that takes signals has the timeout to end.
// Others cannot catch one, and end at once: the timeout is not used up.
func (r *Runtime) Stop(ctx context.Context, id, signal string, timeout time.Duration) error {
	p, err := r.Find(id)
	if err != nil {
		return err
	}
	number, err := workload.StopSignal(signal)
	if err != nil {
		return err
	}
	if p.main.takesSignals && number != syscall.SIGKILL {
		p.main.signal(number) // one that does not read it has the timeout, too
		if err := p.awaitEnd(ctx, timeout); err != nil || p.hasEnded() {
			return err
		}
		number = syscall.SIGKILL
	}
	if !endsProgram(number) {
		number = syscall.SIGKILL
	}
	p.end(number)
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// awaitEnd waits until the program has ended, but no longer than the timeout.
func (p *program) awaitEnd(ctx context.Context, timeout time.Duration) error {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// Signal implements [workload.Runtime]. A program that takes signals reads all but KILL.
// Others are ended by INT, TERM, QUIT and KILL, and other signals cannot be delivered.
func (r *Runtime) Signal(_ context.Context, id, signal string) error {
	p, err := r.Find(id)
	if err != nil {
		return err
	}
	number, err := workload.Signal(signal)
	if err != nil {
		return err
	}
	switch {
	case p.hasEnded():
		return abi.NewError(abi.FailedPrecondition, fmt.Sprintf("workload %s has ended", id))
	case p.main.takesSignals && number != syscall.SIGKILL:
		if !p.main.signal(number) {
			return abi.NewRecoverableError(abi.ResourceExhausted, fmt.Sprintf("workload %s does not read its signals", id))
		}
		return nil
	case !endsProgram(number):
		return abi.NewError(abi.Unimplemented, fmt.Sprintf("a WASI program that does not take signals cannot receive %s: only SIGINT, SIGTERM, SIGQUIT and SIGKILL, which end it", signal))
	}
	p.end(number)
	return nil
}

// Stats implements [workload.Runtime].
func (r *Runtime) Stats(_ context.Context, id string) (*workload.Stats, error) {
	p, err := r.Find(id)
	if err != nil {
		return nil, err
	}
	return p.stats(), nil
}

// Run implements [workload.Runtime].
func (*Runtime) Run(context.Context, *workload.Helper) (*structs.ExitResult, error) {
	return nil, abi.NewError(abi.Unimplemented, "only WASI programs run here, no processes")
}
