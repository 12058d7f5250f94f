package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/internal/openat2"
	"github.com/wasmnode/wasmnode/workload"
	"github.com/wasmnode/wasmnode/workload/process/isolate"
)

// shimCommand returns what starts in a process's namespaces, and what that is to execute
// there.
func (o *origin) shimCommand(spec *workload.ExecSpec) (*command, *isolate.Spec, error) {
	if spec.Command == "" {
		return nil, nil, abi.NewError(abi.InvalidArgument, "no command")
	}
	program, err := shimProgram()
	if err != nil {
		return nil, nil, err
	}
	target := *o.target
	if target.CPUs, err = maskOf(o.cores); err != nil {
		return nil, nil, err
	}
	target.Command, target.Args, target.Env = spec.Command, append([]string{spec.Command}, spec.Args...), o.environment(spec)
	if strings.Contains(spec.Command, "/") && !path.IsAbs(spec.Command) {
		target.Command = path.Join(o.dir, spec.Command)
	}
	c := &command{path: program, args: []string{isolate.Program}, dir: "/", network: o.network()}
	if !target.Bare {
		c.joins = o.child.pidfd
	}
	return c, &target, nil
}

// spawnShim starts this program once more, within limits if there are some, and returns when
// it has become what target says and has executed the command. On an error it has ended.
func (e *execution) spawnShim(ctx context.Context, l *limits, c *command, target *isolate.Spec, s *spawner, group cgroup) error {
	handshake, err := newExecHandshake()
	if err != nil {
		return err
	}
	defer handshake.close()
	c.extra = append(handshake.files(), c.extra...)
	err = e.spawn(ctx, c, s, group)
	handshake.forked()
	if err != nil {
		return err
	}
	if l != nil {
		err = l.enter(e.child.pid)
	}
	if err == nil {
		err = handshake.send(target)
	}
	if err != nil {
		e.kill()
		e.await()
	}
	return err
}

// terminalMaker opens the device that makes terminals, of the workload's own kind: those
// of the node have no names in its root.
func (o *origin) terminalMaker() (*os.File, error) {
	if o.target == nil || o.target.Bare {
		return openNonblocking("/dev/ptmx")
	}
	root, err := unix.Open(fmt.Sprintf("/proc/%d/root", o.child.pid), unix.O_PATH|unix.O_CLOEXEC|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, os.NewSyscallError("the task's root", err)
	}
	defer func() { _ = unix.Close(root) }() // nothing was written to it
	// What is in the root may be the task's own work: nothing of it is followed.
	fd, err := openat2.Path(root, "dev/pts/ptmx", unix.RESOLVE_BENEATH|unix.RESOLVE_NO_SYMLINKS)
	if err != nil {
		return nil, os.NewSyscallError("the task's /dev/pts/ptmx", err)
	}
	defer func() { _ = unix.Close(fd) }() // nothing was written to it
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return nil, err
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFCHR || stat.Rdev != unix.Mkdev(ttyAuxMajor, ptmxMinor) {
		return nil, errors.New("the task's /dev/pts/ptmx was replaced")
	}
	return openNonblocking(fmt.Sprintf("/proc/self/fd/%d", fd))
}

// The device numbers of /dev/ptmx.
const (
	ttyAuxMajor = 5
	ptmxMinor   = 2
)
