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
	u, ok := c.(*net.UnixConn)
	if !ok {
		return fmt.Errorf("a connection of type %T", c)
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return err
	}
	var peer *unix.Ucred
	var peerErr error
	if err := raw.Control(func(fd uintptr) { peer, peerErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); err != nil {
		return err
	}
	if peerErr != nil {
		return peerErr
	}
	if peer.Uid != 0 && int(peer.Uid) != os.Getuid() {
		return fmt.Errorf("user %d may not connect to the supervisor", peer.Uid)
	}
	return nil
}
