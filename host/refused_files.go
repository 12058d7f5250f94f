package host

import (
	"fmt"
	"path"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/internal/plaintext"
	"github.com/wasmnode/wasmnode/sandbox/rootfs"
)

// refusedFiles are all that a plugin is not granted, as an instance of it sees them. What it asks
// for there is listed in [Stats.NotGranted], and told with the error of the call.
func (p *Plugin) refusedFiles(inst *instance) *rootfs.Refused {
	return rootfs.NewRefused(func(r rootfs.Refusal) {
		r.Path = inst.shown(r.Path, false)
		err := fileNotGranted(p.Name(), r)
		p.counters.answered(abi.PermissionDenied, err)
		if inst.refused == "" {
			inst.refused = err.Error()
		}
	})
}

// fileNotGranted refuses a file. The grant is of a directory: nothing of the host is looked at to
// find out what the path is.
func fileNotGranted(plugin string, r rootfs.Refusal) error {
	key, dir := "read_only", r.Path
	if r.Write {
		key = "read_write"
	}
	if !r.Dir {
		dir = path.Dir(r.Path)
	}
	const shown = 256 // bytes: the guest chooses the path
	return notGranted("file "+plaintext.Line(r.Path, shown), fmt.Sprintf("plugin %q { grant { fs { %s = [%q] } } }", plugin, key, plaintext.Line(dir, shown)))
}
