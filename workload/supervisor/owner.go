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

// peer is who asks on a connection.
type peer struct {
	pid    int32  // 0: not known
	number uint64 // of the connection, in the order in which they were made
}

// peerKey is the peer, in a request's context.
type peerKey struct{}

// withPeers makes contexts of connections, in their order.
func withPeers() func(context.Context, net.Conn) context.Context {
	number := uint64(0) // a server makes one context after the other
	return func(ctx context.Context, c net.Conn) context.Context {
		number++
		p := peer{number: number}
		if process, err := peerOf(c); err == nil {
			p.pid = process.Pid
		}
		return context.WithValue(ctx, peerKey{}, p)
	}
}

func peerIn(ctx context.Context) peer {
	p, _ := ctx.Value(peerKey{}).(peer)
	return p
}

// owner is the process of the agent that the workloads belong to: the last that has said hello. What an
// agent before it asked for, and was killed before it was read, must not begin any more: the next one
// has looked for it, not found it, and started another.
type owner struct {
	mu   sync.Mutex
	last peer // its pid is 0 if it is not known, as agents of earlier versions do not say that they own any
}

// hello makes who asks the owner, or, if it does not own the workloads, nobody. What is read late of
// an agent before the owner changes nothing.
func (o *owner) hello(p peer, owns bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if p.number < o.last.number {
		return
	}
	if !owns {
		p.pid = 0
	}
	o.last = p
}

// does calls what only the owner may do, who stays the owner meanwhile. FAILED_PRECONDITION: another
// process is the owner.
func (o *owner) does(p peer, do func() error) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.last.pid != 0 && p.pid != 0 && p.pid != o.last.pid {
		return abi.NewRecoverableError(abi.FailedPrecondition, fmt.Sprintf("the workloads belong to process %d: another agent has taken over", o.last.pid))
	}
	return do()
}
