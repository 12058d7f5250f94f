//go:build unix

package sandbox

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// checkOwner refuses a directory whose owner is another user, who can write to it whatever
// its mode.
func checkOwner(dir string, info fs.FileInfo) error {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if ok && int(stat.Uid) != os.Geteuid() {
		return fmt.Errorf("%s belongs to the user %d, who could have this process (user %d) run any code: remove it or change its owner", dir, stat.Uid, os.Geteuid())
	}
	return nil
}
