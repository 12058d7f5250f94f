package sdnotify

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// manager is a service manager's end.
type manager struct{ conn *net.UnixConn }

func newManager(t *testing.T, name string) manager {
	t.Helper()
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close()) })
	t.Setenv(socketVariable, name)
	t.Setenv(watchdogVariable, "")
	t.Setenv(watchedVariable, "")
	return manager{conn}
}

func (m manager) next(t *testing.T) string {
	t.Helper()
	buffer := make([]byte, 4096)
	require.NoError(t, m.conn.SetReadDeadline(time.Now().Add(time.Minute)))
	n, err := m.conn.Read(buffer)
	require.NoError(t, err)
	return string(buffer[:n])
}

func open(t *testing.T) *Service {
	t.Helper()
	s, err := Open()
	require.NoError(t, err)
	require.NotNil(t, s)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

func TestAServiceManagerIsToldWhatHappens(t *testing.T) {
	for name, socket := range map[string]string{
		"a file":      filepath.Join(t.TempDir(), "notify"),
		"an abstract": "@wasmnode-test-" + strconv.Itoa(os.Getpid()),
	} {
		t.Run(name, func(t *testing.T) {
			m := newManager(t, socket)
			s := open(t)
			s.Ready()
			require.Equal(t, "READY=1", m.next(t))
			s.Status("two lines\nare one")
			require.Equal(t, "STATUS=two lines are one", m.next(t))
			s.Reloading()
			said, usec, _ := strings.Cut(m.next(t), "\nMONOTONIC_USEC=")
			require.Equal(t, "RELOADING=1", said)
			n, err := strconv.ParseInt(usec, 10, 64)
			require.NoError(t, err)
			require.Positive(t, n)
			s.Stopping()
			require.Equal(t, "STOPPING=1", m.next(t))
		})
	}
}

func TestWhatIsStartedDoesNotSpeakForTheService(t *testing.T) {
	newManager(t, filepath.Join(t.TempDir(), "notify"))
	t.Setenv(watchdogVariable, "1000000")
	t.Setenv(watchedVariable, strconv.Itoa(os.Getpid()))
	open(t)
	for _, name := range []string{socketVariable, watchdogVariable, watchedVariable} {
		_, is := os.LookupEnv(name)
		require.False(t, is, name)
	}
}

func TestAServiceThatIsStuckIsNotSaidToLive(t *testing.T) {
	m := newManager(t, filepath.Join(t.TempDir(), "notify"))
	t.Setenv(watchdogVariable, "3000")
	t.Setenv(watchedVariable, strconv.Itoa(os.Getpid()))
	s := open(t)
	ctx, stop := context.WithCancel(t.Context())
	goOn, ended := make(chan struct{}), make(chan struct{})
	go func() { defer close(ended); s.Watch(ctx, func() { <-goOn }) }()
	for range 3 {
		goOn <- struct{}{}
		require.Equal(t, "WATCHDOG=1", m.next(t))
	}
	// Stuck from here on: what is said next is the first that comes.
	s.Status("stuck")
	require.Equal(t, "STATUS=stuck", m.next(t))
	stop()
	close(goOn)
	<-ended
}

func TestNobodyIsToldOfLifeWhoDoesNotAskThisProcess(t *testing.T) {
	for name, environment := range map[string][2]string{
		"no watchdog":          {"", ""},
		"another's":            {"3000", "1"},
		"not a number":         {"soon", ""},
		"a number below zero":  {"-3000", ""},
		"more than is counted": {"99999999999999999999", ""},
		"zero":                 {"0", ""},
	} {
		t.Run(name, func(t *testing.T) {
			newManager(t, filepath.Join(t.TempDir(), "notify"))
			t.Setenv(watchdogVariable, environment[0])
			t.Setenv(watchedVariable, environment[1])
			open(t).Watch(t.Context(), func() { t.Error("it is asked whether it lives") })
		})
	}
}

func TestWithoutAServiceManagerNothingIsTold(t *testing.T) {
	t.Setenv(socketVariable, "")
	t.Setenv(watchdogVariable, "3000")
	s, err := Open()
	require.NoError(t, err)
	require.Nil(t, s)
	s.Ready()
	s.Reloading()
	s.Stopping()
	s.Watch(t.Context(), func() { t.Error("it is asked whether it lives") })
	require.NoError(t, s.Close())

	none := filepath.Join(t.TempDir(), "none")
	t.Setenv(socketVariable, none)
	_, err = Open()
	require.ErrorContains(t, err, "NOTIFY_SOCKET="+none)
}

func TestAServiceManagerThatIsGoneStopsNothing(t *testing.T) {
	m := newManager(t, filepath.Join(t.TempDir(), "notify"))
	s, err := Open()
	require.NoError(t, err)
	require.NoError(t, m.conn.CloseRead())
	s.Ready()
	require.NoError(t, s.Close())
	s.Ready()
}
