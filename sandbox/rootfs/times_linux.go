package rootfs

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// setTimes is futimens(3): a call on the descriptor, not on a path.
func setTimes(fd int, times *[2]unix.Timespec) error {
	_, _, no := unix.Syscall6(unix.SYS_UTIMENSAT, uintptr(fd), 0, uintptr(unsafe.Pointer(times)), 0, 0, 0)
	if no != 0 {
		return no
	}
	return nil
}
