package isolate

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/wasmnode/wasmnode/workload/process/forkexec"
)

// becomeBare adds what gives a process the privileges of its user, within bounds.
func becomeBare(c *forkexec.Calls, s *Spec) error {
	limitFiles(c)
	if s.DataMaxBytes > 0 {
		setLimit(c, explain("limit of data"), unix.RLIMIT_DATA, unix.Rlimit{Cur: s.DataMaxBytes, Max: s.DataMaxBytes})
	}
	if s.Paths == nil {
		becomeUser(c, s.User)
		endWithParent(c, reportFD)
		return nil
	}
	ruleset, err := pathRuleset(s.Paths) // while everything can be opened
	if err != nil {
		return err
	}
	// With more capabilities, root would find a way around the paths.
	if os.Geteuid() == 0 {
		dropPrivileges(c, s.User, 0, 0)
	} else {
		becomeUser(c, s.User)
	}
	restrictSelf(c, int(ruleset))
	endWithParent(c, reportFD)
	return filterSyscalls(c)
}

// becomeUser adds what changes the user of a thread, which can gain no privileges then. One that is
// not root has no capabilities. Others than root cannot change their user, and are told to
// have their own.
func becomeUser(c *forkexec.Calls, u User) {
	if os.Geteuid() == 0 {
		changeUser(c, u)
		if u.UID != 0 {
			setCapabilities(c, 0, false)
		}
	}
	prctl(c, "no_new_privs", unix.PR_SET_NO_NEW_PRIVS, 1)
}
