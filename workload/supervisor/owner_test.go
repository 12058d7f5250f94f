package supervisor

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/workload"
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

// A request may be read when its sender is dead and the next agent has found nothing of it.
func TestAStartOfAnAgentBeforeTheLastIsRefused(t *testing.T) {
	d := newDirected()
	s := serverOf(t, d)
	as := func(pid int32) context.Context {
		return context.WithValue(t.Context(), peerKey{}, peer{pid, uint64(pid)}) // each process has one connection
	}
	start := func(pid int32, id string) error {
		_, err := s.startWorkload(as(pid), &workload.Spec{ID: id})
		return err
	}
	hello := func(pid int32, owns bool) {
		_, err := s.hello(as(pid), &request{Owns: owns})
		require.NoError(t, err)
	}
	require.NoError(t, start(1, "before any has said so"))
	hello(1, true)
	require.NoError(t, start(1, "its own"))
	hello(2, true)
	err := start(1, "late")
	require.Equal(t, abi.FailedPrecondition, abi.CodeOf(err))
	require.EqualError(t, err, "the workloads belong to process 2: another agent has taken over")
	require.Nil(t, s.records.find("late"))
	require.NoError(t, start(2, "the next one's"))
	hello(1, true)
	require.NoError(t, start(2, "though a hello before its own is read after it"))
	require.NoError(t, start(0, "of who is not known"))
	hello(3, false)
	require.NoError(t, start(3, "of an earlier version, which does not say so"))
	close(d.end)
	s.Drain()
}

func TestTheAgentOfAConnectionIsKnown(t *testing.T) {
	s := serve(t, false)
	s.Owns = true
	s.start(t, "a")
	require.Equal(t, int32(os.Getpid()), s.server.owner.last.pid)
}
