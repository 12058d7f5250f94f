package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/controlplane/cluster/wire"
	"github.com/wasmnode/wasmnode/internal/certtest"
	"github.com/wasmnode/wasmnode/structs"
)

// behind serves a server's answers at an address of its own, each through a function that may
// hold it.
func behind(t *testing.T, through func(method string, answer func() (any, error)) (any, error), s *server) (address string, joined chan *wire.Session) {
	t.Helper()
	return listen(t, wire.Options{Handler: &wire.Handler{Call: func(ctx context.Context, method string, decode func(any) error) (any, error) {
		return through(method, func() (any, error) { return s.answer(ctx, method, decode) })
	}}})
}

// listen serves a handler's answers. The first session of a node is sent to joined.
func listen(t *testing.T, o wire.Options) (address string, joined chan *wire.Session) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	joined = make(chan *wire.Session, 1)
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			session, err := wire.Accept(context.Background(), conn, o)
			if err != nil {
				continue
			}
			running.Go(func() { <-session.Done(); session.Close() })
			select {
			case joined <- session:
			default:
			}
		}
	})
	t.Cleanup(func() { l.Close(); running.Wait() })
	return l.Addr().String(), joined
}

func asIs(_ string, answer func() (any, error)) (any, error) { return answer() }

// What a server has asked may take as long as it likes, and end long after its connection: the
// node is with the next server meanwhile.
func TestABusyHandlerDoesNotKeepTheNodeFromTheNextServer(t *testing.T) {
	one, two := startServer(t), startServer(t)
	address, joined := behind(t, asIs, one)
	busy, done := make(chan struct{}), make(chan struct{})
	cp := joinWith(t, Config{Servers: []string{address, two.address}, Handler: &wire.Handler{
		Call: func(context.Context, string, func(any) error) (any, error) {
			close(busy)
			<-done
			return nil, nil
		},
	}})
	defer close(done) // before the control plane is closed, which waits for it
	session := <-joined
	var asking sync.WaitGroup
	defer asking.Wait()
	asking.Go(func() { _ = session.Call(context.Background(), "Any.Thing", struct{}{}, nil) }) // its connection is lost
	<-busy
	session.HangUp()
	registered(t, cp)
	require.NotEqual(t, address, cp.Connected())
}

// A report is under way, and servers that had missed the node have it tell again what became of
// its allocations: what they are told last is the newest.
func TestWhatIsToldAgainNeverComesAfterWhatIsNewer(t *testing.T) {
	s := startServer(t)
	var holding atomic.Bool
	held, release := make(chan struct{}), make(chan struct{})
	let := sync.OnceFunc(func() { close(release) })
	defer let()
	isNewest := func() bool { r := s.lastReport(allocID(1)); return r != nil && r.ClientDescription == "2" }
	address, _ := behind(t, func(method string, answer func() (any, error)) (any, error) {
		reply, err := answer()
		if method == "Node.UpdateAlloc" && isNewest() && !holding.Swap(true) { // it has arrived, and the node does not know
			close(held)
			<-release
		}
		return reply, err
	}, s)
	cp := join(t, address)
	registered(t, cp)
	s.change(allocID(1), func(*wireAlloc) {})
	_, err := cp.Allocations(t.Context(), nodeID, 0)
	require.NoError(t, err)
	report := func(n int) error {
		return cp.UpdateAllocations(t.Context(), nodeID, []*structs.AllocationState{{
			ID: allocID(1), ClientStatus: structs.ClientRunning, ClientDescription: strconv.Itoa(n),
		}})
	}
	require.NoError(t, report(1))
	var asking sync.WaitGroup
	asking.Go(func() { require.NoError(t, report(2)) })
	<-held
	for range 5 { // while the first of them would have told the older state
		before := s.called("Node.UpdateStatus")
		s.mu.Lock()
		s.status = "disconnected"
		s.mu.Unlock()
		asking.Go(func() {
			_, err := cp.Heartbeat(t.Context(), nodeID)
			require.NoError(t, err)
		})
		require.Eventually(t, func() bool { return s.called("Node.UpdateStatus") > before }, time.Minute, time.Millisecond)
	}
	let()
	asking.Wait()
	told := 0
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.reports {
		n, err := strconv.Atoi(r.ClientDescription)
		require.NoError(t, err)
		require.GreaterOrEqual(t, n, told)
		told = n
	}
	require.Greater(t, len(s.reports), 2, "it was told again")
}

// Certificates that were replaced are those of the next connection, and files that are being
// replaced may be read halfway.
func TestTheCertificatesAreReadForEachConnection(t *testing.T) {
	ours, s := certtest.NewAuthority(t), startServer(t)
	cert, key := ours.Write(t, t.TempDir(), "server.global.nomad")
	pair, err := tls.LoadX509KeyPair(cert, key)
	require.NoError(t, err)
	address, _ := listen(t, wire.Options{TLS: &tls.Config{Certificates: []tls.Certificate{pair}}, Handler: &wire.Handler{Call: s.answer}})
	pem, err := os.ReadFile(ours.File(t))
	require.NoError(t, err)
	read := 0 // by one goroutine, after another
	secured := func() (*tls.Config, error) {
		read++
		c := &tls.Config{ServerName: "server.global.nomad", RootCAs: x509.NewCertPool()}
		switch read {
		case 1:
			return nil, errors.New("half a file")
		case 3:
			require.True(t, c.RootCAs.AppendCertsFromPEM(pem))
		}
		return c, nil
	}
	cp := joinWith(t, Config{Servers: []string{address}, TLS: secured})
	registered(t, cp)
	require.NoError(t, cp.Close())
	require.Equal(t, 3, read)
}
