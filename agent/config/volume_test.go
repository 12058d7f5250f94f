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

func TestTheDirectoriesOfDynamicVolumesAreNamedInFull(t *testing.T) {
	for fault, client := range map[string]Client{
		`client.host_volumes_dir: "v" is not absolute`:                              {HostVolumesDir: "v"},
		`client.host_volumes_dir: "//" is the whole machine: name a directory`:      {HostVolumesDir: "//"},
		`client.host_volume_plugin_dir: "p" is not absolute`:                        {HostVolumePluginDir: "p"},
		`client.host_volume_plugin_dir: "/" is the whole machine: name a directory`: {HostVolumePluginDir: "/"},
	} {
		c := Default()
		c.Client.HostVolumesDir, c.Client.HostVolumePluginDir = client.HostVolumesDir, client.HostVolumePluginDir
		require.ErrorContains(t, c.Validate(), fault)
	}
	c := Default()
	c.Client.HostVolumesDir, c.Client.HostVolumePluginDir = "/v", "/p" // made when they are needed
	require.NoError(t, c.Validate())
}
