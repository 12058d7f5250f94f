package forkexec

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Child is a process that was forked. It is to be waited for, whatever comes of it.
type Child struct {
	PID   int
	PIDFD int // closed on exec; the caller closes it
	calls *Calls
	// report is where the call comes from that failed. It is closed by the command's beginning or the
	// process's end.
	report *os.File
}

// Fork forks a process with flags of clone(2), in a cgroup of version 2 by its descriptor, or with
// -1 in the caller's, and has it make the calls, the last of which should execute a command: one
// that has made all of them ends with status 0, and one of which fails with 127. It returns at once:
// [Child.Executed] says what comes of it, and has to be called.
//
// The process begins with its own copy of memory and files, and with all signals blocked, none of them
// handled: [Calls.Unblock] adds the call that has them come. It takes the longer, the more memory this process
// has.
//
// With CLONE_PARENT its parent is the one of this process, and otherwise the calling thread, which the goroutine
// has to be locked to then.
//
// # Errors
//
// EINVAL: an argument has a zero byte. [os.SyscallError]: that of pipe2(2), such as EMFILE, and of clone3(2), such as
// EAGAIN, or ENOSYS before Linux 5.3.
func Fork(flags uint64, cgroup int, calls *Calls) (*Child, error) {
	if calls.invalid != nil {
		return nil, calls.invalid
	}
	report, theirs, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer theirs.Close() // nothing is written to it here
	calls.keepOpen(int(theirs.Fd()))
	pidfd := new(int32)
	arguments := &cloneArguments{flags: flags | unix.CLONE_PIDFD | unix.CLONE_CLEAR_SIGHAND, pidfd: uint64(Keep(calls, pidfd))}
	if flags&unix.CLONE_PARENT == 0 {
		arguments.exitSignal = uint64(unix.SIGCHLD)
	}
	if cgroup >= 0 {
		arguments.flags |= unix.CLONE_INTO_CGROUP
		arguments.cgroup = uint64(cgroup)
	}
	pid, errno := forkBlocked(arguments, calls, theirs.Fd())
	if errno != 0 {
		_ = report.Close() // nothing comes from it
		return nil, os.NewSyscallError("clone3", errno)
	}
	return &Child{PID: int(pid), PIDFD: int(*pidfd), calls: calls, report: report}, nil
}

// Executed returns when the process has executed the command or ended: nil, or the error of the call that
// failed. One that was killed before its command is no error. It is called once.
func (c *Child) Executed() error {
	defer c.report.Close() // nothing is written to it
	var failed call
	n, err := io.ReadFull(c.report, unsafe.Slice((*byte)(unsafe.Pointer(&failed)), callSize))
	switch {
	case n == 0 && errors.Is(err, io.EOF):
		return nil
	case err == nil && failed.index < uintptr(len(c.calls.list)):
		return c.calls.err(&failed)
	}
	return fmt.Errorf("a new process does not say why it failed: %w", err)
}

// cloneArguments are those of clone3(2).
type cloneArguments struct {
	flags, pidfd uint64
	_            [2]uint64 // where thread numbers go
	exitSignal   uint64
	_            [5]uint64 // a stack, thread-local memory, and numbers to have
	cgroup       uint64
}

// Unblock adds the call after which all signals reach the process.
func (c *Calls) Unblock() {
	c.Add(nil, unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, Keep(c, new(signals)), 0, unsafe.Sizeof(signals{}))
}

type signals [1]uint64 // the kernel's

// forkBlocked forks while no signal reaches the thread: a handler would run in the new process, where nothing
// of Go's runtime works.
func forkBlocked(arguments *cloneArguments, calls *Calls, report uintptr) (pid uintptr, errno syscall.Errno) {
	all, own := signals{^uint64(0)}, signals{}
	setSignals(&all, &own)
	pid, errno = forkAndMake(arguments, unsafe.Sizeof(*arguments), unsafe.SliceData(calls.list), uintptr(len(calls.list)), report)
	setSignals(&own, nil)
	runtime.KeepAlive(calls)
	return pid, errno
}

// setSignals blocks those signals, and only those.
func setSignals(blocked, before *signals) {
	_, _, _ = unix.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, // which cannot fail
		uintptr(unsafe.Pointer(blocked)), uintptr(unsafe.Pointer(before)), unsafe.Sizeof(signals{}), 0, 0)
}

// forkAndMake calls clone3(2), and has the new process make the calls, write the one that failed to the
// report, if one did, and end. It is written in assembly.
//
//go:noescape
func forkAndMake(arguments *cloneArguments, size uintptr, first *call, count, report uintptr) (pid uintptr, errno syscall.Errno)
