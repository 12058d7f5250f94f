package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/internal/failpoint"
	"github.com/wasmnode/wasmnode/workload/namespace"
	"github.com/wasmnode/wasmnode/workload/process/isolate"
	"github.com/wasmnode/wasmnode/workload/process/program"
)

// spawner starts processes from one operating system thread that lasts as long as it
// does. The thread matters twice: a parent-death signal is sent at the death of the
// thread that forked, and privileges that the thread dropped its children do not have either.
type spawner struct {
	requests     chan<- func()
	done         chan struct{}
	closing      sync.Once
	isolator     isolator
	namespaceErr error // the thread's children would begin in a namespace of a task's; its own
}

// newSpawner returns a spawner on that thread, or on one of its own, or why the thread
// cannot drop privileges.
func newSpawner(thread chan<- func()) (*spawner, error) {
	s := &spawner{requests: thread, done: make(chan struct{})}
	s.isolator.spawner = s
	ready := make(chan error)
	if thread == nil {
		own := make(chan func())
		s.requests = own
		go s.run(own, ready)
		return s, <-ready
	}
	close(s.done) // there is no process to wait for
	s.closing.Do(func() {})
	thread <- func() { ready <- dropPrivileges() }
	return s, <-ready
}

func (s *spawner) run(requests <-chan func(), ready chan<- error) {
	defer close(s.done)
	// Never unlocked: no other goroutine may have this thread.
	runtime.LockOSThread()
	err := dropPrivileges()
	ready <- err
	if err != nil {
		return
	}
	for f := range requests {
		f()
	}
}

// dropPrivileges keeps from the children of this thread what they should not have: privileges
// of set-user-ID programs, and files that whoever started this process left open.
func dropPrivileges() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no_new_privs: %w", err)
	}
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}
	for _, entry := range open {
		if fd, err := strconv.Atoi(entry.Name()); err == nil && fd > 2 {
			unix.CloseOnExec(fd)
		}
	}
	return nil
}

// close ends the thread if it is the spawner's own, which kills the processes that it
// started. It is idempotent.
func (s *spawner) close() {
	s.isolator.close()
	s.closing.Do(func() { close(s.requests) })
	<-s.done
}

// command is what is started.
type command struct {
	path       string
	args       []string // with argument 0
	env        []string
	dir        string
	credential *syscall.Credential // nil: this process's own
	stdin      uintptr
	stdout     uintptr
	stderr     uintptr
	terminal   bool      // stdin is a terminal, which becomes the session's
	extra      []uintptr // files after those
	cgroup     *os.File  // nil: this process's own
	namespaces uintptr   // flags of clone; 0: this process's own
	joins      int       // the pidfd of one whose process namespace it begins in; 0: this process's own
	network    int       // a file of a network namespace that it begins in, or the pidfd of one in it; 0: this process's own

	// isolated is what it becomes in a root of its own, and says the command, its directory and user then; nil: it is
	// none of that.
	isolated *isolate.Spec
	doors    []int // descriptors of cgroups' files, by which it enters them, see [limits.doors]
}

// child is a process that was started. It is to be waited for.
type child struct {
	pid   int
	pidfd int
	// executed is called once, and returns when the process has executed the command or ended; nil: it has.
	executed func() error
}

// spawn starts a command as the leader of a new session, unless ctx is done before its turn comes.
func (s *spawner) spawn(ctx context.Context, c *command) (child, error) {
	if c.isolated != nil {
		return s.isolator.start(ctx, c)
	}
	started := child{pidfd: -1}
	forked := make(chan error, 1)
	request := func() {
		failpoint.Here("fork")
		err := s.fork(c, &started)
		failpoint.Here("forked")
		forked <- err
	}
	select {
	case s.requests <- request:
	case <-ctx.Done():
		return child{}, ctx.Err()
	}
	if err := <-forked; err != nil {
		return child{}, err
	}
	if started.pidfd < 0 {
		started.abandon()
		return child{}, abi.NewError(abi.Unimplemented, "processes need Linux 5.4 or later")
	}
	return started, nil
}

// fork forks one that is executed at once.
func (s *spawner) fork(c *command, started *child) error {
	attributes := &syscall.SysProcAttr{
		Setsid:     true,
		Setctty:    c.terminal, // Ctty 0: standard input
		Pdeathsig:  syscall.SIGKILL,
		Credential: c.credential,
		PidFD:      &started.pidfd,
		Cloneflags: c.namespaces,
	}
	if c.joins != 0 {
		attributes.Pdeathsig = 0 // it would find no parent, and end: it asks for the signal later
	}
	if c.cgroup != nil {
		attributes.UseCgroupFD, attributes.CgroupFD = true, int(c.cgroup.Fd())
	}
	err := s.within(namespace.Networks, c.network, func() error {
		return s.within(namespace.Processes, c.joins, func() (err error) {
			started.pid, err = syscall.ForkExec(c.path, c.args, &syscall.ProcAttr{
				Dir: c.dir, Env: c.env, Files: append([]uintptr{c.stdin, c.stdout, c.stderr}, c.extra...), Sys: attributes,
			})
			return err
		})
	})
	if err != nil {
		return program.Failure("command "+c.path, err, abi.InvalidArgument)
	}
	return nil
}

// abandon ends a child, if it was started, that nobody is to know.
func (c child) abandon() {
	if c.pid == 0 {
		return
	}
	_ = syscall.Kill(c.pid, syscall.SIGKILL) // it is our child, so it is there
	reap(c.pid)
	if c.pidfd >= 0 {
		_ = unix.Close(c.pidfd) // nothing was written to it
	}
}

// reap waits for a child that has ended, or is about to.
func reap(pid int) (syscall.WaitStatus, syscall.Rusage) {
	var status syscall.WaitStatus
	var usage syscall.Rusage
	for {
		if _, err := syscall.Wait4(pid, &status, 0, &usage); !errors.Is(err, syscall.EINTR) {
			return status, usage
		}
	}
}
