package host

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/internal/plaintext"
	"github.com/wasmnode/wasmnode/workload"
)

// maxPaths bounds the paths that a driver asks for: the rest are the task's and devices.
const maxPaths = 128

// harmlessDevices are what every process with few paths may use.
var harmlessDevices = []string{"/dev/full", "/dev/null", "/dev/pts", "/dev/random", "/dev/tty", "/dev/urandom", "/dev/zero"}

// describeRestricted makes the paths those of the node, of which the process has its task's
// directories and what it asks for.
func describeRestricted(r *wasmnodev1.ProcessStartRequest, dirs *wasmnodev1.TaskDirectories) (*workload.Process, error) {
	p, err := describeUnisolated(r, dirs)
	if err != nil {
		return nil, err
	}
	p.Isolation = workload.IsolationPaths
	if len(r.Paths) > maxPaths {
		return nil, abi.NewError(abi.InvalidArgument, fmt.Sprintf("more than %d paths", maxPaths))
	}
	for _, asked := range r.Paths {
		path := asked.GetPath()
		if !filepath.IsAbs(path) || strings.ContainsRune(path, 0) {
			return nil, abi.NewError(abi.InvalidArgument, fmt.Sprintf("path %q is not absolute", plaintext.Line(path, 256)))
		}
		p.Paths = append(p.Paths, workload.Path{Path: filepath.Clean(path), Rights: plaintext.Line(asked.GetRights(), 8)})
	}
	return p, nil
}

// ownPaths are what a process with few paths may use of its task's, and of all.
func ownPaths(dirs *wasmnodev1.TaskDirectories) (own []workload.Path) {
	for _, dir := range []string{dirs.GetTask(), dirs.GetShared()} {
		if dir != "" {
			own = append(own, workload.Path{Path: dir, Rights: workload.PathRights})
		}
	}
	for _, device := range harmlessDevices {
		own = append(own, workload.Path{Path: device, Rights: "rw"})
	}
	return own
}

// restrict refuses paths that were not granted, and adds those that need no grant.
func restrict(p *workload.Process, dirs *wasmnodev1.TaskDirectories, plugin string, g ProcessGrant) error {
	if p.Isolation != workload.IsolationPaths {
		return nil
	}
	for i, asked := range p.Paths {
		base, ok := g.path(asked)
		p.Paths[i].Within = base
		if !ok {
			what := plaintext.Line(asked.Rights+":"+asked.Path, 256)
			return notGranted("path "+what, processFix(plugin, fmt.Sprintf("paths = [%q]", what)))
		}
	}
	p.Paths = append(p.Paths, ownPaths(dirs)...)
	return nil
}
