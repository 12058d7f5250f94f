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

// OpenNetwork opens a network namespace by its path. The caller closes it. With an id, it has to
// be that namespace: see [ID].
//
// # Errors
//
// FAILED_PRECONDITION: it is not there, or another one is; RESOURCE_EXHAUSTED: it could not be
// opened. Both are recoverable. INVALID_ARGUMENT: it is no network namespace.
func OpenNetwork(path, id string) (*os.File, error) {
	place, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, abi.NewRecoverableError(abi.FailedPrecondition, fmt.Sprintf("the network namespace %s is not there", path))
	case err != nil:
		return nil, abi.NewRecoverableError(abi.ResourceExhausted, fmt.Sprintf("the network namespace %s: %v", path, err))
	}
	defer func() { _ = unix.Close(place) }() // nothing can be written to it
	f, err := ReopenNetwork(place, path)
	if err != nil {
		return nil, err
	}
	if is, err := ID(f); err != nil || id != "" && id != is {
		_ = f.Close() // nothing was written to it
		return nil, abi.NewRecoverableError(abi.FailedPrecondition, fmt.Sprintf("%s leads to another network namespace than when it was asked for", path))
	}
	return f, nil
}

// ReopenNetwork opens the network namespace that a descriptor of O_PATH stands for, and opens
// nothing else: opening a pipe waits, and opening a device may do anything. Path is what errors
// name. The caller closes both.
//
// # Errors
//
// INVALID_ARGUMENT: it is none; RESOURCE_EXHAUSTED, recoverable: it could not be opened.
func ReopenNetwork(place int, path string) (*os.File, error) {
	var fs unix.Statfs_t
	if err := unix.Fstatfs(place, &fs); err != nil || fs.Type != unix.NSFS_MAGIC {
		return nil, abi.NewError(abi.InvalidArgument, path+" is no namespace")
	}
	fd, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", place), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, abi.NewRecoverableError(abi.ResourceExhausted, fmt.Sprintf("%s: %v", path, err))
	}
	if kind, err := unix.IoctlRetInt(fd, unix.NS_GET_NSTYPE); err != nil || kind != unix.CLONE_NEWNET {
		_ = unix.Close(fd) // nothing was written to it
		return nil, abi.NewError(abi.InvalidArgument, path+" is no network namespace")
	}
	return os.NewFile(uintptr(fd), path), nil
}

// ID tells an open namespace from every other one for as long as it is open.
func ID(f *os.File) (string, error) {
	var stat unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &stat); err != nil {
		return "", err
	}
	return fmt.Sprintf("%d:%d", stat.Dev, stat.Ino), nil
}

// StartLoopback has the calling thread, and all that is in its network namespace, reach itself:
// in a new namespace nothing does.
func StartLoopback() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("starting the loopback interface: %w", err)
	}
	defer func() { _ = unix.Close(fd) }() // nothing was sent
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return fmt.Errorf("starting the loopback interface: %w", err)
	}
	if err := unix.IoctlIfreq(fd, unix.SIOCGIFFLAGS, lo); err != nil {
		return fmt.Errorf("asking for the loopback interface: %w", err)
	}
	lo.SetUint16(lo.Uint16() | unix.IFF_UP)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo); err != nil {
		return fmt.Errorf("starting the loopback interface: %w", err)
	}
	return nil
}
