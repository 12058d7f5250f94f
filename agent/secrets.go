package agent

import (
	"os"
	"path/filepath"

	"github.com/wasmnode/wasmnode/runners/allocdir"
)

// allocsDir is where the directories of allocations are, in a data directory.
func allocsDir(dataDir string) string { return filepath.Join(dataDir, "alloc") }

// secretsInMemory reports whether tasks have their secrets directories in memory, and tells why not.
func (a *agent) secretsInMemory() bool {
	dir := allocsDir(a.cfg.DataDir)
	if err := os.MkdirAll(dir, 0o711); err != nil {
		return false // whoever makes the first allocation says so
	}
	why, can := allocdir.SecretsInMemory(dir)
	if !can {
		a.logger.Info("tasks' secrets directories are on the disk, for their owners alone: they are in memory where the agent is root and mounts as the machine does", "reason", why)
	}
	return can
}
