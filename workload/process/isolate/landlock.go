package isolate

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/wasmnode/wasmnode/workload/process/forkexec"
)

// socketScope is what has a thread, and all that it executes and starts, refused connections to
// sockets of the machine that have a name and no file: those belong to the network, of
// which no namespace is made, so that no permission guards them. Linux can do that since 6.12;
// where it cannot, they stay in reach, and it is -1. The caller closes it.
func socketScope() (ruleset int, err error) {
	attributes := unix.LandlockRulesetAttr{Scoped: unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET}
	made, errno := newRuleset(&attributes)
	switch {
	case errors.Is(errno, unix.ENOSYS), errors.Is(errno, unix.EOPNOTSUPP), errors.Is(errno, unix.E2BIG), errors.Is(errno, unix.EINVAL):
		return -1, nil
	case errno != 0:
		return -1, fmt.Errorf("landlock: %w", errno)
	}
	return int(made), nil
}

func newRuleset(attributes *unix.LandlockRulesetAttr) (ruleset uintptr, errno unix.Errno) {
	ruleset, _, errno = unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(attributes)), unsafe.Sizeof(*attributes), 0)
	return ruleset, errno
}

// restrictSelf adds what holds a thread to a set of rules, and all that it executes and starts.
func restrictSelf(c *forkexec.Calls, ruleset int) {
	c.Add(explain("landlock"), unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(ruleset))
}
