package isolate

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// What a right of [Path] is in terms of Landlock. Those of the last line are about
// directories only.
var pathRights = map[rune]uint64{
	'r': unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR,
	'w': unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV,
	'x': unix.LANDLOCK_ACCESS_FS_EXECUTE,
	'c': unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_SYM |
		unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_SOCK | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE |
		unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REFER,
}

// fileRights are those that a file can have which is no directory.
const fileRights = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE |
	unix.LANDLOCK_ACCESS_FS_IOCTL_DEV | unix.LANDLOCK_ACCESS_FS_EXECUTE

// nobodysRights are denied everywhere.
const nobodysRights = unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK

// minPathsABI is the first version of Landlock that also guards truncating (Linux 6.2): with an
// older one, a path that may only be read could be emptied.
const minPathsABI = 3

// PathsMissing returns why this machine cannot restrict a process to paths; nil: it can.
func PathsMissing() error {
	version, err := landlockABI()
	switch {
	case err != nil:
		return err
	case version < minPathsABI:
		return fmt.Errorf("the kernel has version %d of Landlock, and %d is needed: Linux 6.2 or later", version, minPathsABI)
	}
	return nil
}

func landlockABI() (int, error) {
	version, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0, fmt.Errorf("landlock: %w", errno)
	}
	return int(version), nil
}

// pathRuleset is what has a thread, and all that it executes and starts, use no other files
// than the paths, and no processes but their own. The caller closes it.
func pathRuleset(paths []Path) (ruleset uintptr, err error) {
	version, err := landlockABI()
	if err != nil {
		return 0, err
	}
	attributes := unix.LandlockRulesetAttr{Handled_access_fs: nobodysRights}
	for _, rights := range pathRights {
		attributes.Handled_access_fs |= rights
	}
	if version < 5 {
		attributes.Handled_access_fs &^= unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	}
	if version >= 6 {
		attributes.Scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL
	}
	made, errno := newRuleset(&attributes)
	if errno != 0 {
		return 0, fmt.Errorf("landlock: %w", errno)
	}
	for _, p := range paths {
		if err := allowPath(int(made), p, attributes.Handled_access_fs); err != nil {
			closeFD(int(made))
			return 0, failed("path "+p.Path, err)
		}
	}
	return made, nil
}

// allowPath adds a path, unless it is not there.
func allowPath(ruleset int, p Path, handled uint64) error {
	fd, err := openWithin(p.Path, p.Within)
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR):
		return nil
	case errors.Is(err, unix.EXDEV):
		return fmt.Errorf("it leads out of %s", p.Within)
	case err != nil:
		return err
	}
	defer closeFD(fd)
	var info unix.Stat_t
	if err := unix.Fstat(fd, &info); err != nil {
		return err
	}
	rule := unix.LandlockPathBeneathAttr{Parent_fd: int32(fd)}
	for _, right := range p.Rights {
		rule.Allowed_access |= pathRights[right]
	}
	rule.Allowed_access &= handled
	if info.Mode&unix.S_IFMT != unix.S_IFDIR {
		rule.Allowed_access &= fileRights
	}
	if rule.Allowed_access == 0 { // such as creating in a file
		return nil
	}
	_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(ruleset), unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&rule)), 0, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}
