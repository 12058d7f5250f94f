package hostinfo

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMemoryNodesAreReadInOrder(t *testing.T) {
	dir := t.TempDir()
	for name, cores := range map[string]string{"node0": "0-1,4\n", "node10": "8\n", "node2": "2-3\n", "nodes": "x"} {
		require.NoError(t, os.Mkdir(filepath.Join(dir, name), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name, "cpulist"), []byte(cores), 0o600))
	}
	require.NoError(t, os.Mkdir(filepath.Join(dir, "node3"), 0o700))
	require.Equal(t, []MemoryNode{{0, "0-1,4"}, {2, "2-3"}, {10, "8"}}, readMemoryNodes(dir))
	require.Empty(t, readMemoryNodes(filepath.Join(dir, "none")))
}

func TestADirectoryWithoutCgroupsHasNoVersionOfThem(t *testing.T) {
	require.Empty(t, cgroupVersion("/proc"))
	require.Empty(t, cgroupVersion("/none"))
	require.Contains(t, []string{"", "1", "2"}, CgroupVersion())
}
