package host

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/internal/grantsyntax"
	"github.com/wasmnode/wasmnode/internal/plaintext"
	"github.com/wasmnode/wasmnode/sandbox"
	"github.com/wasmnode/wasmnode/workload"
)

// processFuncs is wasmnode:process/v1: processes of the operating system as workloads.
var processFuncs = map[string]sandbox.HostFunc{
	abi.FuncProcessStart:   structured(processStart),
	abi.FuncProcessSupport: structured(processSupport),
	abi.FuncProcessRun:     structured(processRun),
}

// processSupport reports what this node can do, whatever was granted.
func processSupport(_ context.Context, c *call, _ []byte) (Message, error) {
	if c.plugin.pool.settings() == nil {
		return nil, abi.NewError(abi.PermissionDenied, "asking for what the node can do: not before the plugin is configured")
	}
	s := &wasmnodev1.ProcessSupport{}
	if err := c.plugin.host.cfg.Workloads.CheckIsolation(workload.IsolationFull); err != nil {
		s.FullIsolationMissing = err.Error()
	}
	if err := c.plugin.host.cfg.Workloads.CheckIsolation(workload.IsolationPaths); err != nil {
		s.PathIsolationMissing = err.Error()
	}
	return s, nil
}

// processStart starts a process as the workload of the task that the call is about.
func processStart(ctx context.Context, c *call, request []byte) (Message, error) {
	r := &wasmnodev1.ProcessStartRequest{}
	if err := decode(request, r); err != nil {
		return nil, abi.NewError(abi.InvalidArgument, "not a ProcessStartRequest message")
	}
	s := c.plugin.pool.settings()
	switch {
	case s == nil:
		return nil, abi.NewError(abi.PermissionDenied, "starting processes: not before the plugin is configured")
	case c.scope == nil || c.op != abi.OpDriverStartTask && c.op != abi.OpDriverRecoverTask:
		return nil, abi.NewError(abi.FailedPrecondition, fmt.Sprintf("a process can be started in %s, not in %s", abi.OpDriverStartTask, c.op))
	}
	if err := c.countStart(); err != nil {
		return nil, err
	}
	p, err := c.plugin.host.describe(r, c.scope.Config, s.grants.Process)
	if err != nil {
		return nil, err
	}
	if err := checkProcess(p, c.plugin.Name(), s.grants.Process); err != nil {
		return nil, err
	}
	if err := checkVariables(p, r.Env, c.plugin.Name(), s.grants.Process); err != nil {
		return nil, err
	}
	if err := restrict(p, c.scope.Config.GetDirectories(), c.plugin.Name(), s.grants.Process); err != nil {
		return nil, err
	}
	if err := setCapabilities(p, r, c.plugin.Name(), s.grants.Process); err != nil {
		return nil, err
	}
	if err := c.plugin.host.setRoot(p, r, rootMaker{c.plugin.Name(), s.grants.Process, c.scope.Config}); err != nil {
		return nil, err
	}
	if p.Bounds, err = boundsOf(r); err != nil {
		return nil, err
	}
	if p.Stdin, err = inputOf(r.Stdin, c.scope.Config.GetDirectories().GetTask()); err != nil {
		return nil, err
	}
	spec := taskSpec(c.scope.Config, r.Env)
	if err := standBeside(spec, r.Name); err != nil {
		return nil, err
	}
	if p.Cores, err = coresOf(r.Cpuset, c.scope.Config.GetResources()); err != nil {
		return nil, err
	}
	release, err := c.plugin.setNetwork(p, r, c.scope.Config.GetNetwork().GetNamespace(), s.grants.Process)
	if err != nil {
		return nil, err
	}
	defer release()
	spec.Process = p
	defer sandbox.Pause(ctx)()
	err = c.plugin.host.cfg.Workloads.Start(ctx, spec)
	c.scope.started(spec, err)
	if err != nil {
		return nil, err
	}
	return &wasmnodev1.ProcessStartResponse{WorkloadId: spec.ID}, nil
}

// describe makes a request's paths absolute, in what the process will see.
func (h *Host) describe(r *wasmnodev1.ProcessStartRequest, task *wasmnodev1.TaskConfig, g ProcessGrant) (*workload.Process, error) {
	switch r.Isolation {
	case wasmnodev1.ProcessIsolation_PROCESS_ISOLATION_NONE:
		return describeUnisolated(r, task.GetDirectories())
	case wasmnodev1.ProcessIsolation_PROCESS_ISOLATION_PATHS:
		return describeRestricted(r, task.GetDirectories())
	case wasmnodev1.ProcessIsolation_PROCESS_ISOLATION_FULL:
		return h.describeIsolated(r, task, g)
	}
	return nil, abi.NewError(abi.InvalidArgument, fmt.Sprintf("unknown isolation %d", r.Isolation))
}

// describeUnisolated makes the paths those of the node.
func describeUnisolated(r *wasmnodev1.ProcessStartRequest, dirs *wasmnodev1.TaskDirectories) (*workload.Process, error) {
	command, err := findCommand(r.Command, dirs)
	if err != nil {
		return nil, err
	}
	dir, err := inTask(r.Dir, dirs.GetTask())
	if err != nil {
		return nil, err
	}
	return &workload.Process{Command: command, Args: r.Args, Dir: dir, User: r.User, Isolation: workload.IsolationNone}, nil
}

// findCommand returns the path of a command. A bare name is one of the task's own
// programs, or one on the node's PATH.
func findCommand(name string, dirs *wasmnodev1.TaskDirectories) (string, error) {
	if name == "" || strings.ContainsRune(name, 0) {
		return "", abi.NewError(abi.InvalidArgument, fmt.Sprintf("%q is not a command", plaintext.Line(name, 256)))
	}
	if strings.ContainsRune(name, '/') {
		return inTask(name, dirs.GetTask())
	}
	for _, dir := range []string{dirs.GetLocal(), dirs.GetTask()} {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); dir != "" && err == nil && info.Mode().IsRegular() {
			return path, nil
		}
	}
	path, err := exec.LookPath(name)
	if err != nil || !filepath.IsAbs(path) {
		return "", abi.NewError(abi.NotFound, fmt.Sprintf("command %s is neither in the task's directory nor on the node's PATH", plaintext.Line(name, 256)))
	}
	return filepath.Clean(path), nil
}

// inTask returns an absolute path as it is, and a relative one below the task's
// directory.
func inTask(path, task string) (string, error) {
	switch {
	case filepath.IsAbs(path):
		return filepath.Clean(path), nil
	case path != "" && !filepath.IsLocal(path):
		return "", abi.NewError(abi.PermissionDenied, fmt.Sprintf("path %s leads out of the task's directory", plaintext.Line(path, 256)))
	case task == "":
		return "", abi.NewError(abi.FailedPrecondition, "the task has no directory")
	}
	return filepath.Join(task, path), nil
}

// inputOf is the file below the task's directory that is a process's standard input; nil for no
// path.
func inputOf(path, task string) (*workload.Mount, error) {
	if path == "" {
		return nil, nil
	}
	file, err := inTask(path, task)
	if err != nil {
		return nil, err
	}
	if rest, err := filepath.Rel(task, file); err != nil || !filepath.IsLocal(rest) {
		return nil, abi.NewError(abi.PermissionDenied, fmt.Sprintf("standard input %s is not in the task's directory", plaintext.Line(path, 256)))
	}
	return &workload.Mount{HostPath: file, Within: task, ReadOnly: true}, nil
}

// checkProcess refuses what was not granted, and names the missing grant.
func checkProcess(p *workload.Process, plugin string, g ProcessGrant) error {
	denied := func(what, setting string) error {
		return notGranted(what, processFix(plugin, setting))
	}
	user := cmp.Or(p.User, ownUser())
	switch {
	case !g.command(p.Command):
		return denied("command "+plaintext.Line(p.Command, 256), fmt.Sprintf("commands = [%q]", plaintext.Line(p.Command, 256)))
	case !g.user(user):
		return denied("user "+plaintext.Line(user, 64), fmt.Sprintf("users = [%q]", plaintext.Line(user, 64)))
	case !g.isolation(p.Isolation):
		return denied(fmt.Sprintf("isolation %s", p.Isolation), fmt.Sprintf("isolation = %q", p.Isolation))
	}
	return nil
}

// checkVariables refuses a program that is not isolated those variables by which the dynamic
// loader runs other code in it, unless any code may be run. The task's directory has what the
// job and the plugin put there; what the node itself has set loads what is the node's.
func checkVariables(p *workload.Process, env map[string]string, plugin string, g ProcessGrant) error {
	if p.Isolation == workload.IsolationFull || slices.Contains(g.Commands, grantsyntax.Any) {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(env)) {
		if loadsCode(name) && os.Getenv(name) != env[name] {
			return notGranted("variable "+plaintext.Line(name, 64)+", by which "+plaintext.Line(p.Command, 256)+" runs other code,", processFix(plugin, `commands = ["*"]`))
		}
	}
	return nil
}

// loadsCode reports whether the C library reads a variable to find code.
func loadsCode(name string) bool { return strings.HasPrefix(name, "LD_") || name == "GCONV_PATH" }
