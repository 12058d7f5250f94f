package wasi

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/experimental/sysfs"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/host/engine"
	"github.com/wasmnode/wasmnode/host/rootfs"
	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/workload"
	"github.com/wasmnode/wasmnode/workload/logfile"
)

// trapExitCode is the exit code of a program that trapped: what a shell shows for a
// process that was aborted (128 + SIGABRT).
const trapExitCode = 134

var errShutdown = errors.New("the supervisor was shut down")

// killed is the cause with which a program's context is cancelled.
type killed struct{ signal syscall.Signal }

func (k killed) Error() string { return "killed by " + k.signal.String() }

// program is one workload, from start to destruction.
type program struct {
	id     string
	spec   *workload.Spec
	ctx    context.Context
	cancel context.CancelCauseFunc

	module  *engine.Module
	memory  *engine.Memory
	cleanup []func()
	stdout  io.Writer
	stderr  io.Writer
	config  wazero.ModuleConfig

	started time.Time
	done    chan struct{}
	// exit and ended are set before done is closed.
	exit  *structs.ExitResult
	ended time.Time
}

func newProgram(life context.Context, spec *workload.Spec) *program {
	ctx, cancel := context.WithCancelCause(life)
	return &program{id: spec.ID, spec: spec, ctx: ctx, cancel: cancel, memory: &engine.Memory{}, done: make(chan struct{})}
}

// prepare opens and compiles all that the program needs; what fails here fails the
// start. Nothing is left open on an error.
func (p *program) prepare(ctx context.Context, modules *moduleCache) (err error) {
	defer func() {
		if err != nil {
			p.cancel(err)
			p.release()
		}
	}()
	if err := p.openLogs(); err != nil {
		return abi.NewRecoverableError(abi.Unavailable, fmt.Sprintf("log files: %v", err))
	}
	files, err := p.openMounts()
	if err != nil {
		return err
	}
	module, release, err := modules.acquire(ctx, p.spec.WASI.Module, p.spec.MemoryMaxBytes)
	if err != nil {
		return err
	}
	p.module = module
	p.cleanup = append(p.cleanup, release)
	p.config = p.moduleConfig(files)
	p.started = time.Now()
	return nil
}

func (p *program) openLogs() error {
	if p.spec.Logs.Disabled {
		p.stdout, p.stderr = io.Discard, io.Discard
		return nil
	}
	for _, stream := range []struct {
		path string
		to   *io.Writer
	}{{p.spec.Logs.StdoutPath, &p.stdout}, {p.spec.Logs.StderrPath, &p.stderr}} {
		w, err := logfile.Open(stream.path, p.spec.Logs.MaxFiles, p.spec.Logs.MaxFileBytes)
		if err != nil {
			return err
		}
		p.cleanup = append(p.cleanup, func() { w.Close() })
		*stream.to = w
	}
	return nil
}

func (p *program) openMounts() (wazero.FSConfig, error) {
	files := wazero.NewFSConfig()
	for _, m := range p.spec.WASI.Mounts {
		root, err := rootfs.Open(m.HostPath, m.ReadOnly)
		if err != nil {
			code := abi.Unavailable
			if errors.Is(err, os.ErrNotExist) {
				code = abi.NotFound
			}
			return nil, abi.NewError(code, fmt.Sprintf("mount %s at %s: %v", m.HostPath, m.GuestPath, err))
		}
		p.cleanup = append(p.cleanup, func() { root.Close() })
		files = files.(sysfs.FSConfig).WithSysFSMount(root, m.GuestPath)
	}
	return files, nil
}

func (p *program) moduleConfig(files wazero.FSConfig) wazero.ModuleConfig {
	cfg := wazero.NewModuleConfig().
		WithName("").
		WithArgs(append([]string{p.spec.WASI.Name}, p.spec.WASI.Args...)...).
		WithStdout(p.stdout).
		WithStderr(p.stderr).
		WithFSConfig(files).
		WithRandSource(rand.Reader).
		WithSysWalltime().
		WithSysNanotime().
		WithOsyield(func() {})
	for _, name := range slices.Sorted(maps.Keys(p.spec.Env)) {
		cfg = cfg.WithEnv(name, p.spec.Env[name])
	}
	return cfg
}

// run is the program's life.
func (p *program) run(logger hclog.Logger) {
	instance, err := p.module.Instantiate(engine.WithMemory(p.ctx, p.memory), p.config)
	if instance != nil {
		_ = instance.Close(context.Background())
	}
	p.exit = p.result(err)
	p.ended = time.Now()
	p.cancel(nil)
	p.release()
	logger.Debug("program ended", "id", p.id, "exit_code", p.exit.ExitCode, "signal", p.exit.Signal, "error", p.exit.Err)
	close(p.done)
}

// result tells how the program ended. That it was killed counts, not what the guest
// made of it: a killed guest may still return in its own way.
func (p *program) result(err error) *structs.ExitResult {
	var k killed
	if errors.As(context.Cause(p.ctx), &k) {
		return &structs.ExitResult{ExitCode: 128 + int(k.signal), Signal: int(k.signal)}
	}
	if p.ctx.Err() != nil {
		return &structs.ExitResult{ExitCode: 128 + int(sigKill), Signal: int(sigKill), Err: context.Cause(p.ctx).Error()}
	}
	if err == nil {
		return &structs.ExitResult{}
	}
	if code, ok := engine.ExitCode(err); ok {
		return &structs.ExitResult{ExitCode: int(code)}
	}
	r := &structs.ExitResult{ExitCode: trapExitCode, Signal: int(syscall.SIGABRT), Err: firstLine(err.Error())}
	if p.memory.Refused() {
		r.OOMKilled = true
		r.Err = fmt.Sprintf("out of memory: the limit is %d bytes", p.spec.MemoryMaxBytes)
	}
	return r
}

// release gives back all that the program held, once.
func (p *program) release() {
	for _, f := range slices.Backward(p.cleanup) {
		f()
	}
	p.cleanup = nil
}

// kill ends the program as that signal would. The first kill counts.
func (p *program) kill(signal syscall.Signal) { p.cancel(killed{signal}) }

func (p *program) status() *workload.Status {
	s := &workload.Status{ID: p.id, State: workload.Running, StartedAt: p.started}
	select {
	case <-p.done:
		exit := *p.exit
		s.State, s.ExitedAt, s.Exit = workload.Exited, p.ended, &exit
	default:
	}
	return s
}

func (p *program) stats() *workload.Stats {
	used, most := p.memory.Size(), p.memory.Most()
	return &workload.Stats{Time: time.Now(), MemoryBytes: &used, MemoryMaxBytes: &most}
}

func firstLine(s string) string {
	for i, r := range s {
		if r == '\n' {
			return s[:i]
		}
	}
	return s
}
