package agent

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/wasmnode/wasmnode/host/engine"
	"github.com/wasmnode/wasmnode/workload"
	"github.com/wasmnode/wasmnode/workload/mux"
	"github.com/wasmnode/wasmnode/workload/process"
	"github.com/wasmnode/wasmnode/workload/supervisor"
	"github.com/wasmnode/wasmnode/workload/wasi"
)

// supervisorIdle is how long a supervisor stays that nobody needs.
const supervisorIdle = 10 * time.Second

// RunSupervisor owns the workloads of the agent whose data directory that is, until
// ctx is done or nobody needs it any more. It tells whoever launched it that it
// answers, or why it does not.
func RunSupervisor(ctx context.Context, dataDir string, logOutput io.Writer) error {
	err := runSupervisor(ctx, supervisorDir(dataDir), hclog.New(&hclog.LoggerOptions{Name: "supervisor", Output: logOutput}))
	if err != nil {
		supervisor.Announce(err)
	}
	return err
}

func supervisorDir(dataDir string) string { return filepath.Join(dataDir, "supervisor") }

func runSupervisor(ctx context.Context, dir string, logger hclog.Logger) (err error) {
	lock, err := supervisor.Lock(dir)
	if err != nil {
		return err
	}
	defer lock.Close()
	workloads, closeWorkloads, err := newWorkloads(dir, logger)
	if err != nil {
		return err
	}
	server, err := supervisor.NewServer(supervisor.ServerConfig{
		Logger: logger, Workloads: workloads, Dir: supervisor.Results(dir), Version: Version, IdleTime: supervisorIdle,
	})
	if err != nil {
		return errors.Join(err, closeWorkloads())
	}
	defer func() {
		err = errors.Join(err, closeWorkloads())
		server.Drain()
	}()
	listener, err := supervisor.Listen(supervisor.Socket(dir))
	if err != nil {
		return fmt.Errorf("supervisor: %w", err)
	}
	supervisor.Announce(nil)
	logger.Info("supervisor answers", "pid", os.Getpid(), "dir", dir)
	return server.Serve(ctx, listener)
}

// openWorkloads has the tasks owned by the supervisor, or by the agent itself.
func (a *agent) openWorkloads() error {
	if a.supervisor == nil {
		own, closeOwn, err := workloadsOn(a.engine, supervisorDir(a.cfg.DataDir), a.logger)
		if err != nil {
			return err
		}
		a.workloads = own
		a.closing("workloads", closeOwn)
		return nil
	}
	dir := supervisorDir(a.cfg.DataDir)
	client := supervisor.NewClient(supervisor.ClientConfig{
		Logger: a.logger.Named("supervisor"),
		Socket: supervisor.Socket(dir),
		Launch: func(ctx context.Context) error {
			return supervisor.Launch(ctx, dir, append(slices.Clone(a.supervisor), "-data-dir="+a.cfg.DataDir))
		},
	})
	a.workloads = client
	a.closing("supervisor", client.Close)
	return nil
}

// newWorkloads returns what runs workloads in this process, in the supervisor's
// directory.
func newWorkloads(dir string, logger hclog.Logger) (workload.Supervisor, func() error, error) {
	e, err := engine.Open(engine.Config{CacheDir: filepath.Join(dir, "cache"), Logger: logger.Named("engine")})
	if err != nil {
		return nil, nil, err
	}
	s, closeWorkloads, err := workloadsOn(e, dir, logger)
	if err != nil {
		return nil, nil, errors.Join(err, e.Close(context.Background()))
	}
	return s, func() error { return errors.Join(closeWorkloads(), e.Close(context.Background())) }, nil
}

// workloadsOn returns what runs programs on that engine, and processes. The directory
// tells them from those of other nodes on this machine.
func workloadsOn(e *engine.Engine, dir string, logger hclog.Logger) (workload.Supervisor, func() error, error) {
	logger = logger.Named("workload")
	digest := sha256.Sum256([]byte(dir))
	processes, err := process.New(process.Config{Logger: logger, Name: hex.EncodeToString(digest[:8])})
	if err != nil {
		return nil, nil, err
	}
	programs := wasi.New(wasi.Config{Logger: logger, Engine: e})
	closeBoth := func() error { return errors.Join(processes.Close(), programs.Close()) }
	return mux.Supervisor{WASI: programs, Processes: processes}, closeBoth, nil
}
