package process

import (
	"context"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wasmnode/wasmnode/workload"
)

// MinMemory is the least memory that an isolated process may have.
const MinMemory = minMemory

// IsolatorPID is the process that isolates others; 0: there is none.
func (r *Runtime) IsolatorPID() int {
	i := &r.spawner.isolator
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.socket == nil {
		return 0
	}
	return i.pid
}

// Forked is an isolated process that has not been told to execute its command.
type Forked struct {
	PID        int
	GoOn       func() error // has it execute its command
	GiveUp     func()
	EndUnknown func() // ends it as one whose number was not told
}

// ForkIsolated has a process isolated, in a cgroup of its own.
func (r *Runtime) ForkIsolated(ctx context.Context, spec *workload.Spec) (*Forked, error) {
	credential, err := credentialOf(spec.Process.User)
	if err != nil {
		return nil, err
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	group, err := r.cgroup.child("forked-" + spec.ID)
	if err != nil {
		return nil, err
	}
	c := &command{isolated: describe(spec, credential, environment(spec)), stdin: null.Fd(), stdout: null.Fd(), stderr: null.Fd()}
	if c.cgroup, err = os.Open(string(group)); err != nil {
		return nil, err
	}
	defer c.cgroup.Close()
	a, err := r.spawner.isolator.ask(ctx, c)
	if err != nil {
		return nil, err
	}
	started, err := a.child()
	if err != nil {
		return nil, err
	}
	end := func() { endUnknown(group); a.handshake.close() }
	return &Forked{started.pid, started.executed, a.handshake.close, end}, unix.Close(started.pidfd)
}

// StartKilled starts what was killed before.
func (r *Runtime) StartKilled(ctx context.Context, spec *workload.Spec) error {
	p := newProcess(spec, r.logger)
	p.Kill()
	return r.launch(ctx, p)
}

// KeepOthersOut has no runtime of another process tidy up among those whose names begin
// with this one and a slash, until it is let go of.
func KeepOthersOut(name string) (letGo func() error, err error) {
	dir, lock, err := openCgroup(name)
	return func() error { return errors.Join(dir.remove(), lock.Close()) }, err
}

// WaitForOutput has those that hold a process's output be waited for that long, until it is
// undone.
func WaitForOutput(testTimeout time.Duration) (undo func()) {
	before := drainTimeout
	drainTimeout = testTimeout
	return func() { drainTimeout = before }
}

// ReadLate returns what is read of a text that is in a pipe when the time for reading it is
// over before anybody does; whoever wrote it still has the pipe.
func ReadLate(text string) (string, error) {
	d, theirs, err := newDrain()
	if err != nil {
		return "", err
	}
	defer d.close()
	defer theirs.Close()
	if _, err := io.WriteString(theirs, text); err != nil {
		return "", err
	}
	d.endAfter(0)
	var read strings.Builder
	d.copyTo(&read)
	return read.String(), nil
}

// HasCgroup reports whether processes run in cgroups.
func (r *Runtime) HasCgroup() bool { return r.cgroup != "" }

// WithoutCgroup makes the runtime one of a machine that has no cgroup for it.
func (r *Runtime) WithoutCgroup() error {
	err := errors.Join(r.cgroup.remove(), r.lock.Close())
	r.cgroup = ""
	return err
}

// CgroupExists reports whether the runtime's cgroup is there.
func (r *Runtime) CgroupExists() bool {
	_, err := os.Stat(string(r.cgroup))
	return err == nil
}

// Unlock makes the runtime's cgroup one that a killed supervisor left.
func (r *Runtime) Unlock() error { return r.lock.Close() }

// Limits returns the cgroups in which isolated processes have theirs.
func (r *Runtime) Limits() (dirs []string) {
	for _, dir := range append(slices.Collect(maps.Values(r.limiter.v1)), string(r.cgroup)) {
		if _, err := os.Stat(dir); err == nil {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// Groups returns the cgroups of processes that are there.
func (r *Runtime) Groups() (groups []string) {
	parents := []string{string(r.cgroup)}
	for _, dir := range r.limiter.v1 {
		parents = append(parents, dir)
	}
	for _, parent := range parents {
		entries, _ := os.ReadDir(parent) // what is not there has none
		for _, e := range entries {
			if e.IsDir() {
				groups = append(groups, filepath.Join(parent, e.Name()))
			}
		}
	}
	return groups
}
