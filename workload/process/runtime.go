// Package process runs processes of the operating system as workloads: each in a
// session and, where the machine has cgroup v2 and this process may use it, in a
// cgroup of its own, so that all that a task started ends with it, also a daemon that
// left its parents. Without, a daemon that makes a session of its own escapes.
//
// The processes end with this one: those that it started by the parent-death signal,
// theirs when a runtime of the same name opens the cgroup again.
//
// With full isolation, a process has a root and namespaces of its own, which package
// isolate makes, and cgroups that bound it, of v1 or v2, and is killed with its
// namespace.
//
// It knows nothing of tasks and drivers. Start reading at [Runtime].
package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/workload"
	"github.com/wasmnode/wasmnode/workload/registry"
)

// Config configures a [Runtime].
type Config struct {
	Logger hclog.Logger
	// Name is unique on the machine, and the same after a restart: what an earlier
	// runtime of that name left running is killed. It is a file name.
	Name string
	// MaxProcesses bounds the workloads held, running and ended; 0 or less:
	// [registry.DefaultMax].
	MaxProcesses int
	// Thread runs functions on the one thread that starts processes, which must live as
	// long as they do; nil: the runtime has one of its own. For a [Handover] it has to
	// be the process's main thread.
	Thread chan<- func()
	// Handover is what an earlier runtime in this process left; nil: there was none.
	Handover *Handover
}

// Runtime runs processes as children of this one. It is safe for concurrent use.
type Runtime struct {
	*registry.Registry[*process]
	logger  hclog.Logger
	spawner *spawner
	cgroup  cgroup   // empty: there is none
	lock    *os.File // marks the cgroup as used; nil: there is none
	limiter *limiter // nil: there is none
	// together bounds the processes of a task as one.
	together together
	count    atomic.Uint64
}

var _ workload.Runtime = (*Runtime)(nil)

// New returns a runtime. Close it to end its processes.
func New(cfg Config) (*Runtime, error) {
	handleIgnored()
	r := &Runtime{Registry: registry.New[*process](cfg.MaxProcesses), logger: cfg.Logger}
	var err error
	if r.spawner, err = newSpawner(cfg.Thread); err != nil {
		return nil, fmt.Errorf("processes: %w", err)
	}
	if cfg.Handover != nil {
		r.takeOver(cfg)
		return r, nil
	}
	if r.cgroup, r.lock, err = openCgroup(cfg.Name); err != nil {
		r.logger.Info("processes run without cgroups: one that leaves its session outlives its task", "reason", err)
	}
	if r.limiter, err = openLimiter(cfg.Name); err != nil {
		r.logger.Info("isolated processes cannot be bounded", "reason", err)
	} else if r.cgroup != "" {
		r.limiter.removeLeft(r.cgroup)
	}
	return r, nil
}

// Close kills every process and waits for them. It is idempotent.
func (r *Runtime) Close() error {
	r.Registry.Close()
	for _, p := range r.All() {
		p.Kill()
	}
	r.WaitAll()
	r.spawner.close()
	var err error
	if r.limiter != nil {
		err = r.limiter.remove()
	}
	if r.cgroup != "" {
		err = errors.Join(err, r.cgroup.remove())
		_ = r.lock.Close() // nothing is written to it; closing again is harmless
	}
	return err
}

// CheckIsolation implements [workload.Runtime].
func (*Runtime) CheckIsolation(isolation workload.Isolation) error { return CheckIsolation(isolation) }

// Start implements [workload.Runtime].
func (r *Runtime) Start(ctx context.Context, spec *workload.Spec) error {
	if spec.Process == nil {
		return abi.NewError(abi.InvalidArgument, "workload "+spec.ID+": no process")
	}
	p := newProcess(spec, r.logger)
	if err := r.Add(p); err != nil {
		return err
	}
	if err := r.launch(ctx, p); err != nil {
		r.Remove(p)
		close(p.done)
		r.Ended()
		return fmt.Errorf("workload %s: %w", spec.ID, err)
	}
	r.follow(p)
	return nil
}

// follow sees to a process until it has ended, or is handed over.
func (r *Runtime) follow(p *process) {
	p.following = make(chan struct{})
	go func() {
		defer close(p.following)
		if p.run() {
			r.Ended()
		}
	}()
}

// launch starts the process in a cgroup of its own, and within its limits.
func (r *Runtime) launch(ctx context.Context, p *process) (err error) {
	p.name = strconv.FormatUint(r.count.Add(1), 10)
	var group cgroup
	defer func() {
		if err != nil {
			p.unlimit(group) // nothing runs in it
		}
	}()
	isBounded := p.spec.Process.Isolated != nil && r.limiter != nil
	if isBounded {
		if err = r.bound(p); err != nil {
			return err
		}
	}
	if r.cgroup != "" {
		if group, err = r.cgroup.child(p.name); err != nil {
			return noCgroup(err)
		}
	}
	if isBounded {
		if p.limits, err = r.limiter.limit(p.name, group, p.spec); err != nil {
			return noCgroup(err)
		}
	}
	return p.launch(ctx, r.spawner, group)
}

// unlimit removes the cgroups of a process that did not start.
func (p *process) unlimit(group cgroup) {
	var err error
	if group != "" {
		err = group.remove()
	}
	if p.limits != nil {
		err = errors.Join(err, p.limits.remove())
	}
	if err = errors.Join(err, p.shared.leave()); err != nil {
		p.logger.Warn("cgroups of a process that did not start are left over", "error", err)
	}
}

// Stop implements [workload.Runtime]. The kill comes also when ctx is done before.
func (r *Runtime) Stop(ctx context.Context, id, signal string, timeout time.Duration) error {
	p, err := r.Find(id)
	if err != nil {
		return err
	}
	number, err := workload.StopSignal(signal)
	if err != nil {
		return err
	}
	kill := time.AfterFunc(timeout, p.Kill)
	if !p.signal(ctx, number) {
		kill.Reset(0)
	}
	select {
	case <-p.done:
		kill.Stop()
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Signal implements [workload.Runtime]: it goes to the process itself, SIGKILL to all that
// it started too.
func (r *Runtime) Signal(ctx context.Context, id, signal string) error {
	p, err := r.Find(id)
	if err != nil {
		return err
	}
	number, err := workload.Signal(signal)
	if err != nil {
		return err
	}
	if !p.signal(ctx, number) {
		return abi.NewError(abi.FailedPrecondition, fmt.Sprintf("workload %s does not run", id))
	}
	return nil
}
