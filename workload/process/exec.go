package process

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/workload"
)

// maxExecs bounds the commands that run in one workload at a time, each of which holds
// a few files and goroutines: far above what people and checks need.
const maxExecs = 128

// execs are the commands that run in a process's workload beside it.
type execs struct {
	running sync.WaitGroup
	ending  context.Context // done when the workload's own process has ended
	end     context.CancelFunc

	mu      sync.Mutex
	closed  bool
	count   int
	started int // ever
}

func newExecs() *execs {
	x := &execs{}
	x.ending, x.end = context.WithCancel(context.Background())
	return x
}

// begin takes a place for a command, and returns its number. The place is to be given
// back by done.
func (x *execs) begin() (int, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case x.closed:
		return 0, abi.NewError(abi.FailedPrecondition, "it has ended")
	case x.count == maxExecs:
		return 0, abi.NewRecoverableError(abi.ResourceExhausted, fmt.Sprintf("%d commands run in it, which is the limit", maxExecs))
	}
	x.running.Add(1)
	x.count++
	x.started++
	return x.started, nil
}

func (x *execs) done() {
	x.mu.Lock()
	x.count--
	x.mu.Unlock()
	x.running.Done()
}

// close kills all commands, refuses others, and returns when nothing of them runs.
func (x *execs) close() {
	x.mu.Lock()
	x.closed = true
	x.mu.Unlock()
	x.end()
	x.running.Wait()
}

// Exec implements [workload.Runtime].
func (r *Runtime) Exec(ctx context.Context, id string, spec *workload.ExecSpec) (*structs.ExitResult, error) {
	p, err := r.Find(id)
	if err != nil {
		return nil, err
	}
	e := &execution{process: p, logger: p.logger, spec: spec}
	exit, err := e.run(ctx, r.spawner)
	if err != nil {
		return nil, fmt.Errorf("workload %s: %w", id, err)
	}
	return exit, nil
}

// execution is one command, in a workload or beside all.
type execution struct {
	process *process // nil: a helper's
	logger  hclog.Logger
	spec    *workload.ExecSpec
	streams *execStreams
	child   child
	limits  *limits // of its own; nil: it has none

	mu     sync.Mutex
	tree   tree // nil: it does not run
	killed bool
}

// run runs the command to its end.
func (e *execution) run(ctx context.Context, s *spawner) (*structs.ExitResult, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	origin := e.process.runningOrigin()
	if origin == nil {
		return nil, abi.NewError(abi.FailedPrecondition, "it does not run")
	}
	number, err := origin.execs.begin()
	if err != nil {
		return nil, err
	}
	ended := sync.OnceFunc(origin.execs.done)
	defer ended()
	defer context.AfterFunc(ctx, e.kill)()
	defer context.AfterFunc(origin.execs.ending, e.kill)() //nolint:contextcheck // it is the task's end, not the caller's
	if e.streams, err = openExecStreams(e.spec, origin); err != nil {
		return nil, err
	}
	defer e.streams.close()
	if err := e.start(ctx, origin, s, number); err != nil {
		if ctx.Err() != nil {
			err = ctx.Err() // why it did not
		}
		return nil, err
	}
	copying := e.streams.copy(e.spec, e.kill)
	exit := e.await()
	ended() // what is left is between us and the reader of the output
	if err := copying(); err != nil && ctx.Err() == nil {
		return nil, fmt.Errorf("the command's output: %w", err)
	}
	return exit, ctx.Err()
}

// start starts the command in a tree of its own within the workload's.
func (e *execution) start(ctx context.Context, o *origin, s *spawner, number int) error {
	c, target, err := o.command(e.spec)
	if err != nil {
		return err
	}
	c.stdin, c.stdout, c.stderr, c.terminal = e.streams.theirs[0].Fd(), e.streams.theirs[1].Fd(), e.streams.theirs[2].Fd(), e.spec.TTY
	defer e.streams.closeTheirs()
	var group cgroup
	if o.group != "" {
		if group, err = o.group.child("exec-" + strconv.Itoa(number)); err != nil {
			return noCgroup(err)
		}
		if c.cgroup, err = os.Open(string(group)); err != nil {
			return noFiles(err)
		}
		defer c.cgroup.Close()
	}
	if target == nil {
		return e.spawn(ctx, c, s, group)
	}
	if !target.Bare {
		c.extra = []uintptr{uintptr(o.child.pidfd)}
	}
	return e.spawnShim(ctx, o.limits, c, target, s, group)
}

// spawn starts what was asked for; on an error nothing of it is left.
func (e *execution) spawn(ctx context.Context, c *command, s *spawner, group cgroup) (err error) {
	if e.child, err = s.spawn(ctx, c); err != nil {
		if group != "" {
			_ = group.remove() // nothing ever ran in it
		}
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.tree = treeOf(e.child.pid, group)
	if e.limits != nil {
		e.tree = bounded{e.tree, e.limits}
	}
	if e.killed {
		e.killLocked()
	}
	return nil
}

// await blocks until the command has ended, and ends what it started.
func (e *execution) await() *structs.ExitResult {
	pidfd := pollable(e.child.pidfd, "pidfd")
	if err := awaitEnd(pidfd); err != nil {
		e.logger.Error("a command cannot be waited for, so it is killed", "error", err)
		e.kill()
	}
	_ = pidfd.Close() // nothing is written to it
	e.mu.Lock()
	tree := e.tree
	e.tree = nil
	e.mu.Unlock()
	oomKilled := e.limits != nil && e.limits.oomKilled()
	if err := tree.end(); err != nil {
		e.logger.Error("a command left processes behind that could not be ended", "error", err)
	}
	status, _ := reap(e.child.pid)
	exit := result(status)
	exit.OOMKilled = oomKilled && !exit.Successful()
	return exit
}

// kill makes the command end, however far its start is.
func (e *execution) kill() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.killed = true
	if e.tree != nil {
		e.killLocked()
	}
}

func (e *execution) killLocked() {
	if err := e.tree.kill(); err != nil {
		e.logger.Error("a command could not be killed", "error", err)
	}
}

// outputTimeout is how long output is waited for once all known processes of a
// command have ended: only one that escaped can have the other end.
const outputTimeout = time.Second
