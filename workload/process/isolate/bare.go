package isolate

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// becomeAndExecute replaces this process by the command, with the privileges of its user and
// within bounds.
func becomeAndExecute(s *Spec) error {
	if err := limitFiles(); err != nil {
		return err
	}
	if s.DataMaxBytes > 0 {
		if err := unix.Setrlimit(unix.RLIMIT_DATA, &unix.Rlimit{Cur: s.DataMaxBytes, Max: s.DataMaxBytes}); err != nil {
			return fmt.Errorf("limit of data: %w", err)
		}
	}
	// Others cannot change their user, and are told to have their own.
	if os.Geteuid() == 0 {
		if err := becomeUser(s.User); err != nil {
			return err
		}
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no_new_privs: %w", err)
	}
	if err := endWithParent(); err != nil {
		return err
	}
	return execute(s)
}

// becomeUser changes the user of this thread. One that is not root has no capabilities then.
func becomeUser(u User) error {
	if err := changeUser(u); err != nil || u.UID == 0 {
		return err
	}
	return setCapabilities(0, false)
}
