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

// Config is what a supervisor stands on.
type Config struct {
	Logger hclog.Logger
	// Engine compiles the programs. It must be closed after the supervisor.
	Engine *sandbox.Engine
	// MaxPrograms bounds the programs held, running and ended; 0 or less: [registry.DefaultMax].
	MaxPrograms int
}

// Supervisor runs programs in this process. It is safe for concurrent use.
type Supervisor struct {
	*registry.Registry[*program]
	logger  hclog.Logger
	modules *moduleCache
	life    context.Context // of all programs
	end     context.CancelCauseFunc
}

var _ workload.Supervisor = (*Supervisor)(nil)

// New returns a supervisor. Close it to end its programs.
func New(cfg Config) *Supervisor {
	life, end := context.WithCancelCause(context.Background())
	return &Supervisor{
		Registry: registry.New[*program](cfg.MaxPrograms),
		logger:   cfg.Logger,
		modules:  newModuleCache(life, cfg.Engine),
		life:     life,
		end:      end,
	}
}

// Close ends every program and waits for them. It is idempotent.
func (s *Supervisor) Close() error {
	s.Registry.Close()
	s.end(errShutdown)
	s.WaitAll()
	return s.modules.close()
}

// Start implements [workload.Supervisor].
func (s *Supervisor) Start(ctx context.Context, spec *workload.Spec) error {
	if spec.WASI == nil {
		return abi.NewError(abi.InvalidArgument, "workload "+spec.ID+": no program")
	}
	p := newProgram(s.life, spec, s.logger) //nolint:contextcheck // a program outlives its start
	if err := s.Add(p); err != nil {
		p.cancel(nil)
		return err
	}
	instance, err := p.prepare(ctx, spec, s.modules)
	if err != nil {
		s.Remove(p)
		close(p.done)
		s.Ended()
		return fmt.Errorf("workload %s: %w", spec.ID, err)
	}
	go func() { //nolint:contextcheck // a program outlives its start
		defer s.Ended()
		p.run(instance)
	}()
	return nil
}

// Stop implements [workload.Supervisor]. A WASI program cannot catch a signal, so it
// ends at once; the timeout is not used up.
func (s *Supervisor) Stop(ctx context.Context, id, signal string, _ time.Duration) error {
	p, err := s.Find(id)
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

// Signal implements [workload.Supervisor]: INT, TERM, QUIT and KILL end the program,
// others cannot be delivered to one.
func (s *Supervisor) Signal(_ context.Context, id, signal string) error {
	p, err := s.Find(id)
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

// Stats implements [workload.Supervisor].
func (s *Supervisor) Stats(_ context.Context, id string) (*workload.Stats, error) {
	p, err := s.Find(id)
	if err != nil {
		return nil, err
	}
	return p.stats(), nil
}

// Exec implements [workload.Supervisor]: a program is alone in its sandbox.
func (s *Supervisor) Exec(_ context.Context, id string, _ *workload.ExecSpec) (*structs.ExitResult, error) {
	if _, err := s.Find(id); err != nil {
		return nil, err
	}
	return nil, abi.NewError(abi.Unimplemented, "no command can be run in a WASI program: there is no operating system in its sandbox")
}
