package process

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/workload"
	"github.com/wasmnode/wasmnode/workload/tasklog"
)

// process is one workload, from start to destruction. It holds files only while it
// runs.
type process struct {
	spec    *workload.Spec
	logger  hclog.Logger
	started time.Time

	logs   *tasklog.Streams
	stdout *drain
	stderr *drain
	child  child
	pidfd  *os.File
	limits *limits // nil: it has none
	shared *shared // with others of its task; nil: it is not bounded with others
	first  bool    // of its namespace
	origin *origin // what commands in it have of it; nil: not started yet

	// For a handover.
	name      string        // of its cgroups
	following chan struct{} // closed when it is not followed any more

	mu     sync.Mutex
	tree   tree // nil: not started yet, or ended
	paused bool // it is not to be followed for now
	killed bool
	// cancelStart ends the start of one that is isolated; nil: it is not being started.
	cancelStart context.CancelFunc
	// killedFor is the signal that stood for a kill; 0: none did.
	killedFor syscall.Signal
	// memoryMost is the most that it used, as the kernel counted; nil: it did not.
	memoryMost *uint64
	cpu        cpuTime // the most that was measured: a tree without cgroup forgets

	done chan struct{}
	// What follows is set before done is closed. No exit: it never started.
	exit  *structs.ExitResult
	ended time.Time
}

func newProcess(spec *workload.Spec, logger hclog.Logger) *process {
	return &process{spec: spec, logger: logger.With("id", spec.ID), started: time.Now(), done: make(chan struct{})}
}

// check refuses what never starts.
func check(spec *workload.Spec) error {
	p := spec.Process
	if err := checkBounds(p.Bounds); err != nil {
		return err
	}
	switch {
	case p.Network == workload.NoNetwork && os.Geteuid() != 0:
		return abi.NewError(abi.Unimplemented, fmt.Sprintf("a network of its own: only root can make one, and this is user %d", os.Geteuid()))
	case !filepath.IsAbs(p.Dir):
		return abi.NewError(abi.InvalidArgument, fmt.Sprintf("working directory %q is not an absolute path", p.Dir))
	case p.Isolation == workload.IsolationFull:
		return checkIsolated(spec)
	case p.Isolation == workload.IsolationPaths:
		if err := checkPaths(p.Paths); err != nil {
			return err
		}
	case p.Isolation != workload.IsolationNone:
		return abi.NewError(abi.InvalidArgument, fmt.Sprintf("unknown isolation %q", p.Isolation))
	}
	switch {
	case !filepath.IsAbs(p.Command):
		return abi.NewError(abi.InvalidArgument, fmt.Sprintf("command %q is not an absolute path", p.Command))
	}
	info, err := os.Stat(p.Dir)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return abi.NewError(abi.NotFound, fmt.Sprintf("working directory %s does not exist", p.Dir))
	case err != nil:
		return abi.NewError(abi.FailedPrecondition, fmt.Sprintf("working directory: %v", err))
	case !info.IsDir():
		return abi.NewError(abi.InvalidArgument, fmt.Sprintf("working directory %s is not a directory", p.Dir))
	}
	return nil
}

// launch starts the process; on an error nothing of it is left.
func (p *process) launch(ctx context.Context, s *spawner, group cgroup) (err error) {
	spec := p.spec
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := check(spec); err != nil {
		return err
	}
	credential, err := credentialOf(spec.Process.User)
	if err != nil {
		return err
	}
	env := environment(spec)
	target, err := p.target(credential, env)
	if err != nil {
		return err
	}
	if target != nil {
		if target.CPUs, err = maskOf(spec.Process.Cores); err != nil {
			return err
		}
	}
	defer func() {
		if err != nil {
			p.release()
			return
		}
		p.openExecs(target, credential, env, group)
	}()
	if p.logs, err = tasklog.Open(spec.ID, spec.Logs, p.logger); err != nil {
		return abi.NewRecoverableError(abi.Unavailable, fmt.Sprintf("log files: %v", err))
	}
	switch {
	case target != nil && target.Bare:
		return p.startBare(ctx, target, s, group)
	case target != nil:
		return p.startIsolated(ctx, target, s, group)
	}
	c := &command{
		path:       spec.Process.Command,
		args:       append([]string{spec.Process.Command}, spec.Process.Args...),
		env:        env,
		dir:        spec.Process.Dir,
		credential: credential,
	}
	return p.fork(ctx, c, s, group)
}

// environment is the workload's, and where it does not tell, who its user is.
func environment(spec *workload.Spec) []string {
	vars := userVariables(spec.Process.User)
	maps.Copy(vars, spec.Env)
	env := make([]string, 0, len(vars))
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		env = append(env, name+"="+vars[name])
	}
	return env
}

// fork gives the command its files and its cgroup, and starts it.
func (p *process) fork(ctx context.Context, c *command, s *spawner, group cgroup) error {
	stdin, err := p.openStdin()
	if err != nil {
		return err
	}
	defer stdin.Close()
	c.stdin = stdin.Fd()
	for _, stream := range []struct {
		drain **drain
		end   *uintptr
	}{{&p.stdout, &c.stdout}, {&p.stderr, &c.stderr}} {
		d, end, err := newDrain()
		if err != nil {
			return noFiles(err)
		}
		defer end.Close()
		*stream.drain, *stream.end = d, end.Fd()
	}
	network, err := p.openNetwork()
	if err != nil {
		return err
	}
	if network != nil {
		defer network.Close()
		c.network = int(network.Fd())
	}
	if group != "" {
		if c.cgroup, err = os.Open(string(group)); err != nil {
			return noFiles(err)
		}
		defer c.cgroup.Close()
	}
	if p.child, err = s.spawn(ctx, c); err != nil {
		return err
	}
	p.pidfd = pollable(p.child.pidfd, "pidfd")
	p.entered(group)
	return nil
}

func (p *process) openStdin() (*os.File, error) {
	if p.spec.Process != nil && p.spec.Process.Stdin != nil {
		return p.spec.Process.Stdin.OpenInput()
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, noFiles(err)
	}
	return null, nil
}

func noFiles(err error) error {
	return abi.NewRecoverableError(abi.ResourceExhausted, err.Error())
}

func noCgroup(err error) error {
	return abi.NewRecoverableError(abi.ResourceExhausted, fmt.Sprintf("cgroup: %v", err))
}

// pollable makes a file of a descriptor that a goroutine can wait for without having
// a thread wait.
func pollable(fd int, name string) *os.File {
	_ = unix.SetNonblock(fd, true) // it is open, and a pipe or a process
	return os.NewFile(uintptr(fd), name)
}

// entered makes the process known to those that signal it.
func (p *process) entered(group cgroup) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tree = treeOf(p.child.pid, group)
	if p.limits != nil {
		p.tree = bounded{p.tree, p.limits}
	}
	if p.killed {
		p.killLocked()
	}
}

// run follows the process to its end, and ends what it started. It reports false if it
// was paused before.
func (p *process) run() (ended bool) {
	var reading sync.WaitGroup
	reading.Go(func() { p.stdout.copyTo(p.logs.Stdout) })
	reading.Go(func() { p.stderr.copyTo(p.logs.Stderr) })
	if err := awaitEnd(p.pidfd); err != nil && !p.isPaused() {
		p.logger.Error("a process cannot be waited for, so it is killed", "error", err)
		p.Kill()
	}
	p.mu.Lock()
	if p.paused {
		p.mu.Unlock()
		reading.Wait()
		return false
	}
	tree, killedFor := p.tree, p.killedFor
	p.tree = nil
	p.mu.Unlock()
	p.origin.execs.close()
	if cpu, err := tree.cpu(); err == nil {
		p.used(cpu)
	}
	oomKilled := false
	if p.limits != nil {
		p.measureMemory(tree)
		oomKilled = p.limits.oomKilled()
	}
	if err := errors.Join(tree.end(), p.shared.leave()); err != nil {
		p.logger.Error("a process left others behind that could not be ended", "error", err)
	}
	// A process that still has the other end has escaped; it is not waited for.
	p.stdout.endAfter(drainTimeout)
	p.stderr.endAfter(drainTimeout)
	reading.Wait()
	status, usage := reap(p.child.pid)
	p.ended, p.exit = time.Now(), result(status)
	if killedFor != 0 && p.exit.Signal == int(syscall.SIGKILL) {
		p.exit = signaled(killedFor)
	}
	p.exit.OOMKilled = oomKilled && !p.exit.Successful()
	user, system := time.Duration(usage.Utime.Nano()), time.Duration(usage.Stime.Nano())
	p.used(cpuTime{user + system, user, system})
	p.release()
	p.logger.Debug("process ended", "exit_code", p.exit.ExitCode, "signal", p.exit.Signal)
	close(p.done)
	return true
}

// awaitEnd blocks until a process itself has ended. It stays a zombie, so that its
// number cannot become another's while its tree is ended.
func awaitEnd(pidfd *os.File) error {
	raw, err := pidfd.SyscallConn()
	if err != nil {
		return err
	}
	var waitErr error
	err = raw.Read(func(fd uintptr) bool {
		var info unix.Siginfo
		waitErr = unix.Waitid(unix.P_PIDFD, int(fd), &info, unix.WEXITED|unix.WNOWAIT|unix.WNOHANG, nil)
		return info.Signo != 0 || waitErr != nil
	})
	return errors.Join(err, waitErr)
}

func result(status syscall.WaitStatus) *structs.ExitResult {
	if status.Signaled() {
		return signaled(status.Signal())
	}
	return &structs.ExitResult{ExitCode: status.ExitStatus()}
}

func signaled(s syscall.Signal) *structs.ExitResult {
	return &structs.ExitResult{ExitCode: 128 + int(s), Signal: int(s)}
}

// release closes what is open.
func (p *process) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, d := range []*drain{p.stdout, p.stderr} {
		if d != nil {
			d.close()
		}
	}
	if p.pidfd != nil {
		_ = p.pidfd.Close() // nothing is written to it
	}
	if p.logs != nil {
		p.logs.Close()
	}
	p.stdout, p.stderr, p.pidfd, p.logs = nil, nil, nil, nil
}

// signal sends a signal to the process itself, which decides what becomes of those that it
// started; SIGKILL is for all. False: it does not run. Whether it stands for a kill may take
// a while to see: the context bounds how long is waited for that.
func (p *process) signal(ctx context.Context, number syscall.Signal) bool {
	ctx, cancel := context.WithTimeout(ctx, undecidedTime)
	defer cancel()
	again := time.NewTicker(undecidedInterval)
	defer again.Stop()
	for ran := ""; ; {
		if sent, decided := p.trySignal(number, &ran, ctx.Err() != nil); decided {
			return sent
		}
		select {
		case <-again.C:
		case <-p.done:
		case <-ctx.Done():
		}
	}
}

// trySignal decides nothing while it is undecided whether the signal is a kill, unless
// this is the last time.
func (p *process) trySignal(number syscall.Signal, ran *string, last bool) (sent, decided bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.tree == nil && p.cancelStart == nil {
		return false, true
	}
	does := handled
	switch {
	case number == syscall.SIGKILL:
	case p.tree == nil && slices.Contains(nonFatal, number):
		does = undecided // there is no process yet that could handle it
	case p.first:
		does = p.initDisposition(number, ran)
	}
	switch {
	case does == undecided && (!last || p.tree == nil):
		return false, last
	case does == deadly:
		p.killedFor = number
	case number != syscall.SIGKILL:
		return syscall.Kill(p.child.pid, number) == nil, true
	}
	p.killLocked()
	return true, true
}

// Kill implements [registry.Workload].
func (p *process) Kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.killLocked()
}

// killLocked ends the process, or the start of one that is not there yet. The lock is held.
func (p *process) killLocked() {
	p.killed = true
	if p.cancelStart != nil {
		p.cancelStart()
	}
	if p.tree == nil {
		return
	}
	if err := p.tree.kill(); err != nil {
		p.logger.Error("a process could not be killed", "error", err)
	}
}

// ID implements [registry.Workload].
func (p *process) ID() string { return p.spec.ID }

// Done implements [registry.Workload].
func (p *process) Done() <-chan struct{} { return p.done }

// Status implements [registry.Workload].
func (p *process) Status() *workload.Status {
	s := &workload.Status{ID: p.spec.ID, Owner: p.spec.Owner, Beside: p.spec.Beside, State: workload.Running, StartedAt: p.started}
	select {
	case <-p.done:
		if p.exit != nil {
			exit := *p.exit
			s.State, s.ExitedAt, s.Exit = workload.Exited, p.ended, &exit
		}
	default:
	}
	return s
}
