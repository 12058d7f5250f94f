package isolate

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/workload/namespace"
	"github.com/wasmnode/wasmnode/workload/process/forkexec"
)

// cloneFlags are the namespaces that are made with a process; its parent is the supervisor.
const cloneFlags = unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_PARENT

// prepared is a root that was built for a process, and what the process is to do to be isolated in it.
type prepared struct {
	node
	calls forkexec.Calls
	asked *os.File // where the request came from, and [Go] comes from
	files []int    // that are closed with it
}

// close frees what was prepared. A process that was forked has it all the same.
func (p *prepared) close() {
	for _, fd := range p.files {
		closeFD(fd)
	}
	p.files = nil
	_ = p.asked.Close() // nothing was written to it
}

// prepare is done by a thread that ends after it.
func (p *prepared) prepare(s *Spec, network int) error {
	if err := blockSignals(); err != nil {
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
	proc.adjustOOMScore(&p.calls, s.OOMScoreAdj)
	if err := p.restrict(s); err != nil {
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

// restrict adds what makes the process one of its user, and what that and all that it starts are refused for good.
func (p *prepared) restrict(s *Spec) error {
	c := &p.calls
	scope, err := socketScope()
	if err != nil {
		return err
	}
	keep := []int{p.supervisor, int(p.asked.Fd())}
	if scope >= 0 {
		p.files = append(p.files, scope)
		keep = append(keep, scope)
	}
	// From here on others of the user may stop it, with all that it holds.
	c.CloseFiles(explain("closing files"), keep...)
	limitFiles(c)
	dropPrivileges(c, s.User, s.AddCapabilities, s.DropCapabilities)
	endWithParent(c, p.supervisor)
	if scope >= 0 {
		restrictSelf(c, scope)
	}
	return filterSyscalls(c)
}

// keep has a file closed with the others.
func (p *prepared) keep(fd int, err error) (int, error) {
	if err == nil {
		p.files = append(p.files, fd)
	}
	return fd, err
}

// newNamespaces gives this thread, and with it the process that it forks, the namespaces that the root is built in.
// It returns that of the mounts.
func (p *prepared) newNamespaces(s *Spec, network int) (mounts int, err error) {
	switch {
	case s.OwnNetwork:
		if err := newNetwork(); err != nil {
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
	return mounts, nil
}

func newNetwork() error {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return err
	}
	return namespace.StartLoopback()
}

// execute adds the command, which is looked for with the user's rights to files.
func (p *prepared) execute(s *Spec) error {
	file, err := findAs(s)
	if err != nil {
		return err
	}
	_, statErr := os.Stat(file)
	c := &p.calls
	c.Add(explainFailed(workingDir(s)), unix.SYS_CHDIR, c.Text(s.Dir))
	if limit := startedWith(); limit != nil {
		setLimit(c, explain("limit of open files"), unix.RLIMIT_NOFILE, *limit)
	}
	for _, l := range s.Limits { // the last, since they may be too tight for what comes before
		setLimit(c, explainFailed("limit "+l.Name), resources[l.Name], unix.Rlimit{Cur: l.Soft, Max: l.Hard})
	}
	c.AddExpecting(uintptr(len(Go)), func(syscall.Errno) error { return errors.New("it was given up") },
		unix.SYS_READ, p.asked.Fd(), forkexec.Keep(c, new(byte)), uintptr(len(Go)))
	c.Unblock()
	c.Add(func(err syscall.Errno) error { return notExecuted(file, statErr == nil, err) },
		unix.SYS_EXECVE, c.Text(file), c.Texts(s.Args), c.Texts(s.Env))
	return nil
}

// findAs finds the command with the user's rights to files, from the directory that it begins in.
func findAs(s *Spec) (file string, err error) {
	groups := make([]int, len(s.User.Groups))
	for i, g := range s.User.Groups {
		groups[i] = int(g)
	}
	err = errors.Join(unix.Setgroups(groups), unix.Setfsgid(int(s.User.GID)), unix.Setfsuid(int(s.User.UID)))
	defer func() { err = errors.Join(err, unix.Setfsuid(os.Geteuid()), unix.Setfsgid(os.Getegid())) }()
	if err != nil {
		return "", failed("looking for the command", err)
	}
	if err := unix.Chdir(s.Dir); err != nil {
		return "", failed(workingDir(s), err)
	}
	return findCommand(s)
}
