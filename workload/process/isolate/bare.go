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
	become := becomeUser
	if s.Paths != nil {
		become = func(u User) error { return becomeRestricted(u, s) }
	}
	if err := become(s.User); err != nil {
		return err
	}
	if err := endWithParent(); err != nil {
		return err
	}
	if s.Paths != nil {
		if err := filterSyscalls(); err != nil {
			return err
		}
	}
	return execute(s)
}

// becomeRestricted is becomeUser for a process that has few paths and, as an isolated one,
// few capabilities: with more, root would find a way around the paths.
func becomeRestricted(u User, s *Spec) error {
	ruleset, err := pathRuleset(s.Paths) // while everything can be opened
	if err != nil {
		return err
	}
	defer closeFD(int(ruleset))
	become := becomeUser
	if os.Geteuid() == 0 {
		become = func(u User) error { return dropPrivileges(u, 0, 0) }
	}
	if err := become(u); err != nil {
		return err
	}
	return restrictSelf(ruleset)
}

// becomeUser changes the user of this thread, which can gain no privileges then. One that is
// not root has no capabilities. Others than root cannot change their user, and are told to
// have their own.
func becomeUser(u User) error {
	if os.Geteuid() == 0 {
		if err := changeUser(u); err != nil {
			return err
		}
		if u.UID != 0 {
			if err := setCapabilities(0, false); err != nil {
				return err
			}
		}
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no_new_privs: %w", err)
	}
	return nil
}
