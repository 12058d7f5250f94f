// Package openat2 opens paths that the kernel keeps below a directory.
package openat2

import (
	"errors"

	"golang.org/x/sys/unix"
)

// attempts is more than any path needs: where other processes renamed all the time, three in a row
// were the most.
const attempts = 128

// Path opens a path for itself alone (O_PATH), from an open directory, or from the working directory
// with [unix.AT_FDCWD], as the RESOLVE_ flags of openat2(2) bound it. The caller closes what it
// returns.
//
// With RESOLVE_IN_ROOT and RESOLVE_BENEATH the kernel refuses a ".." (EAGAIN) where anything in the
// system is renamed or mounted meanwhile. That tells nothing of the path, so it is tried again, 128
// times at most.
func Path(dir int, path string, resolve uint64) (fd int, err error) {
	for range attempts {
		fd, err = unix.Openat2(dir, path, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: resolve})
		if !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR) {
			break
		}
	}
	return fd, err
}
