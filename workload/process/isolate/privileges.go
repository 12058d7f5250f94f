package isolate

import (
	"fmt"
	"slices"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/wasmnode/wasmnode/workload/process/forkexec"
)

// The capabilities that root keeps: over files that it can see, its own processes, and
// ports. None of them reaches out of the root.
const rootCapabilities = 1<<unix.CAP_CHOWN | 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_FOWNER | 1<<unix.CAP_FSETID | 1<<unix.CAP_KILL |
	1<<unix.CAP_SETGID | 1<<unix.CAP_SETUID | 1<<unix.CAP_SETPCAP | 1<<unix.CAP_NET_BIND_SERVICE | 1<<unix.CAP_SYS_CHROOT

// userCapabilities are what all others have: ports below 1024, which jobs ask for.
const userCapabilities = 1 << unix.CAP_NET_BIND_SERVICE

// dropPrivileges adds what makes a thread one of a user, with few capabilities and no way to more.
func dropPrivileges(c *forkexec.Calls, u User, add, drop Capabilities) {
	prctl(c, "no_new_privs", unix.PR_SET_NO_NEW_PRIVS, 1)
	keep := uint64(userCapabilities)
	if u.UID == 0 {
		keep = rootCapabilities
	}
	keep = keep&^uint64(drop) | uint64(add)
	for capability := range lastCapability() + 1 { // those that may be had at most
		if keep&(1<<capability) == 0 {
			prctl(c, fmt.Sprint("dropping capability ", capability), unix.PR_CAPBSET_DROP, capability)
		}
	}
	changeUser(c, u)
	setCapabilities(c, keep, u.UID != 0)
}

// lastCapability is the highest that the kernel knows.
var lastCapability = sync.OnceValue(func() (last uintptr) {
	for {
		if _, _, errno := unix.RawSyscall(unix.SYS_PRCTL, unix.PR_CAPBSET_READ, last+1, 0); errno != 0 {
			return last
		}
		last++
	}
})

// changeUser adds what changes the user of a thread, which keeps its capabilities.
func changeUser(c *forkexec.Calls, u User) {
	prctl(c, "keeping capabilities", unix.PR_SET_KEEPCAPS, 1)
	groups := uintptr(0)
	if len(u.Groups) > 0 {
		groups = forkexec.Keep(c, &slices.Clone(u.Groups)[0])
	}
	c.Add(explain(fmt.Sprintf("groups %v", u.Groups)), unix.SYS_SETGROUPS, uintptr(len(u.Groups)), groups)
	gid, uid := uintptr(u.GID), uintptr(u.UID)
	c.Add(explain(fmt.Sprintf("group %d", u.GID)), unix.SYS_SETRESGID, gid, gid, gid)
	c.Add(explain(fmt.Sprintf("user %d", u.UID)), unix.SYS_SETRESUID, uid, uid, uid)
	// Others of the user must not look into it, whatever the machine is set to, while it has a copy of the memory
	// of what made it. They could not before this either: it has capabilities.
	prctl(c, "hiding from the user", unix.PR_SET_DUMPABLE, 0)
}

// setCapabilities adds what sets those that a thread has; ambient: what it executes has them too.
func setCapabilities(c *forkexec.Calls, keep uint64, ambient bool) {
	header := &unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	data := new([2]unix.CapUserData)
	for i := range data {
		word := uint32(keep >> (32 * i))
		data[i] = unix.CapUserData{Effective: word, Permitted: word}
		if ambient {
			data[i].Inheritable = word
		}
	}
	c.Add(explain("capabilities"), unix.SYS_CAPSET, forkexec.Keep(c, header), forkexec.Keep(c, data))
	for capability := uintptr(0); ambient && capability < 64; capability++ {
		if keep&(1<<capability) != 0 {
			prctl(c, fmt.Sprint("ambient capability ", capability), unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_RAISE, capability)
		}
	}
}

func prctl(c *forkexec.Calls, what string, arguments ...uintptr) {
	c.Add(explain(what), unix.SYS_PRCTL, arguments...)
}

// explain returns what makes an error of the number of one.
func explain(what string) func(syscall.Errno) error {
	return func(e syscall.Errno) error { return fmt.Errorf("%s: %w", what, e) }
}

// explainFailed is explain, with [failed].
func explainFailed(what string) func(syscall.Errno) error {
	return func(e syscall.Errno) error { return failed(what, e) }
}
