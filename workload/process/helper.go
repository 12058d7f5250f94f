package process

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/workload"
	"github.com/wasmnode/wasmnode/workload/process/isolate"
)

// Run implements [workload.Runtime].
func (r *Runtime) Run(ctx context.Context, helper *workload.Helper) (*structs.ExitResult, error) {
	exit, err := r.run(ctx, helper)
	if err != nil {
		return nil, fmt.Errorf("helper %s: %w", helper.Command, err)
	}
	return exit, nil
}

func (r *Runtime) run(ctx context.Context, helper *workload.Helper) (*structs.ExitResult, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	target, err := describeHelper(helper)
	if err != nil {
		return nil, err
	}
	streams := &workload.ExecSpec{Stdin: helper.Stdin, Stdout: helper.Stdout, Stderr: helper.Stderr}
	e := &execution{logger: r.logger.With("helper", helper.Command), spec: streams}
	group, err := r.boundHelper(e, helper, target)
	if err != nil {
		return nil, err
	}
	defer context.AfterFunc(ctx, e.kill)()
	if e.streams, err = openExecStreams(streams, nil); err != nil {
		return nil, errors.Join(err, e.free(group))
	}
	defer e.streams.close()
	if err := e.startHelper(ctx, target, r.spawner, group); err != nil {
		if ctx.Err() != nil {
			err = ctx.Err() // why it did not
		}
		return nil, errors.Join(err, e.free(group))
	}
	copied := e.streams.copy(streams, e.kill)
	exit := e.await()
	if err := copied(); err != nil && ctx.Err() == nil {
		return nil, fmt.Errorf("its output: %w", err)
	}
	return exit, ctx.Err()
}

// describeHelper returns what the forked process becomes.
func describeHelper(h *workload.Helper) (*isolate.Spec, error) {
	switch {
	case !filepath.IsAbs(h.Command):
		return nil, abi.NewError(abi.InvalidArgument, fmt.Sprintf("command %q is not an absolute path", h.Command))
	case h.MemoryMaxBytes < minMemory:
		return nil, abi.NewError(abi.InvalidArgument, fmt.Sprintf("memory of %d bytes: %d are needed at least", h.MemoryMaxBytes, minMemory))
	}
	credential, err := credentialOf(h.User)
	if err != nil {
		return nil, err
	}
	user, err := userOf(credential)
	if err != nil {
		return nil, err
	}
	vars := userVariables(h.User)
	maps.Copy(vars, h.Env)
	s := &isolate.Spec{Bare: true, Command: h.Command, Args: append([]string{h.Command}, h.Args...), Dir: "/", User: user}
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		s.Env = append(s.Env, name+"="+vars[name])
	}
	return s, nil
}

// userOf is whom a process becomes; nil: this one's user.
func userOf(c *syscall.Credential) (isolate.User, error) {
	if c != nil {
		return isolate.User{UID: c.Uid, GID: c.Gid, Groups: c.Groups}, nil
	}
	groups, err := os.Getgroups()
	if err != nil {
		return isolate.User{}, err
	}
	own := isolate.User{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())}
	for _, g := range groups {
		own.Groups = append(own.Groups, uint32(g))
	}
	return own, nil
}

// shimProgram is this program, to be started as [isolate.Program].
func shimProgram() (string, error) {
	if os.Geteuid() != 0 {
		return "/proc/self/exe", nil
	}
	return isolate.Executable()
}

// boundHelper gives a helper its cgroups; where this process may make none, its data is
// bounded.
func (r *Runtime) boundHelper(e *execution, h *workload.Helper, target *isolate.Spec) (group cgroup, err error) {
	name := "helper-" + strconv.FormatUint(r.count.Add(1), 10)
	if r.cgroup != "" {
		if group, err = r.cgroup.child(name); err != nil {
			return "", noCgroup(err)
		}
	}
	if r.limiter == nil || r.limiter.v1 == nil && group == "" {
		target.DataMaxBytes = h.MemoryMaxBytes
		return group, nil
	}
	bounds := &workload.Spec{MemoryMaxBytes: h.MemoryMaxBytes, Process: &workload.Process{Isolated: &workload.Isolated{}}}
	if e.limits, err = r.limiter.limit(name, group, bounds); err != nil {
		return "", errors.Join(noCgroup(err), e.free(group))
	}
	return group, nil
}

// startHelper starts it in a tree of its own; on an error nothing of it runs.
func (e *execution) startHelper(ctx context.Context, target *isolate.Spec, s *spawner, group cgroup) error {
	program, err := shimProgram()
	if err != nil {
		return err
	}
	c := &command{
		path: program, args: []string{isolate.Program}, dir: "/",
		stdin: e.streams.theirs[0].Fd(), stdout: e.streams.theirs[1].Fd(), stderr: e.streams.theirs[2].Fd(),
	}
	defer e.streams.closeTheirs()
	if group != "" {
		var err error
		if c.cgroup, err = os.Open(string(group)); err != nil {
			return noFiles(err)
		}
		defer c.cgroup.Close()
	}
	return e.spawnShim(ctx, e.limits, c, target, s, group)
}

// free removes the cgroups of a helper that does not run.
func (e *execution) free(group cgroup) (err error) {
	if e.limits != nil {
		err = e.limits.remove()
	}
	if group != "" {
		err = errors.Join(err, group.remove())
	}
	return err
}
