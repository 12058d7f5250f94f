package process

import (
	"context"

	"golang.org/x/sys/unix"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/workload/process/isolate"
)

// startIsolated has the process isolated, within its limits, and returns when it has executed the command. On
// an error it has ended. Until there is a process, that takes as long as file systems take to answer, or until
// it is killed.
func (p *process) startIsolated(ctx context.Context, target *isolate.Spec, s *spawner, group cgroup) error {
	target.OwnNetwork = p.noNetwork()
	c := &command{isolated: target}
	if p.limits != nil {
		var err error
		c.doors, err = p.limits.doors()
		defer closeAll(c.doors)
		if err != nil {
			return err
		}
	}
	preparing, cancel := context.WithCancel(ctx)
	defer cancel()
	p.preparing(cancel)
	err := p.fork(preparing, c, s, group)
	p.preparing(nil)
	switch {
	case err == nil:
		return p.awaitCommand(ctx, p.child.executed)
	case ctx.Err() != nil:
		return ctx.Err()
	case preparing.Err() != nil:
		return errStopped
	}
	return err
}

// preparing says how a kill ends what comes before there is a process; nil: that is over.
func (p *process) preparing(cancel context.CancelFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.first, p.cancelStart = true, cancel
	if p.killed && cancel != nil {
		cancel()
	}
}

func closeAll(files []int) {
	for _, fd := range files {
		_ = unix.Close(fd) // nothing was written to it here
	}
}

// errStopped is why a start failed that was not to be any more.
var errStopped = abi.NewError(abi.Cancelled, "it was stopped while it was starting")

// startBare starts this program once more, within the process's limits, and returns when it has
// become what target says and has executed the command. On an error it has ended.
func (p *process) startBare(ctx context.Context, target *isolate.Spec, s *spawner, group cgroup) error {
	program, err := shimProgram()
	if err != nil {
		return err
	}
	handshake, err := newExecHandshake()
	if err != nil {
		return err
	}
	defer handshake.close()
	c := &command{path: program, args: []string{isolate.Program}, dir: "/", extra: handshake.files()}
	if p.noNetwork() {
		target.OwnNetwork = true
		c.namespaces |= unix.CLONE_NEWNET
	}
	err = p.fork(ctx, c, s, group)
	handshake.forked()
	if err != nil {
		return err
	}
	return p.awaitCommand(ctx, func() error { return p.sendSpec(handshake, target) })
}

// awaitCommand returns when a process that was forked has executed its command, as executed says. It is killed once ctx
// is done, and has ended on an error.
func (p *process) awaitCommand(ctx context.Context, executed func() error) error {
	if ctx.Err() != nil {
		p.Kill() // before it executes anything
	}
	cancel := context.AfterFunc(ctx, p.Kill)
	err := executed()
	switch inTime := cancel(); {
	case !inTime:
		err = ctx.Err()
	case p.wasKilled():
		err = errStopped
	case err != nil:
		err = abi.Flat(err)
	}
	if err != nil {
		p.abandon()
	}
	return err
}

func (p *process) sendSpec(handshake *execHandshake, target *isolate.Spec) error {
	if p.limits != nil {
		if err := p.limits.enter(p.child.pid); err != nil {
			return err
		}
	}
	return handshake.send(target)
}

func (p *process) wasKilled() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.killed
}

// abandon ends a process that was forked and did not execute the command.
func (p *process) abandon() {
	p.Kill()
	if err := awaitEnd(p.pidfd); err != nil {
		p.logger.Error("a process cannot be waited for", "error", err)
	}
	p.mu.Lock()
	tree := p.tree
	p.tree = nil
	p.mu.Unlock()
	if err := tree.end(); err != nil {
		p.logger.Error("a process left others behind that could not be ended", "error", err)
	}
	reap(p.child.pid)
}
