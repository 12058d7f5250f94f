package isolate

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/wasmnode/wasmnode/workload/namespace"
	"github.com/wasmnode/wasmnode/workload/process/forkexec"
)

// CloneFlags are the namespaces that a process wants to have been made whose root is prepared.
const CloneFlags = unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS

// firstFD is the first file that a command does not have.
const firstFD = 3

// Prepared is a root that was built for a process, in a mount namespace without one, and what the
// process is to do to have it.
type Prepared struct {
	calls forkexec.Calls
	files []int
}

// building has a place for each root that is being built. A file system that does not answer keeps one, and
// the thread that asked it, which a process has not endlessly many of.
var building = make(chan struct{}, maxBuilding)

const maxBuilding = 256

// Prepare builds the root of a process that is neither bare nor joins another: in the node's network
// namespace, in that of a file, or in one of its own if the spec says so. The caller closes what it
// returns. It takes as long as the file systems of what is mounted, or until ctx is done.
//
// # Errors
//
// INVALID_ARGUMENT, NOT_FOUND, PERMISSION_DENIED: of a mount, a device or the command;
// RESOURCE_EXHAUSTED and FAILED_PRECONDITION: the system's; and that of ctx. Nothing of it is left,
// or will be once those file systems answer.
func Prepare(ctx context.Context, s *Spec, network *os.File) (*Prepared, error) {
	select {
	case building <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: the roots of %d processes are being built: is there a file system that does not answer?", ctx.Err(), maxBuilding)
	}
	p, networkFD := &Prepared{}, -1
	if network != nil {
		var err error
		if networkFD, err = p.keep(unix.FcntlInt(network.Fd(), unix.F_DUPFD_CLOEXEC, 0)); err != nil {
			<-building
			return nil, failed("the network namespace", err)
		}
	}
	var err error
	prepared := make(chan struct{})
	go onThread(func() {
		err = p.prepare(s, networkFD)
		<-building
		close(prepared)
	})
	select {
	case <-prepared:
		if err != nil {
			p.Close()
			return nil, err
		}
		return p, nil
	case <-ctx.Done():
		go func() {
			<-prepared
			p.Close()
		}()
		return nil, ctx.Err()
	}
}

// onThread calls do, and has the thread of this goroutine end with it, as it cannot come back to where it was before.
// The first thread of a process is what others see of the process, and never ends.
func onThread(do func()) {
	runtime.LockOSThread()
	if unix.Gettid() == unix.Getpid() {
		defer runtime.UnlockOSThread()
		done := make(chan struct{})
		go func() {
			defer close(done)
			onThread(do)
		}()
		<-done
		return
	}
	do()
}

// Close frees what was prepared. A process that was started has it all the same.
func (p *Prepared) Close() {
	for _, fd := range p.files {
		closeFD(fd)
	}
	p.files = nil
}

// Calls are what the process does, which is forked with [CloneFlags], to become what the spec says.
func (p *Prepared) Calls() *forkexec.Calls { return &p.calls }

func (p *Prepared) prepare(s *Spec, network int) error {
	supervisor, err := p.keep(unix.PidfdOpen(os.Getpid(), 0))
	if err != nil {
		return failed("this process", err)
	}
	scope, err := socketScope()
	if err != nil {
		return err
	}
	if scope >= 0 {
		p.files = append(p.files, scope)
	}
	c := &p.calls
	if err := p.adjustOOMScore(s.OOMScoreAdj); err != nil {
		return err
	}
	if err := p.newNamespaces(s, network); err != nil {
		return err
	}
	kinds := inProc()
	proc, err := p.keep(enterRoot(s))
	if err != nil {
		return err
	}
	if err := p.mountProc(proc, kinds); err != nil {
		return err
	}
	limitFiles(c)
	dropPrivileges(c, s.User, s.AddCapabilities, s.DropCapabilities)
	endWithParent(c, int32(supervisor), unix.POLLIN)
	if scope >= 0 {
		restrictSelf(c, scope)
	}
	if err := filterSyscalls(c); err != nil {
		return err
	}
	c.Add(explain("closing files"), unix.SYS_CLOSE_RANGE, firstFD, math.MaxUint32)
	if s.Command == "" {
		return nil
	}
	changeDir(c, s)
	return p.execute(s)
}

// keep has a file closed with the others.
func (p *Prepared) keep(fd int, err error) (int, error) {
	if err == nil {
		p.files = append(p.files, fd)
	}
	return fd, err
}

// newNamespaces gives this thread the namespaces that the root is built in, and has the process enter
// them.
func (p *Prepared) newNamespaces(s *Spec, network int) error {
	if s.OwnNetwork {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return failed("a network of its own", err)
		}
		if err := namespace.StartLoopback(); err != nil {
			return failed("a network of its own", err)
		}
		own, err := p.keep(unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0))
		if err != nil {
			return failed("a network of its own", err)
		}
		network = own
	} else if network >= 0 {
		if err := unix.Setns(network, unix.CLONE_NEWNET); err != nil {
			return failed("entering the network namespace", err)
		}
	}
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return failed("mounts of its own", err)
	}
	mounts, err := p.keep(unix.Open("/proc/thread-self/ns/mnt", unix.O_RDONLY|unix.O_CLOEXEC, 0))
	if err != nil {
		return failed("mounts of its own", err)
	}
	p.calls.Add(explainFailed("entering its mounts"), unix.SYS_SETNS, uintptr(mounts), unix.CLONE_NEWNS)
	if network >= 0 {
		p.calls.Add(explainFailed("entering its network"), unix.SYS_SETNS, uintptr(network), unix.CLONE_NEWNET)
	}
	return nil
}

// execute adds the command, which is looked for with the user's rights to files.
func (p *Prepared) execute(s *Spec) error {
	groups := make([]int, len(s.User.Groups))
	for i, g := range s.User.Groups {
		groups[i] = int(g)
	}
	if err := errors.Join(unix.Setgroups(groups), unix.Setfsgid(int(s.User.GID)), unix.Setfsuid(int(s.User.UID))); err != nil {
		return failed("looking for the command", err)
	}
	file, err := findCommand(s)
	if err != nil {
		return err
	}
	p.calls.Unblock()
	executeFile(&p.calls, file, s)
	return nil
}
