package host

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/internal/grantsyntax"
	"github.com/wasmnode/wasmnode/internal/plaintext"
	"github.com/wasmnode/wasmnode/workload"
)

// Where isolated tasks see their directories.
const (
	sharedInRoot  = "/alloc"
	localInRoot   = "/local"
	secretsInRoot = "/secrets"
	tmpInRoot     = "/tmp"
)

// describeIsolated makes a request's paths those of the process's root, which is the
// task's directory.
func (h *Host) describeIsolated(r *wasmnodev1.ProcessStartRequest, task *wasmnodev1.TaskConfig, g ProcessGrant) (*workload.Process, error) {
	dirs := task.GetDirectories()
	if dirs.GetTask() == "" {
		return nil, abi.NewError(abi.FailedPrecondition, "the task has no directory")
	}
	command, err := findIsolated(r.Command, dirs, g)
	if err != nil {
		return nil, err
	}
	dir, err := inRoot(cmp.Or(r.Dir, "/"))
	if err != nil {
		return nil, err
	}
	resources := task.GetResources()
	p := &workload.Process{Command: command, Args: r.Args, Dir: dir, User: r.User, Isolation: workload.IsolationFull, Isolated: &workload.Isolated{
		Root:                dirs.Task,
		Mounts:              h.rootMounts(task),
		Search:              []string{localInRoot, "/"},
		Owned:               []string{"/"},
		CPUShares:           resources.GetCpuMhz(),
		MemoryReservedBytes: resources.GetMemoryBytes(),
	}}
	if dirs.Secrets != "" {
		p.Isolated.Owned = append(p.Isolated.Owned, secretsInRoot)
	}
	for _, d := range task.Devices {
		p.Isolated.Devices = append(p.Isolated.Devices, deviceOf(d))
	}
	return p, nil
}

// findIsolated returns a command as a path of the root, where that can be determined. Bare
// names that are looked up in the root may turn out to be any program in it, so those
// are for plugins that may start any; for others they are the programs that they would
// be on the node.
func findIsolated(name string, dirs *wasmnodev1.TaskDirectories, g ProcessGrant) (string, error) {
	bare := name != "" && !strings.ContainsAny(name, "/\x00")
	if bare && slices.Contains(g.Commands, grantsyntax.Any) {
		return name, nil
	}
	if !bare {
		return inRoot(name)
	}
	found, err := findCommand(name, dirs)
	if err != nil {
		return "", err
	}
	if rest, ok := strings.CutPrefix(found, dirs.Task+"/"); ok {
		return "/" + rest, nil
	}
	return found, nil
}

// inRoot returns a path as an absolute one in a root. Nothing leads out of that.
func inRoot(name string) (string, error) {
	if name == "" || strings.ContainsRune(name, 0) {
		return "", abi.NewError(abi.InvalidArgument, fmt.Sprintf("%q is not a path", plaintext.Line(name, 256)))
	}
	return path.Join("/", name), nil
}
