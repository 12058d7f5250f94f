package descriptor

import (
	"fmt"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

const (
	// socketBuffer is asked for as the size of each of a connection's two buffers in the
	// kernel, in bytes; Linux takes twice as much. It would let them grow to megabytes.
	socketBuffer = 128 << 10
	// backlog is how many connections wait to be accepted; more are refused.
	backlog = 128
)

// Listen gives the guest a TCP listener on that address: it takes connections from now on,
// which wait until the guest accepts them. It does not block at first. The error is the
// system's, such as that of an address in use.
func (t *Table) Listen(at netip.AddrPort) error {
	if len(t.given) >= MaxListeners {
		return fmt.Errorf("more than %d listeners", MaxListeners)
	}
	family, address := unix.AF_INET6, unix.Sockaddr(&unix.SockaddrInet6{Port: int(at.Port()), Addr: at.Addr().As16()})
	if at.Addr().Unmap().Is4() {
		family, address = unix.AF_INET, &unix.SockaddrInet4{Port: int(at.Port()), Addr: at.Addr().Unmap().As4()}
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	if err := bind(fd, address); err != nil {
		_ = unix.Close(fd)
		return err
	}
	t.given = append(t.given, &handle{kind: listener, fd: fd, nonblock: true})
	return nil
}

func bind(fd int, address unix.Sockaddr) error {
	for _, option := range []struct{ name, value int }{
		{unix.SO_REUSEADDR, 1}, {unix.SO_RCVBUF, socketBuffer}, {unix.SO_SNDBUF, socketBuffer},
	} {
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, option.name, option.value); err != nil {
			return os.NewSyscallError("setsockopt", err)
		}
	}
	if err := unix.Bind(fd, address); err != nil {
		return err
	}
	return unix.Listen(fd, backlog)
}

// allOpen is how many connections all guests of this process have.
var allOpen atomic.Int64

// maxOpen is how many they may have: half of what the process may open is left to all
// else.
var maxOpen = sync.OnceValue(func() int64 {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return maxConnections
	}
	return int64(min(limit.Cur, 1<<40) / 2)
})

// full reports whether the guest may not have more connections for now.
func (t *Table) full() bool { return t.open >= maxConnections || allOpen.Load() >= maxOpen() }

// accept takes the next connection of a listener.
func accept(from *handle) (*handle, error) {
	fd, _, err := unix.Accept4(from.fd, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
	if err != nil {
		return nil, err
	}
	allOpen.Add(1)
	_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1) // as Go and others do; without it, it is slower
	return &handle{kind: connection, fd: fd}, nil
}
