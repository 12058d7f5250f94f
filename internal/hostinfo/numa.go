package hostinfo

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// MemoryNode is a NUMA node: some cores, and the memory that is near to them.
type MemoryNode struct {
	ID    int
	Cores string // as Linux lists them, such as "0-3,8"
}

// ReadMemoryNodes reads the machine's NUMA nodes, by ID; none where the kernel knows of none.
func ReadMemoryNodes() []MemoryNode { return readMemoryNodes("/sys/devices/system/node") }

func readMemoryNodes(dir string) (nodes []MemoryNode) {
	lists, err := filepath.Glob(filepath.Join(dir, "node[0-9]*", "cpulist"))
	if err != nil {
		return nil // the pattern is good
	}
	for _, list := range lists {
		id, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(filepath.Dir(list)), "node"))
		if err != nil {
			continue
		}
		if cores, err := os.ReadFile(list); err == nil {
			nodes = append(nodes, MemoryNode{ID: id, Cores: strings.TrimSpace(string(cores))})
		}
	}
	slices.SortFunc(nodes, func(a, b MemoryNode) int { return a.ID - b.ID })
	return nodes
}

// CgroupVersion is the version of the cgroups that the machine is set up with, "1" or "2", as
// Nomad's clients tell it: with both, 1. Empty: there are none.
func CgroupVersion() string { return cgroupVersion("/sys/fs/cgroup") }

func cgroupVersion(dir string) string {
	var fs unix.Statfs_t
	if unix.Statfs(dir, &fs) != nil {
		return ""
	}
	switch fs.Type {
	case unix.CGROUP2_SUPER_MAGIC:
		return "2"
	case unix.TMPFS_MAGIC:
		return "1"
	}
	return ""
}
