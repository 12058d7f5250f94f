package wasi

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/wasmnode/wasmnode/abi"
)

// inNetwork does something on a thread that is in the network namespace at path; empty: in
// this process's own. A thread that does not find back is not used again.
func inNetwork(path string, do func() error) error {
	if path == "" {
		return do()
	}
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		lost, err := visit(path, do)
		if !lost {
			runtime.UnlockOSThread()
		}
		done <- err
	}()
	return <-done
}

// visit has the thread enter the namespace and leave it.
func visit(path string, do func() error) (lost bool, err error) {
	there, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return false, abi.NewRecoverableError(abi.FailedPrecondition, fmt.Sprintf("the network namespace %s is not there", path))
	case err != nil:
		return false, fmt.Errorf("network namespace %s: %w", path, err)
	}
	defer func() { _ = unix.Close(there) }() // nothing was written to it
	own, err := unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false, err
	}
	defer func() { _ = unix.Close(own) }()
	if err := unix.Setns(there, unix.CLONE_NEWNET); err != nil {
		return false, fmt.Errorf("entering the network namespace %s: %w", path, err)
	}
	err = do()
	return unix.Setns(own, unix.CLONE_NEWNET) != nil, err
}
