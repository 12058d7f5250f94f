package process

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/wasmnode/wasmnode/abi"
)

// namespace is a kind of namespace that children of a thread may begin in.
type namespace struct {
	name string // in /proc/PID/ns
	flag int    // of setns
}

// The kinds of namespaces that a process may begin in, in place of the supervisor's.
var (
	processes = namespace{"pid", unix.CLONE_NEWPID}
	networks  = namespace{"net", unix.CLONE_NEWNET}
)

// within has this thread's children begin in another namespace while fork runs: that of a
// file, or of a process by its pidfd. 0: in the thread's own. A thread that does not find
// back is not used again.
func (s *spawner) within(kind namespace, fd int, fork func() error) error {
	switch {
	case s.namespaceErr != nil:
		return s.namespaceErr
	case fd == 0:
		return fork()
	}
	own, err := unix.Open("/proc/thread-self/ns/"+kind.name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return noFiles(err)
	}
	defer func() { _ = unix.Close(own) }() // nothing was written to it
	if err := unix.Setns(fd, kind.flag); err != nil {
		return fmt.Errorf("entering the task's %s namespace: %w", kind.name, err)
	}
	forkErr := fork()
	if err := unix.Setns(own, kind.flag); err != nil {
		s.namespaceErr = fmt.Errorf("leaving a task's %s namespace: %w", kind.name, err)
	}
	return errors.Join(forkErr, s.namespaceErr)
}

// openNetwork opens the network namespace that the process is to begin in; nil: the
// supervisor's.
func (p *process) openNetwork() (*os.File, error) {
	if p.spec == nil || p.spec.Process == nil || p.spec.Process.Network == "" {
		return nil, nil
	}
	path := p.spec.Process.Network
	f, err := os.Open(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, abi.NewRecoverableError(abi.FailedPrecondition, fmt.Sprintf("the network namespace %s is not there", path))
	case err != nil:
		return nil, noFiles(err)
	}
	return f, nil
}

// network is what commands in the process find its network by; 0: it is the supervisor's.
func (o *origin) network() int {
	if !o.ownNetwork {
		return 0
	}
	return o.child.pidfd
}
