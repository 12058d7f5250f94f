package isolate

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/wasmnode/wasmnode/workload/process/forkexec"
)

// joinFD is the file descriptor where a process that is to join another's namespaces
// has the other's pidfd. Its process namespace it was started in.
const joinFD = 5

// joined are the namespaces that are entered: the mounts, and with them the root.
const joined = unix.CLONE_NEWNS | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS

// joinTask leaves the node's namespaces for a task's, and adds what gives a process the task's
// privileges. It is in no scope of sockets: beside the task's processes it could see nothing of them.
func joinTask(c *forkexec.Calls, s *Spec) error {
	if err := join(); err != nil {
		return err
	}
	limitFiles(c)
	dropPrivileges(c, s.User, s.AddCapabilities, s.DropCapabilities)
	endWithParent(c, reportFD)
	return filterSyscalls(c)
}

// join leaves the node's namespaces for those of a process that was isolated.
func join() error {
	// The task sees this process from now on, and must not look into it.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return failed("hiding from the task", err)
	}
	// Threads share their root and directory; only a thread that does not can change its
	// mounts.
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return failed("a root of its own", err)
	}
	if err := unix.Setns(joinFD, joined); err != nil {
		return failed("entering the task's namespaces", err)
	}
	if err := unix.Close(joinFD); err != nil {
		return fmt.Errorf("closing the task's process: %w", err)
	}
	return nil
}
