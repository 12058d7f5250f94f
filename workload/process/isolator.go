package process

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/workload/process/isolate"
)

// isolator is the process that isolates others, which are children of this one all the same: their
// parent is the spawner's thread. It is started when it is first needed, and again when it has ended. Whatever
// a task's files have it wait for, and whatever is killed for want of memory, is not this process.
type isolator struct {
	spawner *spawner

	mu     sync.Mutex
	socket *os.File      // nil: it does not run
	pid    int           // of it
	ended  chan struct{} // closed when it was seen to have ended
}

// start has a process isolated, and returns it once it is forked. One that comes after ctx is done is ended.
func (i *isolator) start(ctx context.Context, c *command) (child, error) {
	r, files := c.request()
	handshake, err := newExecHandshake()
	if err != nil {
		return child{}, err
	}
	err = i.send(ctx, append([]int{int(handshake.childSpec.Fd()), int(handshake.childReport.Fd())}, files...))
	handshake.forked()
	if err != nil {
		handshake.close()
		return child{}, err
	}
	answer := &answer{report: handshake.report, decoder: json.NewDecoder(handshake.report)}
	asked := make(chan error, 1)
	var started child
	go func() {
		_ = json.NewEncoder(handshake.spec).Encode(r) // an isolator that has ended answers nothing
		_ = handshake.spec.Close()
		var err error
		started, err = answer.child()
		asked <- err
	}()
	select {
	case err := <-asked:
		return started, err
	case <-ctx.Done():
		go func() {
			if <-asked == nil {
				started.abandon()
				answer.close()
			}
		}()
		return child{}, ctx.Err()
	}
}

// answer is what the isolator says of one process.
type answer struct {
	report  *os.File
	decoder *json.Decoder
}

// child returns the process that was forked.
func (a *answer) child() (child, error) {
	p, err := a.next()
	if err == nil && p.Error != nil {
		err = p.Error
	}
	if err != nil {
		a.close()
		return child{}, err
	}
	pidfd, err := unix.PidfdOpen(p.PID, 0) // it is our child, so that its number is no other's
	started := child{p.PID, pidfd, a.executed}
	if err != nil {
		started.abandon()
		a.close()
		return child{}, noFiles(err)
	}
	return started, nil
}

// executed is [child.executed].
func (a *answer) executed() error {
	defer a.close()
	if p, err := a.next(); err == nil && p.Error != nil {
		return p.Error
	}
	return nil
}

// errIsolator is that it said no more.
var errIsolator = abi.NewRecoverableError(abi.Unavailable, "what isolates processes has ended, or is short of files")

// next returns what the isolator says next: a number, or an error.
func (a *answer) next() (p isolate.Progress, err error) {
	if err := a.decoder.Decode(&p); err != nil || p.PID == 0 && p.Error == nil {
		return p, errIsolator
	}
	return p, nil
}

func (a *answer) close() { _ = a.report.Close() } // nothing is written to it

// request returns what the isolator is asked for, and the files that go with that.
func (c *command) request() (*isolate.Request, []int) {
	r := &isolate.Request{Spec: c.isolated, Cgroup: c.cgroup != nil, Network: c.network != 0, Doors: len(c.doors)}
	files := []int{int(c.stdin), int(c.stdout), int(c.stderr)}
	if r.Cgroup {
		files = append(files, int(c.cgroup.Fd()))
	}
	if r.Network {
		files = append(files, c.network)
	}
	return r, append(files, c.doors...)
}

// send sends the isolator files, and starts one if there is none.
func (i *isolator) send(ctx context.Context, files []int) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	for again := true; ; again = false {
		if i.socket == nil {
			if err := i.runLocked(ctx); err != nil {
				return fmt.Errorf("what isolates processes: %w", err)
			}
		}
		err := unix.Sendmsg(int(i.socket.Fd()), []byte{0}, unix.UnixRights(files...), nil, unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT)
		switch {
		case err == nil:
			return nil
		case !again || !errors.Is(err, unix.EPIPE) && !errors.Is(err, unix.ECONNRESET):
			return noFiles(os.NewSyscallError("sendmsg", err))
		}
		i.endLocked() // it was killed, perhaps for want of memory
	}
}

// runLocked starts it. The lock is held.
func (i *isolator) runLocked(ctx context.Context) error {
	program, err := shimProgram()
	if err != nil {
		return err
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return noFiles(os.NewSyscallError("socketpair", err))
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "isolator"), os.NewFile(uintptr(pair[1]), "isolator")
	defer theirs.Close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		_ = ours.Close() // nothing was sent
		return noFiles(err)
	}
	defer null.Close()
	started, err := i.spawner.spawn(ctx, &command{
		path: program, args: []string{isolate.Program, isolate.Isolator}, dir: "/",
		stdin: null.Fd(), stdout: null.Fd(), stderr: uintptr(syscall.Stderr), extra: []uintptr{theirs.Fd()},
	})
	if err != nil {
		_ = ours.Close() // nothing was sent
		return err
	}
	i.socket, i.pid, i.ended = ours, started.pid, make(chan struct{})
	go func(ended chan<- struct{}) {
		defer close(ended)
		pidfd := pollable(started.pidfd, "pidfd")
		_ = awaitEnd(pidfd) // or it is waited for below
		_ = pidfd.Close()   // nothing is written to it
		reap(started.pid)
	}(i.ended)
	return nil
}

// endLocked ends it, if it runs. The lock is held.
func (i *isolator) endLocked() {
	if i.socket == nil {
		return
	}
	_ = i.socket.Close() // what was sent was read, or never will be
	select {
	case <-i.ended:
	default:
		_ = syscall.Kill(i.pid, syscall.SIGKILL) // it is our child, and not reaped or just now
		<-i.ended
	}
	i.socket = nil
}

// close ends it. Another start has another one.
func (i *isolator) close() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.endLocked()
}
