// Package namespace has a thread work in a task's namespace in place of its own, and come
// back.
//
// Start reading at [Kind.Within].
package namespace

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/wasmnode/wasmnode/abi"
)

// Kind is a kind of namespace that a thread may be in for a while.
type Kind struct {
	name string // in /proc/PID/ns
	flag int    // of setns
}

// The kinds. Of processes, it is that of the thread's children.
var (
	Processes = Kind{"pid", unix.CLONE_NEWPID}
	Networks  = Kind{"net", unix.CLONE_NEWNET}
)

// Within calls do while the calling thread is in another namespace: that of a file, or of a
// process by its pidfd. The goroutine has to be locked to its thread. Lost is why the thread
// did not find back: it is not to be used again.
//
// # Errors
//
// RESOURCE_EXHAUSTED, recoverable: no file could be opened; the system's, such as EPERM; and
// those of do.
func (k Kind) Within(fd int, do func() error) (lost, err error) {
	own, err := unix.Open("/proc/thread-self/ns/"+k.name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, abi.NewRecoverableError(abi.ResourceExhausted, err.Error())
	}
	defer func() { _ = unix.Close(own) }() // nothing was written to it
	if err := unix.Setns(fd, k.flag); err != nil {
		return nil, fmt.Errorf("entering the task's %s namespace: %w", k.name, err)
	}
	err = do()
	if back := unix.Setns(own, k.flag); back != nil {
		lost = fmt.Errorf("leaving a task's %s namespace: %w", k.name, back)
	}
	return lost, err
}

// OpenNetwork opens a network namespace by its path. The caller closes it.
//
// # Errors
//
// FAILED_PRECONDITION: it is not there; RESOURCE_EXHAUSTED: it could not be opened. Both are
// recoverable.
func OpenNetwork(path string) (*os.File, error) {
	f, err := os.Open(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, abi.NewRecoverableError(abi.FailedPrecondition, fmt.Sprintf("the network namespace %s is not there", path))
	case err != nil:
		return nil, abi.NewRecoverableError(abi.ResourceExhausted, err.Error())
	}
	return f, nil
}
