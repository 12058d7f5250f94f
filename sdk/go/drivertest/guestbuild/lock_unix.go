//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package guestbuild

import (
	"fmt"
	"os"
	"syscall"
)

// waitForLock returns when this process is the only one that holds the file's lock,
// which ends when the file is closed.
func waitForLock(file *os.File) error {
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX); err != nil {
		return fmt.Errorf("lock %s: %w", file.Name(), err)
	}
	return nil
}
