package agent

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Where the disk is fuller than a node's may be, a job that was tried has its output still.
func TestADevAgentKeepsWhatHasEndedOnAFullDisk(t *testing.T) {
	file := filepath.Join(t.TempDir(), "node.hcl")
	require.NoError(t, os.WriteFile(file, []byte("client {\n gc_disk_usage_threshold = 50\n}"), 0o600))
	for _, tt := range []struct {
		options      Options
		disk, inodes float64
	}{
		{Options{Dev: true}, 99, 99},
		{Options{Dev: true, ConfigPaths: []string{file}}, 50, 99},
		{Options{DataDir: t.TempDir()}, 80, 70},
	} {
		cfg, _, cleanup, err := configure(tt.options)
		require.NoError(t, err)
		cleanup()
		require.InDelta(t, tt.disk, cfg.Client.GCDiskUsage, 0)
		require.InDelta(t, tt.inodes, cfg.Client.GCInodeUsage, 0)
	}
}
