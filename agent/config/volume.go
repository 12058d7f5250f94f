package config

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

// HostVolume is a directory of the machine that jobs may mount by its name.
type HostVolume struct {
	Path     string `key:"path"`
	ReadOnly bool   `key:"read_only"`
}

// volumeFaults returns what is wrong with host volumes. One that is missing is a fault, as with
// Nomad: a task that ran without its data would begin anew.
func (c Client) volumeFaults() (faults []error) {
	for _, dir := range []struct{ key, path string }{{"host_volumes_dir", c.HostVolumesDir}, {"host_volume_plugin_dir", c.HostVolumePluginDir}} {
		switch {
		case dir.path != "" && !filepath.IsAbs(dir.path):
			faults = append(faults, fmt.Errorf("%s: %q is not absolute", dir.key, dir.path))
		case dir.path != "" && filepath.Clean(dir.path) == "/":
			faults = append(faults, fmt.Errorf("%s: %q is the whole machine: name a directory", dir.key, dir.path))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.HostVolumes)) {
		v := c.HostVolumes[name]
		fault := func(format string, args ...any) {
			faults = append(faults, fmt.Errorf("host_volume %q: "+format, append([]any{name}, args...)...))
		}
		if !validName.MatchString(name) {
			fault("a volume's name is a letter, then letters, digits, '_' or '-', at most 64 in all")
		}
		if !filepath.IsAbs(v.Path) {
			fault("path: %q is not absolute", v.Path)
			continue
		}
		switch info, err := os.Stat(v.Path); {
		case err != nil:
			fault("path: %w: make the directory, or leave the volume out", err)
		case !info.IsDir():
			fault("path: %s is no directory", v.Path)
		}
	}
	return faults
}
