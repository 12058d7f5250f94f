package agent

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/node"
	"github.com/wasmnode/wasmnode/sandbox"
	"github.com/wasmnode/wasmnode/workload"
	"github.com/wasmnode/wasmnode/workload/mux"
	"github.com/wasmnode/wasmnode/workload/process"
	"github.com/wasmnode/wasmnode/workload/supervisor"
	"github.com/wasmnode/wasmnode/workload/wasi"
)

// supervisorIdle is how long a supervisor stays that has neither tasks nor an agent.
const supervisorIdle = 10 * time.Second

// RunSupervisor owns the workloads of the agent whose data directory that is, until
// ctx is done or it is needed no more. It reports to the process that launched it that it
// answers, or why it does not. Processes are started, and the program is replaced by a
// newer one, on the thread: the process's main thread, which has to run what it is sent.
func RunSupervisor(ctx context.Context, dataDir string, thread chan<- func(), logOutput io.Writer) error {
	// Programs compute on all processors; what serves the agent has its turn beside them.
	runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + 1)
	err := runSupervisor(ctx, supervisorDir(dataDir), thread, hclog.New(&hclog.LoggerOptions{Name: "supervisor", Output: logOutput}))
	if err != nil {
		supervisor.Announce(err)
	}
	return err
}

// OutliveHangups has SIGHUP do nothing to this process, and to its tasks what it does to any
// other: caught, it is not ignored by who is started.
func OutliveHangups() { signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP) }

func supervisorDir(dataDir string) string { return filepath.Join(dataDir, "supervisor") }

func runSupervisor(ctx context.Context, dir string, thread chan<- func(), logger hclog.Logger) (err error) {
	left, err := inherited()
	if err != nil {
		return err
	}
	lock, listener, err := openSupervisor(dir, left)
	if err != nil {
		return err
	}
	home := supervisor.NewHome(dir, lock)
	defer func() { err = errors.Join(err, home.Close()) }()
	workloads, closeWorkloads, err := newWorkloads(dir, thread, left, logger)
	if err != nil {
		return err
	}
	server, err := supervisor.NewServer(supervisor.ServerConfig{
		Logger: logger, Workloads: workloads, Dir: supervisor.Results(dir), Version: Version, IdleTime: supervisorIdle,
		MayReplace: func(program string) error { return mayReplace(ctx, workloads, program) }, Return: home.Return,
	})
	if err != nil {
		return errors.Join(err, closeWorkloads())
	}
	defer func() {
		err = errors.Join(err, closeWorkloads())
		server.Drain()
	}()
	if left != nil {
		server.Adopt(left.Processes.Specs())
		logger.Info("took over the tasks of the previous program", "count", len(left.Processes.Processes))
	}
	supervisor.Announce(nil)
	logger.Info("connected to the supervisor", "pid", os.Getpid(), "dir", dir, "version", Version)
	return serveWorkloads(ctx, server, listener, func(program string, socket *os.File) {
		err := replace(program, home.Lock(), socket, server, workloads.processes, thread)
		logger.Error("the supervisor keeps running its own program", "error", err)
	})
}

// serveWorkloads has a server answer until ctx is done or it is needed no more, also
// after it was to be replaced by another program and that has returned.
func serveWorkloads(ctx context.Context, server *supervisor.Server, listener *net.UnixListener, exec func(program string, socket *os.File)) error {
	for {
		socket, err := listener.File() // serving closes the listener
		if err != nil {
			return err
		}
		err = server.Serve(ctx, listener)
		var next *supervisor.Replacement
		if !errors.As(err, &next) {
			return errors.Join(err, socket.Close())
		}
		if next.Program != "" {
			exec(next.Program, socket)
		}
		again, err := net.FileListener(socket)
		if err := errors.Join(err, socket.Close()); err != nil {
			return err
		}
		listener = again.(*net.UnixListener) // as it was
	}
}

// openSupervisor takes the directory and listens, or goes on with what was left.
func openSupervisor(dir string, left *handover) (lock *os.File, _ *net.UnixListener, err error) {
	var listener net.Listener
	if left != nil {
		lock = os.NewFile(uintptr(left.Lock), "lock")
		listener, err = left.listener()
	} else if lock, err = supervisor.Lock(dir); err == nil {
		listener, err = supervisor.Listen(supervisor.Socket(dir))
	}
	if err != nil {
		if lock != nil {
			err = errors.Join(err, lock.Close())
		}
		return nil, nil, fmt.Errorf("supervisor: %w", err)
	}
	return lock, listener.(*net.UnixListener), nil // a listener at a path is one
}

// mayReplace refuses while something runs that would not survive, or that the program
// could not go on with.
func mayReplace(ctx context.Context, w *ownWorkloads, program string) error {
	list, err := w.programs.List(ctx)
	if err != nil {
		return err
	}
	running := 0
	for _, s := range list {
		if s.State == workload.Running {
			running++
		}
	}
	switch n := w.processes.Commands(); {
	case running > 0:
		return abi.NewError(abi.FailedPrecondition, fmt.Sprintf("WASI programs run in it, which would end: %d", running))
	case n > 0:
		return abi.NewError(abi.FailedPrecondition, fmt.Sprintf("commands run in its tasks, which would be cut off: %d", n))
	}
	if err := checkHandoverVersion(program); err != nil {
		return abi.NewError(abi.FailedPrecondition, err.Error())
	}
	return nil
}

// replace has another program go on in this process. It returns only if that fails, and
// then all is as before.
func replace(program string, lock, listener *os.File, server *supervisor.Server, processes *process.Runtime, thread chan<- func()) error {
	h := &handover{Lock: int(lock.Fd()), Listener: int(listener.Fd()), Processes: processes.Pause()}
	goOn := map[string]bool{}
	for _, spec := range h.Processes.Specs() {
		goOn[spec.ID] = true
	}
	defer processes.Resume()
	if err := server.DrainEnded(goOn); err != nil {
		return err
	}
	failed := make(chan error)
	thread <- func() { failed <- h.exec(program) }
	return <-failed
}

// openWorkloads has the tasks owned by the supervisor, or by the agent itself.
func (a *agent) openWorkloads() error {
	if a.supervisor == nil {
		own, closeOwn, err := workloadsOn(a.engine, supervisorDir(a.cfg.DataDir), nil, nil, a.logger)
		if err != nil {
			return err
		}
		a.workloads = &together{Runtime: own}
		a.closing("workloads", closeOwn)
		return nil
	}
	dir := supervisorDir(a.cfg.DataDir)
	client := supervisor.NewClient(supervisor.ClientConfig{
		Logger:    a.logger.Named("supervisor"),
		Socket:    supervisor.Socket(dir),
		Program:   a.supervisor[0],
		Owns:      true,
		Isolation: process.CheckIsolation,
		Launch: func(ctx context.Context) error {
			return supervisor.Launch(ctx, dir, append(slices.Clone(a.supervisor), "-data-dir="+a.cfg.DataDir))
		},
	})
	a.workloads = client
	a.closing("supervisor", client.Close)
	return nil
}

// outliving is what may have outlived the last agent: a supervisor's workloads.
func (a *agent) outliving() node.Workloads {
	if client, is := a.workloads.(*supervisor.Client); is {
		return client
	}
	return nil
}

// ownWorkloads are workloads of this process.
type ownWorkloads struct {
	mux.Runtime
	programs  *wasi.Runtime
	processes *process.Runtime
}

// newWorkloads returns what runs workloads in this process, in the supervisor's
// directory, and goes on with what was left there.
func newWorkloads(dir string, thread chan<- func(), left *handover, logger hclog.Logger) (*ownWorkloads, func() error, error) {
	e, err := openEngine(codeDir(dir), logger)
	if err != nil {
		return nil, nil, err
	}
	s, closeWorkloads, err := workloadsOn(e, dir, thread, left, logger)
	if err != nil {
		return nil, nil, errors.Join(err, e.Close(context.Background()))
	}
	return s, func() error { return errors.Join(closeWorkloads(), e.Close(context.Background())) }, nil
}

// workloadsOn returns what runs programs on that engine, and processes. The directory
// distinguishes them from those of other nodes on this machine.
func workloadsOn(e *sandbox.Engine, dir string, thread chan<- func(), left *handover, logger hclog.Logger) (*ownWorkloads, func() error, error) {
	logger = logger.Named("workload")
	digest := sha256.Sum256([]byte(dir))
	cfg := process.Config{Logger: logger, Name: hex.EncodeToString(digest[:8]), Thread: thread}
	if left != nil {
		cfg.Handover = left.Processes
	}
	processes, err := process.New(cfg)
	if err != nil {
		return nil, nil, err
	}
	programs := wasi.New(wasi.Config{Logger: logger, Engine: e, ShareMemory: processes.ShareMemory})
	closeBoth := func() error { return errors.Join(programs.Close(), processes.Close()) }
	return &ownWorkloads{mux.Runtime{WASI: programs, Processes: processes}, programs, processes}, closeBoth, nil
}
