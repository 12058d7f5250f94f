package forkexec

import (
	"errors"
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Child is a process that was started. It is to be waited for.
type Child struct {
	PID   int
	PIDFD int // closed on exec; the caller closes it
}

// Start forks a process with flags of clone(2), in a cgroup of version 2 by its descriptor, or with
// -1 in the caller's, and has it make the calls, the last of which should execute a command: one
// that has made all of them ends with status 0. It returns when the process has executed the command
// or ended, so each call should be one that does not wait for long.
//
// The process begins with its own copy of the files, and with all signals blocked and as the
// kernel has them: [Unblock] adds the call that has signals come. Its parent is the calling thread,
// so the goroutine has to be locked to one that lasts where the process wants to hear of its end.
//
// # Errors
//
// That of the call which failed: nothing is left of the process. [os.SyscallError]: that of clone3(2), such
// as ENOSYS before Linux 5.7 and EAGAIN. A process that was killed meanwhile is no error.
func Start(flags uint64, cgroup int, calls *Calls) (Child, error) {
	if calls.invalid != nil {
		return Child{}, calls.invalid
	}
	pidfd := new(int32)
	arguments := &cloneArguments{
		flags:      flags | unix.CLONE_VM | unix.CLONE_VFORK | unix.CLONE_PIDFD | unix.CLONE_CLEAR_SIGHAND,
		pidfd:      uint64(Keep(calls, pidfd)),
		exitSignal: uint64(unix.SIGCHLD),
	}
	if cgroup >= 0 {
		arguments.flags |= unix.CLONE_INTO_CGROUP
		arguments.cgroup = uint64(cgroup)
	}
	pid, errno := cloneBlocked(arguments, calls)
	if errno != 0 {
		return Child{}, os.NewSyscallError("clone3", errno)
	}
	child := Child{PID: int(pid), PIDFD: int(*pidfd)}
	if err := calls.err(); err != nil {
		reap(child.PID)
		_ = unix.Close(child.PIDFD) // nothing was written to it
		return Child{}, err
	}
	return child, nil
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

// cloneBlocked forks while no signal reaches the thread: a handler that ran in the new process would
// run in this one's memory.
func cloneBlocked(arguments *cloneArguments, calls *Calls) (pid uintptr, errno syscall.Errno) {
	all, own := signals{^uint64(0)}, signals{}
	setSignals(&all, &own)
	pid, errno = cloneAndMake(arguments, unsafe.Sizeof(*arguments), &calls.list[0], uintptr(len(calls.list)))
	setSignals(&own, nil)
	runtime.KeepAlive(calls)
	return pid, errno
}

// setSignals blocks those signals, and only those.
func setSignals(blocked, before *signals) {
	_, _, _ = unix.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, // which cannot fail
		uintptr(unsafe.Pointer(blocked)), uintptr(unsafe.Pointer(before)), unsafe.Sizeof(signals{}), 0, 0)
}

func reap(pid int) {
	for {
		if _, err := unix.Wait4(pid, nil, 0, nil); !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// cloneAndMake calls clone3(2), and has the new process make the calls and then end. It is written
// in assembly.
//
//go:noescape
func cloneAndMake(arguments *cloneArguments, size uintptr, first *call, count uintptr) (pid uintptr, errno syscall.Errno)
