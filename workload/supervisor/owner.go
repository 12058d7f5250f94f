package supervisor

import (
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"
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
