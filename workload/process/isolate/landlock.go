package isolate

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// scopeSockets has this thread, and all that it executes and starts, refused connections to
// sockets of the machine that have a name and no file: those belong to the network, of
// which no namespace is made, so that no permission guards them. Linux can do that since 6.12;
// where it cannot, they stay in reach.
func scopeSockets() error {
	attributes := unix.LandlockRulesetAttr{Scoped: unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET}
	ruleset, errno := newRuleset(&attributes)
	switch {
	case errors.Is(errno, unix.ENOSYS), errors.Is(errno, unix.EOPNOTSUPP), errors.Is(errno, unix.E2BIG), errors.Is(errno, unix.EINVAL):
		return nil
	case errno != 0:
		return fmt.Errorf("landlock: %w", errno)
	}
	defer closeFD(int(ruleset))
	return restrictSelf(ruleset)
}

func newRuleset(attributes *unix.LandlockRulesetAttr) (ruleset uintptr, errno unix.Errno) {
	ruleset, _, errno = unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(attributes)), unsafe.Sizeof(*attributes), 0)
	return ruleset, errno
}

// restrictSelf holds this thread to a set of rules, and all that it executes and starts.
func restrictSelf(ruleset uintptr) error {
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, ruleset, 0, 0); errno != 0 {
		return fmt.Errorf("landlock: %w", errno)
	}
	return nil
}
