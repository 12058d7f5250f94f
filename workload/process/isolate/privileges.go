package isolate

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// The capabilities that root keeps: over files that it can see, its own processes, and
// ports. None of them reaches out of the root.
const rootCapabilities = 1<<unix.CAP_CHOWN | 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_FOWNER | 1<<unix.CAP_FSETID | 1<<unix.CAP_KILL |
	1<<unix.CAP_SETGID | 1<<unix.CAP_SETUID | 1<<unix.CAP_SETPCAP | 1<<unix.CAP_NET_BIND_SERVICE | 1<<unix.CAP_SYS_CHROOT

// userCapabilities are what all others have: ports below 1024, which jobs ask for.
const userCapabilities = 1 << unix.CAP_NET_BIND_SERVICE

// dropPrivileges makes this thread one of a user, with few capabilities and no way to
// more.
func dropPrivileges(u User, add, drop Capabilities) error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no_new_privs: %w", err)
	}
	keep := uint64(userCapabilities)
	if u.UID == 0 {
		keep = rootCapabilities
	}
	keep = keep&^uint64(drop) | uint64(add)
	if err := dropBounding(keep); err != nil {
		return err
	}
	if err := changeUser(u); err != nil {
		return err
	}
	return setCapabilities(keep, u.UID != 0)
}

// dropBounding leaves those capabilities that may be had at most.
func dropBounding(keep uint64) error {
	for c := uintptr(0); c < 64; c++ {
		if keep&(1<<c) != 0 {
			continue
		}
		err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0)
		if errors.Is(err, unix.EINVAL) { // the kernel knows no more
			return nil
		}
		if err != nil {
			return fmt.Errorf("dropping capability %d: %w", c, err)
		}
	}
	return nil
}

// changeUser changes the user of this thread, which keeps its capabilities.
func changeUser(u User) error {
	if err := unix.Prctl(unix.PR_SET_KEEPCAPS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("keeping capabilities: %w", err)
	}
	groups := make([]int, len(u.Groups))
	for i, g := range u.Groups {
		groups[i] = int(g)
	}
	if err := unix.Setgroups(groups); err != nil {
		return fmt.Errorf("groups %v: %w", groups, err)
	}
	if err := unix.Setresgid(int(u.GID), int(u.GID), int(u.GID)); err != nil {
		return fmt.Errorf("group %d: %w", u.GID, err)
	}
	if err := unix.Setresuid(int(u.UID), int(u.UID), int(u.UID)); err != nil {
		return fmt.Errorf("user %d: %w", u.UID, err)
	}
	return nil
}

// setCapabilities sets what this thread has; ambient: what it executes has them too.
func setCapabilities(keep uint64, ambient bool) error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	for i := range data {
		word := uint32(keep >> (32 * i))
		data[i] = unix.CapUserData{Effective: word, Permitted: word}
		if ambient {
			data[i].Inheritable = word
		}
	}
	if err := unix.Capset(&header, &data[0]); err != nil {
		return fmt.Errorf("capabilities: %w", err)
	}
	for c := uintptr(0); ambient && c < 64; c++ {
		if keep&(1<<c) == 0 {
			continue
		}
		if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_RAISE, c, 0, 0); err != nil {
			return fmt.Errorf("ambient capability %d: %w", c, err)
		}
	}
	return nil
}
