package process

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/internal/wake"
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
// Where the isolator ends before it tells of a process, the next one is asked: none has executed its command.
func (i *isolator) start(ctx context.Context, c *command) (child, error) {
	for again := true; ; again = false {
		a, err := i.ask(ctx, c)
		if err != nil {
			return child{}, err
		}
		started, err := a.childUntil(ctx)
		if !again || !errors.Is(err, errIsolator) {
			return started, err
		}
		select {
		case <-a.isolatorEnded:
		case <-time.After(filesTimeout):
		case <-ctx.Done():
			return child{}, ctx.Err()
		}
	}
}

// filesTimeout is how long an isolator has to end that answers nothing, or else to have files again.
const filesTimeout = time.Second

// ask asks for a process, of the isolator that there is or of a new one.
func (i *isolator) ask(ctx context.Context, c *command) (*answer, error) {
	request, files, err := c.request()
	if err != nil {
		return nil, err
	}
	handshake, err := newExecHandshake()
	if err != nil {
		return nil, err
	}
	ended, err := i.send(ctx, append([]int{int(handshake.childSpec.Fd()), int(handshake.childReport.Fd())}, files...))
	handshake.forked()
	if err != nil {
		handshake.close()
		return nil, err
	}
	return &answer{handshake, request, json.NewDecoder(handshake.report), c.cgroup, ended}, nil
}

// answer is what the isolator says of one process.
type answer struct {
	handshake     *execHandshake
	request       []byte
	decoder       *json.Decoder
	cgroup        *os.File        // that the process is in; nil: none
	isolatorEnded <-chan struct{} // closed when it was seen to have ended
}

// childUntil is child, unless ctx is done before.
func (a *answer) childUntil(ctx context.Context) (child, error) {
	forked := make(chan error, 1)
	var started child
	go func() {
		var err error
		started, err = a.child()
		forked <- err
	}()
	select {
	case err := <-forked:
		return started, err
	case <-ctx.Done():
		go func() {
			if <-forked == nil {
				started.abandon()
				a.handshake.close()
			}
		}()
		return child{}, ctx.Err()
	}
}

// child returns the process that was forked.
func (a *answer) child() (child, error) {
	_, _ = a.handshake.spec.Write(a.request) // an isolator that has ended answers nothing
	p, err := a.next()
	if err == nil && p.Error != nil {
		err = p.Error
	}
	if err != nil {
		if errors.Is(err, errIsolator) && a.cgroup != nil {
			endUnknown(cgroup(a.cgroup.Name()))
		}
		a.handshake.close() // upon which one without a cgroup ends, whom nobody waits for
		return child{}, err
	}
	pidfd, err := unix.PidfdOpen(p.PID, 0) // it is our child, so that its number is no other's
	started := child{p.PID, pidfd, a.executed}
	if err != nil {
		started.abandon()
		a.handshake.close()
		return child{}, noFiles(err)
	}
	return started, nil
}

// endUnknown ends what an isolator forked that ended before it said so. It has executed nothing, so that it has started
// none. The cgroup itself is not killed: Linux 6.18 would kill what is forked into it after that.
func endUnknown(group cgroup) {
	pids, _ := group.processes() // what has ended is in none any more, and is nobody's but the supervisor's end's
	for _, pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGKILL) // it is our child, so it is there
		reap(pid)
	}
}

// executed is [child.executed]: nothing is executed before it is called. An isolator that has ended meanwhile does
// not say whether that failed.
func (a *answer) executed() error {
	defer a.handshake.close()
	_, _ = a.handshake.spec.Write(isolate.Go) // a process that has ended is waited for
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

// request returns what the isolator is asked for, and the files that go with that.
func (c *command) request() (request []byte, files []int, err error) {
	r := &isolate.Request{Spec: c.isolated, Cgroup: c.cgroup != nil, Network: c.network != 0, Doors: len(c.doors)}
	files = []int{int(c.stdin), int(c.stdout), int(c.stderr)}
	if r.Cgroup {
		files = append(files, int(c.cgroup.Fd()))
	}
	if r.Network {
		files = append(files, c.network)
	}
	request, err = json.Marshal(r)
	return request, append(files, c.doors...), err
}

// send sends the isolator files, and starts one if there is none. It returns what is closed when that was seen to have
// ended.
func (i *isolator) send(ctx context.Context, files []int) (ended <-chan struct{}, err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for again := true; ; again = false {
		if wake.IsClosed(i.ended) { // and what it has forked may have its socket still
			i.endLocked()
		}
		if i.socket == nil {
			if err := i.runLocked(ctx); err != nil {
				return nil, fmt.Errorf("what isolates processes: %w", err)
			}
		}
		err := unix.Sendmsg(int(i.socket.Fd()), []byte{0}, unix.UnixRights(files...), nil, unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT)
		switch {
		case err == nil:
			return i.ended, nil
		case !again || !errors.Is(err, unix.EPIPE) && !errors.Is(err, unix.ECONNRESET):
			return nil, noFiles(os.NewSyscallError("sendmsg", err))
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
	if !wake.IsClosed(i.ended) {
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
