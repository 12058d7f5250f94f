package isolate

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// joinFD is the file descriptor where a process that is to join another's namespaces
// has the other's pidfd. Its process namespace it was started in.
const joinFD = 5

// joined are the namespaces that are entered: the mounts, and with them the root.
const joined = unix.CLONE_NEWNS | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS

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
