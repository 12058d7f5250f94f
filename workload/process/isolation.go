package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"github.com/hashicorp/go-hclog"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/workload"
	"github.com/wasmnode/wasmnode/workload/process/isolate"
)

// FullIsolation returns why this machine, or this program on it, cannot run processes
// with [workload.IsolationFull]. It tries once, in a few milliseconds, and may be called
// concurrently.
func FullIsolation() error { return isolationOnce() }

// CheckIsolation is [workload.Runtime.CheckIsolation] for processes of this program.
func CheckIsolation(isolation workload.Isolation) error {
	switch isolation {
	case workload.IsolationNone:
		return nil
	case workload.IsolationFull:
		return FullIsolation()
	case workload.IsolationPaths:
		return isolate.PathsMissing()
	}
	return fmt.Errorf("unknown isolation %q", isolation)
}

var isolationOnce = sync.OnceValue(tryIsolation)

func tryIsolation() error {
	if os.Geteuid() != 0 {
		return fmt.Errorf("only root can isolate processes, and this is user %d", os.Geteuid())
	}
	if err := tryLimits(); err != nil {
		return fmt.Errorf("cgroups: %w", err)
	}
	return tryNamespaces()
}

// tryLimits makes cgroups and removes them.
func tryLimits() error {
	name := fmt.Sprintf("probe-%d", os.Getpid())
	l, err := openLimiter(name)
	if err != nil {
		return err
	}
	group, lock, err := openCgroup(name)
	if err != nil && l.v1 == nil {
		return err
	}
	defer lock.Close()
	made, err := l.limit("1", group, &workload.Spec{MemoryMaxBytes: 64 << 20, Process: &workload.Process{Isolated: &workload.Isolated{CPUShares: 100}}})
	if err == nil {
		err = made.remove()
	}
	err = errors.Join(err, l.remove())
	if group != "" {
		err = errors.Join(err, group.remove())
	}
	return err
}

// tryNamespaces has a process isolated that then does nothing.
func tryNamespaces() error {
	s, err := newSpawner(nil)
	if err != nil {
		return err
	}
	defer s.close()
	root, err := os.MkdirTemp("", "wasmnode-probe-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(root) }() // it holds empty directories
	p := newProcess(&workload.Spec{}, hclog.NewNullLogger())
	defer p.release()
	err = p.startIsolated(context.Background(), &isolate.Spec{Root: root, User: isolate.User{UID: 65534, GID: 65534}}, s, "")
	if err == nil {
		reap(p.child.pid)
	}
	return err
}

// minMemory is less than any program needs, and enough for what comes before it.
const minMemory = 4 << 20

// checkIsolated refuses what never starts.
func checkIsolated(spec *workload.Spec) error {
	p := spec.Process
	if err := FullIsolation(); err != nil {
		return abi.NewError(abi.Unimplemented, "isolation full: "+err.Error())
	}
	if p.Isolated == nil || !filepath.IsAbs(p.Isolated.Root) || p.Command == "" {
		return abi.NewError(abi.InvalidArgument, "isolation full needs a command and a root, an absolute path")
	}
	if spec.MemoryMaxBytes < minMemory {
		return abi.NewError(abi.InvalidArgument, fmt.Sprintf("memory of %d bytes: an isolated process needs %d at least", spec.MemoryMaxBytes, minMemory))
	}
	targets := map[string]bool{}
	for _, m := range p.Isolated.Mounts {
		target := filepath.Clean(m.GuestPath)
		switch {
		case !filepath.IsAbs(target) || target == "/":
			return abi.NewError(abi.InvalidArgument, fmt.Sprintf("mount of %s: %q is not an absolute path below the root", m.HostPath, m.GuestPath))
		case target == "/proc" || strings.HasPrefix(target, "/proc/"):
			return abi.NewError(abi.InvalidArgument, fmt.Sprintf("mount of %s: %q is in /proc, which is the kernel's", m.HostPath, m.GuestPath))
		case targets[target]:
			return abi.NewError(abi.InvalidArgument, fmt.Sprintf("two mounts at %s", target))
		}
		targets[target] = true
	}
	return nil
}

// target is what the forked process becomes before it executes the command; nil: it is the
// command.
func (p *process) target(c *syscall.Credential, env []string) (*isolate.Spec, error) {
	spec := p.spec.Process
	switch {
	case spec.Isolation == workload.IsolationFull:
		return describe(p.spec, c, env), nil
	case spec.Isolation == workload.IsolationNone && spec.Bounds.None() && !p.noNetwork() && len(spec.Cores) == 0:
		return nil, nil
	}
	user, err := userOf(c)
	if err != nil {
		return nil, err
	}
	s := &isolate.Spec{
		Bare: true, User: user, Limits: limitsOf(spec.Bounds), OOMScoreAdj: spec.Bounds.OOMScoreAdj,
		Command: spec.Command, Args: append([]string{spec.Command}, spec.Args...), Env: env, Dir: spec.Dir,
	}
	if spec.Paths != nil {
		s.Paths = []isolate.Path{} // without one of them it may use nothing
	}
	for _, p := range spec.Paths {
		s.Paths = append(s.Paths, isolate.Path(p))
	}
	return s, nil
}

func limitsOf(b workload.Bounds) (limits []isolate.Limit) {
	for _, l := range b.Limits {
		limits = append(limits, isolate.Limit(l))
	}
	return limits
}

// describe builds the spec of an isolated process.
func describe(spec *workload.Spec, c *syscall.Credential, env []string) *isolate.Spec {
	p := spec.Process
	s := &isolate.Spec{
		Root: p.Isolated.Root, Image: (*isolate.Mount)(p.Isolated.Image), ReadOnlyRoot: p.Isolated.ReadOnlyRoot, Command: p.Command, Search: p.Isolated.Search, Dir: p.Dir,
		Args: append([]string{p.Command}, p.Args...), Env: env,
		Owned: p.Isolated.Owned, Limits: limitsOf(p.Bounds), OOMScoreAdj: p.Bounds.OOMScoreAdj,
		AddCapabilities: isolate.Capabilities(p.Isolated.AddCapabilities), DropCapabilities: isolate.Capabilities(p.Isolated.DropCapabilities),
		User: isolate.User{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())},
	}
	if c != nil {
		s.User = isolate.User{UID: c.Uid, GID: c.Gid, Groups: c.Groups}
	}
	for _, m := range p.Isolated.Mounts {
		m.GuestPath = filepath.Clean(m.GuestPath)
		s.Mounts = append(s.Mounts, isolate.Mount(m))
	}
	for _, d := range p.Isolated.Devices {
		d.GuestPath = filepath.Clean(d.GuestPath)
		s.Devices = append(s.Devices, isolate.Device(d))
	}
	return s
}
