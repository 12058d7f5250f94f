package config

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAHostVolumeIsADirectoryThatIsThere(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for path, fault := range map[string]string{
		"srv/data":                 `client.host_volume "data": path: "srv/data" is not absolute`,
		filepath.Join(dir, "none"): "no such file or directory: make the directory, or leave the volume out",
		file:                       "is no directory",
	} {
		c := Default()
		c.Client.HostVolumes = map[string]HostVolume{"data": {Path: path}}
		require.ErrorContains(t, c.Validate(), fault)
	}
	c := Default()
	c.Client.HostVolumes = map[string]HostVolume{"a b": {Path: dir}}
	require.ErrorContains(t, c.Validate(), `host_volume "a b": a volume's name is`)
	c.Client.HostVolumes = map[string]HostVolume{"data": {Path: dir}}
	require.NoError(t, c.Validate())
}
