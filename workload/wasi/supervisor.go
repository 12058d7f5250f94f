package wasi

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/host/engine"
	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/workload"
)

// DefaultMaxPrograms bounds how many programs a supervisor holds, running and ended:
// far above what a machine of a few gigabytes can run, and low enough that a driver
// that starts without end is stopped.
const DefaultMaxPrograms = 20_000

// Config is what a supervisor stands on.
type Config struct {
	Logger hclog.Logger
	// Engine compiles the programs. It must be closed after the supervisor.
	Engine *engine.Engine
	// MaxPrograms bounds the programs held, running and ended; 0 or less: [DefaultMaxPrograms].
	MaxPrograms int
}

// Supervisor runs programs in this process. It is safe for concurrent use.
type Supervisor struct {
	logger   hclog.Logger
	modules  *moduleCache
	maxCount int
	life     context.Context // of all programs
	end      context.CancelCauseFunc
	running  sync.WaitGroup

	mu       sync.Mutex
	programs map[string]*program
	closed   bool
}

var _ workload.Supervisor = (*Supervisor)(nil)

// New returns a supervisor. Close it to end its programs.
func New(cfg Config) *Supervisor {
	if cfg.MaxPrograms <= 0 {
		cfg.MaxPrograms = DefaultMaxPrograms
	}
	life, end := context.WithCancelCause(context.Background())
	return &Supervisor{
		logger:   cfg.Logger,
		modules:  newModuleCache(life, cfg.Engine),
		maxCount: cfg.MaxPrograms,
		life:     life,
		end:      end,
		programs: map[string]*program{},
	}
}

// Close ends every program and waits for them. It is idempotent.
func (s *Supervisor) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.end(errShutdown)
	s.running.Wait()
	return s.modules.close()
}

// Start implements [workload.Supervisor].
func (s *Supervisor) Start(ctx context.Context, spec *workload.Spec) error {
	if spec.WASI == nil {
		return abi.NewError(abi.InvalidArgument, "workload "+spec.ID+": no program")
	}
	p := newProgram(s.life, spec, s.logger) //nolint:contextcheck // a program outlives its start
	if err := s.reserve(p); err != nil {
		p.cancel(nil)
		return err
	}
	instance, err := p.prepare(ctx, spec, s.modules)
	if err != nil {
		s.forget(p)
		close(p.done)
		s.running.Done()
		return fmt.Errorf("workload %s: %w", spec.ID, err)
	}
	go func() { //nolint:contextcheck // a program outlives its start
		defer s.running.Done()
		p.run(instance)
	}()
	return nil
}

// reserve takes the program's ID, so that two starts cannot have it.
func (s *Supervisor) reserve(p *program) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return abi.NewRecoverableError(abi.Unavailable, "the supervisor is shutting down")
	case s.programs[p.id] != nil:
		return abi.NewError(abi.AlreadyExists, fmt.Sprintf("workload %s exists", p.id))
	case len(s.programs) >= s.maxCount:
		return abi.NewRecoverableError(abi.ResourceExhausted, fmt.Sprintf("workload %s: there are %d workloads, which is the limit", p.id, s.maxCount))
	}
	s.programs[p.id] = p
	s.running.Add(1)
	return nil
}

func (s *Supervisor) forget(p *program) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.programs[p.id] == p {
		delete(s.programs, p.id)
	}
}

func (s *Supervisor) find(id string) (*program, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.programs[id]; p != nil {
		return p, nil
	}
	return nil, notFound(id)
}

func notFound(id string) error {
	return abi.NewError(abi.NotFound, fmt.Sprintf("workload %s does not exist", id))
}

// Wait implements [workload.Supervisor].
func (s *Supervisor) Wait(ctx context.Context, id string) (*structs.ExitResult, error) {
	p, err := s.find(id)
	if err != nil {
		return nil, err
	}
	select {
	case <-p.done:
		if p.exit == nil {
			return nil, notFound(id) // it never started
		}
		r := *p.exit
		return &r, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Stop implements [workload.Supervisor]. A WASI program cannot catch a signal, so it
// ends at once; the timeout is not used up.
func (s *Supervisor) Stop(ctx context.Context, id, signal string, _ time.Duration) error {
	p, err := s.find(id)
	if err != nil {
		return err
	}
	number := syscall.SIGINT
	if signal != "" {
		if number, err = signalNumber(signal); err != nil {
			return err
		}
	}
	if !endsProgram(number) {
		number = syscall.SIGKILL
	}
	p.kill(number)
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
	p, err := s.find(id)
	if err != nil {
		return err
	}
	number, err := signalNumber(signal)
	if err != nil {
		return err
	}
	if !endsProgram(number) {
		return abi.NewError(abi.Unimplemented, fmt.Sprintf("a WASI program cannot receive %s: only SIGINT, SIGTERM, SIGQUIT and SIGKILL, which end it", signal))
	}
	if p.hasEnded() {
		return abi.NewError(abi.FailedPrecondition, fmt.Sprintf("workload %s has ended", id))
	}
	p.kill(number)
	return nil
}

// Stats implements [workload.Supervisor].
func (s *Supervisor) Stats(_ context.Context, id string) (*workload.Stats, error) {
	p, err := s.find(id)
	if err != nil {
		return nil, err
	}
	return p.stats(), nil
}

// Inspect implements [workload.Supervisor].
func (s *Supervisor) Inspect(_ context.Context, id string) (*workload.Status, error) {
	p, err := s.find(id)
	if err != nil {
		return nil, err
	}
	return p.status(), nil
}

// List implements [workload.Supervisor].
func (s *Supervisor) List(context.Context) ([]*workload.Status, error) {
	s.mu.Lock()
	all := make([]*program, 0, len(s.programs))
	for _, p := range s.programs {
		all = append(all, p)
	}
	s.mu.Unlock()
	slices.SortFunc(all, func(a, b *program) int {
		return cmp.Or(a.started.Compare(b.started), strings.Compare(a.id, b.id))
	})
	list := make([]*workload.Status, len(all))
	for i, p := range all {
		list[i] = p.status()
	}
	return list, nil
}

// Destroy implements [workload.Supervisor].
func (s *Supervisor) Destroy(ctx context.Context, id string) error {
	p, err := s.find(id)
	if err != nil {
		return nil
	}
	p.kill(syscall.SIGKILL)
	select {
	case <-p.done:
		s.forget(p)
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
