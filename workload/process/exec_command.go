package process

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/workload"
	"github.com/wasmnode/wasmnode/workload/process/isolate"
	"github.com/wasmnode/wasmnode/workload/process/program"
)

// origin is what commands in a workload have from its own process.
type origin struct {
	child      child         // open while a command has a place
	target     *isolate.Spec // what commands become before they are executed, but for them; nil: nothing
	limits     *limits       // nil: it has none
	env        []string
	dir        string
	credential *syscall.Credential
	cores      []uint32
	ownNetwork bool   // and not the supervisor's
	group      cgroup // empty: there is none
	execs      *execs
}

// openExecs lets commands run in the process, which has executed its command.
func (p *process) openExecs(target *isolate.Spec, credential *syscall.Credential, env []string, group cgroup) {
	p.mu.Lock()
	defer p.mu.Unlock()
	spec := p.spec
	p.origin = &origin{
		child: p.child, limits: p.limits, env: env, dir: spec.Process.Dir,
		credential: credential, cores: spec.Process.Cores, ownNetwork: spec.Process.Network != "", group: group, execs: newExecs(),
	}
	if target != nil {
		p.origin.target = &isolate.Spec{
			Bare: target.Bare, Join: !target.Bare, Paths: target.Paths, Search: target.Search, Dir: target.Dir, User: target.User,
			Limits: target.Limits, OOMScoreAdj: target.OOMScoreAdj, AddCapabilities: target.AddCapabilities, DropCapabilities: target.DropCapabilities,
		}
	}
}

// runningOrigin returns the process's origin while it runs, else nil.
func (p *process) runningOrigin() *origin {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.tree == nil {
		return nil
	}
	return p.origin
}

// command returns what to start for a spec, and what that is to isolate and execute; nil: it is the
// command.
func (o *origin) command(spec *workload.ExecSpec) (*command, *isolate.Spec, error) {
	if o.target != nil {
		return o.shimCommand(spec)
	}
	path, err := o.find(spec.Command)
	if err != nil {
		return nil, nil, err
	}
	return &command{path: path, args: append([]string{spec.Command}, spec.Args...), env: o.environment(spec), dir: o.dir, credential: o.credential, network: o.network()}, nil, nil
}

// environment is the workload's; on a terminal, with TERM.
func (o *origin) environment(spec *workload.ExecSpec) []string {
	if spec.TTY && program.Variable(o.env, "TERM") == "" {
		return append(slices.Clip(o.env), "TERM=xterm")
	}
	return o.env
}

// find returns the absolute path of a program.
func (o *origin) find(name string) (string, error) {
	switch {
	case name == "":
		return "", abi.NewError(abi.InvalidArgument, "no command")
	case filepath.IsAbs(name):
		return name, nil
	case strings.Contains(name, "/"):
		return filepath.Join(o.dir, name), nil
	}
	search := program.SearchPath(o.env)
	if path, ok := program.Find(name, search); ok {
		return path, nil
	}
	return "", abi.NewError(abi.NotFound, fmt.Sprintf("command %s is not on the task's PATH, %s", name, strings.Join(search, ":")))
}
