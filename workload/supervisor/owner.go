package supervisor

import (
	"context"
	"fmt"
	"net"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/wasmnode/wasmnode/abi"
)

// ownersOnly closes connections of users other than this process's and root. The
// socket's mode does the same; this holds also where the mode is changed.
type ownersOnly struct{ net.Listener }

// Accept implements [net.Listener].
func (l ownersOnly) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if checkOwner(c) == nil {
			return c, nil
		}
		_ = c.Close() // it is refused
	}
}

func checkOwner(c net.Conn) error {
	peer, err := peerOf(c)
	if err != nil {
		return err
	}
	if peer.Uid != 0 && int(peer.Uid) != os.Getuid() {
		return fmt.Errorf("user %d may not connect to the supervisor", peer.Uid)
	}
	return nil
}

// peerOf returns the process at the other end of a connection, as it was when it connected, or
// when it began to listen.
func peerOf(c net.Conn) (*unix.Ucred, error) {
	u, ok := c.(*net.UnixConn)
	if !ok {
		return nil, fmt.Errorf("a connection of type %T", c)
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return nil, err
	}
	var peer *unix.Ucred
	var peerErr error
	if err := raw.Control(func(fd uintptr) { peer, peerErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); err != nil {
		return nil, err
	}
	return peer, peerErr
}

// peerKey is the process at the other end of the connection, in a request's context.
type peerKey struct{}

func withPeer(ctx context.Context, c net.Conn) context.Context {
	peer, err := peerOf(c)
	if err != nil {
		return ctx
	}
	return context.WithValue(ctx, peerKey{}, peer.Pid)
}

// peerIn is the process that asks; 0: that is not known.
func peerIn(ctx context.Context) int32 {
	pid, _ := ctx.Value(peerKey{}).(int32)
	return pid
}

// owner is the process of the agent that the workloads belong to: the last that has said hello. What an
// agent before it asked for, and was killed before it was read, must not begin any more: the next one
// has looked for it, not found it, and started another.
type owner struct {
	mu  sync.Mutex
	pid int32 // 0: not known, as agents of earlier versions do not say that they own any
}

// is makes a process the owner.
func (o *owner) is(pid int32) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.pid = pid
}

// does calls what only the owner may do, who stays the owner meanwhile. FAILED_PRECONDITION: another
// process is the owner.
func (o *owner) does(pid int32, do func() error) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.pid != 0 && pid != 0 && pid != o.pid {
		return abi.NewError(abi.FailedPrecondition, fmt.Sprintf("the workloads belong to process %d: another agent has taken over", o.pid))
	}
	return do()
}
