package supervisor

import (
	"net"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Whatever the socket's mode became, who is neither root nor the supervisor's user is not served.
func TestOtherUsersAreNotServed(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can be another user")
	}
	dir, err := os.MkdirTemp("/tmp", "owner") // where others can go
	require.NoError(t, err)
	defer os.RemoveAll(dir)
	require.NoError(t, os.Chmod(dir, 0o755))
	socket := filepath.Join(dir, "s")
	l, err := Listen(socket)
	require.NoError(t, err)
	defer l.Close()
	require.NoError(t, os.Chmod(socket, 0o777))
	accepted := make(chan net.Conn, 2)
	go func() {
		for {
			c, err := ownersOnly{l}.Accept()
			if err != nil {
				return
			}
			accepted <- c
		}
	}()
	for uid, served := range map[int]bool{65534: false, 0: true} {
		c, err := connectAs(uid, socket)
		require.NoError(t, err)
		if served {
			require.NoError(t, (<-accepted).Close())
		}
		_, err = c.Read(make([]byte, 1))
		require.Error(t, err, "it is closed")
		require.Empty(t, accepted)
		require.NoError(t, c.Close())
	}
}

// connectAs connects as another user, which its thread, and no other, is until it ends.
func connectAs(uid int, socket string) (c net.Conn, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, ^uintptr(0), uintptr(uid), ^uintptr(0)); errno != 0 {
			err = errno
			return
		}
		c, err = net.Dial("unix", socket)
	}()
	<-done
	return c, err
}
