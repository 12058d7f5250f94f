package process

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/workload"
)

// origin is what commands in a workload have from its own process.
type origin struct {
	isolation  workload.Isolation
	env        []string
	dir        string
	credential *syscall.Credential
	group      cgroup // empty: there is none
	execs      *execs
}

// openExecs lets commands run in the process, which has become what it was started for.
func (p *process) openExecs(spec *workload.Spec, credential *syscall.Credential, group cgroup) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.origin = &origin{
		isolation: spec.Process.Isolation, env: environment(spec.Env), dir: spec.Process.Dir,
		credential: credential, group: group, execs: newExecs(),
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

// command returns what to start for a spec.
func (o *origin) command(spec *workload.ExecSpec) (*command, error) {
	if o.isolation == workload.IsolationFull {
		return nil, abi.NewError(abi.Unimplemented, "no command can be run in an isolated process yet")
	}
	path, err := o.find(spec.Command)
	if err != nil {
		return nil, err
	}
	env := o.env
	if spec.TTY && variable(env, "TERM") == "" {
		env = append(slices.Clip(env), "TERM=xterm")
	}
	return &command{path: path, args: append([]string{spec.Command}, spec.Args...), env: env, dir: o.dir, credential: o.credential}, nil
}

// defaultSearch is the PATH of workloads that have none.
const defaultSearch = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

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
	search := variable(o.env, "PATH")
	if search == "" {
		search = defaultSearch
	}
	for _, dir := range filepath.SplitList(search) {
		if !filepath.IsAbs(dir) {
			continue
		}
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path, nil
		}
	}
	return "", abi.NewError(abi.NotFound, fmt.Sprintf("command %s: there is none on the task's PATH, %s", name, search))
}

// variable returns a variable's value in an environment; empty: it is not there.
func variable(env []string, name string) string {
	for _, v := range env {
		if value, ok := strings.CutPrefix(v, name+"="); ok {
			return value
		}
	}
	return ""
}
