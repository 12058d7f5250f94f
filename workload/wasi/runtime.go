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
	// MaxPrograms bounds the programs held, running and ended; 0 or less: [registry.DefaultMax].
	MaxPrograms int
}

// Runtime runs programs in this process. It is safe for concurrent use.
type Runtime struct {
	*registry.Registry[*program]
	logger  hclog.Logger
	modules *moduleCache
	life    context.Context // of all programs
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
	instance, err := p.prepare(ctx, spec, r.modules)
	if err != nil {
		r.Remove(p)
		close(p.done)
		r.Ended()
		return fmt.Errorf("workload %s: %w", spec.ID, err)
	}
	go func() { //nolint:contextcheck // a program outlives its start
		defer r.Ended()
		p.run(instance)
	}()
	return nil
}

// Stop implements [workload.Runtime]. A WASI program cannot catch a signal, so it
// ends at once; the timeout is not used up.
func (r *Runtime) Stop(ctx context.Context, id, signal string, _ time.Duration) error {
	p, err := r.Find(id)
	if err != nil {
		return err
	}
	number, err := workload.StopSignal(signal)
	if err != nil {
		return err
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

// Signal implements [workload.Runtime]: INT, TERM, QUIT and KILL end the program,
// others cannot be delivered to one.
func (r *Runtime) Signal(_ context.Context, id, signal string) error {
	p, err := r.Find(id)
	if err != nil {
		return err
	}
	number, err := workload.Signal(signal)
	if err != nil {
		return err
	}
	if !endsProgram(number) {
		return abi.NewError(abi.Unimplemented, fmt.Sprintf("a WASI program cannot receive %s: only SIGINT, SIGTERM, SIGQUIT and SIGKILL, which end it", signal))
	}
	if p.hasEnded() {
		return abi.NewError(abi.FailedPrecondition, fmt.Sprintf("workload %s has ended", id))
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

// Exec implements [workload.Runtime]: a program is alone in its sandbox.
func (r *Runtime) Exec(_ context.Context, id string, _ *workload.ExecSpec) (*structs.ExitResult, error) {
	if _, err := r.Find(id); err != nil {
		return nil, err
	}
	return nil, abi.NewError(abi.Unimplemented, "no command can be run in a WASI program: there is no operating system in its sandbox")
}
