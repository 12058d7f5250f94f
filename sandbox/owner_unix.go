//go:build unix

package sandbox

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// othersWrite are the bits of a mode by which others than the owner write.
const othersWrite = 0o022

// checkOwner refuses what belongs to another user, who can write to it whatever its mode.
func checkOwner(path string, info fs.FileInfo) error {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if ok && int(stat.Uid) != os.Geteuid() {
		return fmt.Errorf("%s belongs to the user %d, who could have this process (user %d) run any code: remove it or change its owner", path, stat.Uid, os.Geteuid())
	}
	return nil
}

// checkAncestors refuses a directory, of an absolute path without links, that others can put another in the place of: all above it
// have to be this user's or root's, and nobody else's to write to, but for those such as /tmp
// in which nobody renames what is another's.
func checkAncestors(dir string) error {
	for dir != filepath.Dir(dir) {
		dir = filepath.Dir(dir)
		info, err := os.Lstat(dir)
		if err != nil {
			return err
		}
		if stat, ok := info.Sys().(*syscall.Stat_t); ok && stat.Uid != 0 && checkOwner(dir, info) != nil {
			return checkOwner(dir, info)
		}
		if info.Mode()&othersWrite != 0 && info.Mode()&fs.ModeSticky == 0 {
			return fmt.Errorf("%s can be written to by others (mode %#o), who could have this process run any code: chmod go-w %s, or use another directory", dir, info.Mode().Perm(), dir)
		}
	}
	return nil
}
