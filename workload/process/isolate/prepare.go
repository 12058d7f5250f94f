package isolate

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/workload/namespace"
	"github.com/wasmnode/wasmnode/workload/process/forkexec"
)

// CloneFlags are the namespaces that a process wants to have been made whose root is prepared.
const CloneFlags = unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS

// Prepared is a root that was built for a process, in a mount namespace without one, and what the
// process is to do to have it.
type Prepared struct {
	calls forkexec.Calls
	files []int
}

// building has a place for each root that is being built. A file system that does not answer keeps one, and
// the thread that asked it with a dozen files, which a process has not endlessly many of.
var building = make(chan struct{}, MaxBuilding)

// MaxBuilding is how many roots are built at a time; others wait.
const MaxBuilding = 1024

// Prepare builds the root of a process that is neither bare nor joins another: in the node's network
// namespace, in that of a file, or in one of its own if the spec says so. The caller closes what it
// returns. It takes as long as the file systems of what is mounted, or until ctx is done.
//
// # Errors
//
// INVALID_ARGUMENT, NOT_FOUND, PERMISSION_DENIED: of a mount, a device or the command;
// RESOURCE_EXHAUSTED and FAILED_PRECONDITION: the system's; and that of ctx. Nothing of it is left,
// or will be once those file systems answer.
func Prepare(ctx context.Context, s *Spec, network *os.File) (*Prepared, error) {
	select {
	case building <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: the roots of %d processes are being built: is there a file system that does not answer?", ctx.Err(), MaxBuilding)
	}
	p, networkFD := &Prepared{}, -1
	if network != nil {
		var err error
		if networkFD, err = p.keep(unix.FcntlInt(network.Fd(), unix.F_DUPFD_CLOEXEC, 0)); err != nil {
			<-building
			return nil, failed("the network namespace", err)
		}
	}
	startedWith() // which cannot be found out by a thread that has left the node's root
	var err error
	prepared := make(chan struct{})
	go onThread(func() {
		err = p.prepare(s, networkFD)
		<-building
		close(prepared)
	})
	select {
	case <-prepared:
		if err != nil {
			p.Close()
			return nil, err
		}
		return p, nil
	case <-ctx.Done():
		go func() {
			<-prepared
			p.Close()
		}()
		return nil, ctx.Err()
	}
}

// onThread calls do, and has the thread of this goroutine end with it, as it cannot come back to where it was before.
// The first thread of a process is what others see of the process, and never ends.
func onThread(do func()) {
	runtime.LockOSThread()
	if unix.Gettid() == unix.Getpid() {
		defer runtime.UnlockOSThread()
		done := make(chan struct{})
		go func() {
			defer close(done)
			onThread(do)
		}()
		<-done
		return
	}
	do()
}

// Close frees what was prepared. A process that was started has it all the same.
func (p *Prepared) Close() {
	for _, fd := range p.files {
		closeFD(fd)
	}
	p.files = nil
}

// Calls are what the process does, which is forked with [CloneFlags], to become what the spec says.
func (p *Prepared) Calls() *forkexec.Calls { return &p.calls }

// prepare is done by a thread that ends after it.
func (p *Prepared) prepare(s *Spec, network int) error {
	if err := blockSignals(); err != nil {
		return err
	}
	supervisor, err := p.keep(unix.PidfdOpen(os.Getpid(), 0))
	if err != nil {
		return failed("this process", err)
	}
	if err := p.adjustOOMScore(s.OOMScoreAdj); err != nil {
		return err
	}
	mounts, err := p.newNamespaces(s, network)
	if err != nil {
		return err
	}
	proc, err := p.newProc() // while /dev is the node's
	if err != nil {
		return err
	}
	point, err := p.keep(enterRoot(s, mounts))
	if err != nil {
		return err
	}
	proc.mount(&p.calls, point)
	limitFiles(&p.calls)
	dropPrivileges(&p.calls, s.User, s.AddCapabilities, s.DropCapabilities)
	endWithParent(&p.calls, supervisor)
	if err := p.restrict(); err != nil {
		return err
	}
	if s.Command != "" {
		if err := p.execute(s); err != nil {
			return err
		}
	}
	if err := p.calls.Err(); err != nil {
		return abi.NewError(abi.InvalidArgument, err.Error())
	}
	return nil
}

// blockSignals has none interrupt what this thread asks of file systems, but those by which the kernel
// tells of a fault in it.
func blockSignals() error {
	all := &unix.Sigset_t{Val: [16]uint64{^uint64(0)}}
	for _, s := range []unix.Signal{unix.SIGSEGV, unix.SIGBUS, unix.SIGFPE, unix.SIGILL, unix.SIGTRAP} {
		all.Val[0] &^= 1 << (s - 1)
	}
	return unix.PthreadSigmask(unix.SIG_SETMASK, all, nil)
}

// restrict adds what the process and all that it starts are refused for good.
func (p *Prepared) restrict() error {
	scope, err := socketScope()
	if err != nil {
		return err
	}
	if scope >= 0 {
		p.files = append(p.files, scope)
		restrictSelf(&p.calls, scope)
	}
	if err := filterSyscalls(&p.calls); err != nil {
		return err
	}
	p.calls.CloseFiles(explain("closing files"))
	return nil
}

// keep has a file closed with the others.
func (p *Prepared) keep(fd int, err error) (int, error) {
	if err == nil {
		p.files = append(p.files, fd)
	}
	return fd, err
}

// newNamespaces gives this thread the namespaces that the root is built in, and has the process enter
// them. It returns that of the mounts.
func (p *Prepared) newNamespaces(s *Spec, network int) (mounts int, err error) {
	switch {
	case s.OwnNetwork:
		if network, err = p.newNetwork(); err != nil {
			return -1, failed("a network of its own", err)
		}
	case network >= 0:
		if err := unix.Setns(network, unix.CLONE_NEWNET); err != nil {
			return -1, failed("entering the network namespace", err)
		}
	}
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return -1, failed("mounts of its own", err)
	}
	if mounts, err = p.keep(unix.Open("/proc/thread-self/ns/mnt", unix.O_RDONLY|unix.O_CLOEXEC, 0)); err != nil {
		return -1, failed("mounts of its own", err)
	}
	p.calls.Add(explainFailed("entering its mounts"), unix.SYS_SETNS, uintptr(mounts), unix.CLONE_NEWNS)
	if network >= 0 {
		p.calls.Add(explainFailed("entering its network"), unix.SYS_SETNS, uintptr(network), unix.CLONE_NEWNET)
	}
	return mounts, nil
}

// newNetwork gives this thread a network of its own.
func (p *Prepared) newNetwork() (int, error) {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return -1, err
	}
	if err := namespace.StartLoopback(); err != nil {
		return -1, err
	}
	return p.keep(unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0))
}

// execute adds the command, which is looked for with the user's rights to files. What the process is to find
// is asked for here already: where a file system does not answer, this thread is the one that waits.
func (p *Prepared) execute(s *Spec) error {
	groups := make([]int, len(s.User.Groups))
	for i, g := range s.User.Groups {
		groups[i] = int(g)
	}
	if err := errors.Join(unix.Setgroups(groups), unix.Setfsgid(int(s.User.GID)), unix.Setfsuid(int(s.User.UID))); err != nil {
		return failed("looking for the command", err)
	}
	if err := unix.Chdir(s.Dir); err != nil {
		return failed(workingDir(s), err)
	}
	file, err := findCommand(s)
	if err != nil {
		return err
	}
	isThere := readBeginning(file)
	c := &p.calls
	c.Add(explainFailed(workingDir(s)), unix.SYS_CHDIR, c.Text(s.Dir))
	if limit := startedWith(); limit != nil {
		setLimit(c, explain("limit of open files"), unix.RLIMIT_NOFILE, *limit)
	}
	for _, l := range s.Limits { // the last, since they may be too tight for what comes before
		setLimit(c, explainFailed("limit "+l.Name), resources[l.Name], unix.Rlimit{Cur: l.Soft, Max: l.Hard})
	}
	c.Unblock()
	c.Add(func(err syscall.Errno) error { return notExecuted(file, isThere, err) },
		unix.SYS_EXECVE, c.Text(file), c.Texts(s.Args), c.Texts(s.Env))
	return nil
}

// readBeginning reports whether a file is there, and has the kernel have what executing it reads first.
func readBeginning(file string) (isThere bool) {
	fd, err := unix.Open(file, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return !errors.Is(err, unix.ENOENT) // some may be executed and not read
	}
	defer closeFD(fd)
	_, _ = unix.Read(fd, make([]byte, 1)) // a directory has nothing to read
	return true
}
