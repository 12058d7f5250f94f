package process

import (
	"errors"
	"os"

	"github.com/wasmnode/wasmnode/workload"
	"github.com/wasmnode/wasmnode/workload/namespace"
)

// within has this thread's children begin in another namespace while fork runs: that of a
// file, or of a process by its pidfd. 0: in the thread's own. A thread that does not find
// back is not used again.
func (s *spawner) within(kind namespace.Kind, fd int, fork func() error) (err error) {
	switch {
	case s.namespaceErr != nil:
		return s.namespaceErr
	case fd == 0:
		return fork()
	}
	s.namespaceErr, err = kind.Within(fd, fork)
	return errors.Join(err, s.namespaceErr)
}

// openNetwork opens the network namespace that the process is to begin in; nil: the
// supervisor's.
func (p *process) openNetwork() (*os.File, error) {
	if p.spec == nil || p.spec.Process == nil || p.spec.Process.Network == "" || p.noNetwork() {
		return nil, nil
	}
	return namespace.OpenNetwork(p.spec.Process.Network, p.spec.Process.NetworkID)
}

// noNetwork reports whether the process begins in a network namespace of its own. What tries
// whether processes can be isolated has no spec.
func (p *process) noNetwork() bool {
	return p.spec != nil && p.spec.Process != nil && p.spec.Process.Network == workload.NoNetwork
}

// network is what commands in the process find its network by; 0: it is the supervisor's.
func (o *origin) network() int {
	if !o.ownNetwork {
		return 0
	}
	return o.child.pidfd
}
