package cluster

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/controlplane/cluster/wire"
)

// Servers that lose their leader are not said to be connected and lost in turn.
func TestWithoutALeaderTheNodeIsNotSaidToBeConnected(t *testing.T) {
	s := startServer(t)
	said, logger := logged(hclog.Info)
	tries := make(chan struct{}, 1000)
	cp := joinWith(t, Config{Servers: []string{s.address}, Logger: logger, timing: timing{resolve: func(_ context.Context, host string) ([]string, error) {
		tries <- struct{}{}
		return []string{host}, nil
	}}})
	registered(t, cp)
	require.Len(t, said.with("connected to a server"), 1)
	require.Nil(t, cp.Trouble())
	s.setLeaderless(true)
	beating := make(chan error, 1)
	go func() {
		_, err := cp.Heartbeat(t.Context(), nodeID)
		beating <- err
	}()
	for len(tries) > 0 {
		<-tries
	}
	for range 3 {
		<-tries
	}
	require.Len(t, said.with("connected to a server"), 1)
	require.Len(t, said.with("the connection to a server is lost"), 1)
	require.Len(t, said.with("a server is of no use"), 1)
	require.Contains(t, cp.Trouble().Text, "the servers have no leader")
	s.setLeaderless(false)
	require.NoError(t, <-beating)
	require.Len(t, said.with("connected to a server"), 2)
	require.Nil(t, cp.Trouble())
}

func TestATokenThatIsMadeLaterIntroducesTheNode(t *testing.T) {
	s := startServer(t)
	s.mu.Lock()
	s.introduction = "made later"
	s.mu.Unlock()
	file := filepath.Join(t.TempDir(), "intro_token.jwt")
	var ahead atomic.Int64
	cp := joinWith(t, Config{Servers: []string{s.address}, IntroductionFile: file, timing: timing{
		clock: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) },
	}})
	_, err := cp.Register(t.Context(), described())
	require.ErrorContains(t, err, "make a token with nomad node intro create")
	since := cp.Trouble()
	require.Contains(t, since.Text, "the servers do not take the node: Node.Register: Permission denied")
	require.NotEmpty(t, since.Remedy)

	old := jwt(`{"exp": 1000000000}`)
	require.NoError(t, os.WriteFile(file, []byte(old), 0o600))
	_, err = cp.Register(t.Context(), described())
	require.ErrorContains(t, err, "the one that is there was good until 2001-09-09 01:46:40 UTC, by the clock of this machine)")
	require.Equal(t, since.Since, cp.Trouble().Since)
	first := err.Error()
	ahead.Store(int64(time.Hour))
	_, err = cp.Register(t.Context(), described())
	require.EqualError(t, err, first, "it is said once")

	require.NoError(t, os.WriteFile(file, []byte("made later\n"), 0o600))
	registered(t, cp)
	require.Nil(t, cp.Trouble())
}

func jwt(claims string) string {
	return "e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".c2ln"
}

func TestClocksThatAreApartAreToldOnce(t *testing.T) {
	s := startServer(t)
	said, logger := logged(hclog.Info)
	cp := joinWith(t, Config{Servers: []string{s.address}, Logger: logger})
	signed := func(at time.Time) {
		s.mu.Lock()
		s.token = jwt(fmt.Sprintf(`{"iat": %d}`, at.Unix()))
		s.mu.Unlock()
		registered(t, cp)
	}
	signed(time.Now())
	require.Empty(t, said.with("[WARN]"))
	for range 2 {
		signed(time.Now().Add(time.Hour))
	}
	require.Len(t, said.with("the clock of this machine is not that of the servers"), 1)
	signed(time.Now())
	signed(time.Now().Add(-time.Hour))
	require.Len(t, said.with("[WARN]"), 2)
}

func TestNodesSpreadOverTheServers(t *testing.T) {
	names := map[string][]string{"cluster.test": {"192.0.2.1", "192.0.2.2", "2001:db8::3"}, "192.0.2.2": {"192.0.2.2"}}
	s := &servers{
		ctx: t.Context(), logger: hclog.NewNullLogger(), troubles: map[string]string{},
		configured: []string{"cluster.test:4647", "gone.test:4647"}, learned: []string{"192.0.2.2:4647"},
		timing: timing{resolve: func(_ context.Context, host string) ([]string, error) {
			if found := names[host]; found != nil {
				return found, nil
			}
			return nil, errors.New("it is gone")
		}}.withDefaults(),
	}
	all := []string{"192.0.2.1:4647", "192.0.2.2:4647", "[2001:db8::3]:4647"}
	first := map[string]bool{}
	for range 200 {
		round := s.round(s.ctx, "")
		first[round[0]] = true
		slices.Sort(round)
		require.Equal(t, all, round, "each address once")
		require.Equal(t, all[1], s.round(s.ctx, all[1])[2], "the one that was lost is the last")
	}
	require.Len(t, first, 3)
	s.tell("192.0.2.1:4647", trouble{kind: "a"})
	names["cluster.test"] = []string{"192.0.2.9"}
	require.NotContains(t, s.round(s.ctx, ""), "192.0.2.1:4647", "a name is looked up at each round")
	require.NotContains(t, s.troubles, "192.0.2.1:4647")
}

func TestAllAddressesOfANameAreTried(t *testing.T) {
	s := startServer(t)
	_, port, _ := strings.Cut(s.address, ":")
	said, logger := logged(hclog.Info)
	cp := joinWith(t, Config{Servers: []string{"cluster.test:" + port}, Logger: logger, timing: timing{resolve: func(context.Context, string) ([]string, error) {
		return []string{"127.0.0.2", "127.0.0.1"}, nil // nothing listens at the first
	}}})
	registered(t, cp)
	require.Equal(t, s.address, cp.Connected())
	require.Empty(t, said.with("[WARN]"), "another one is there for that")
}

// holding is a server that answers a question about an allocation when it is let; held is closed when it
// was asked.
func holding(t *testing.T, s *server) (address string, joined chan *wire.Session, held chan struct{}, let func()) {
	t.Helper()
	held, release := make(chan struct{}), make(chan struct{})
	address, joined = behind(t, func(method string, answer func() (any, error)) (any, error) {
		if method == "Alloc.GetAlloc" {
			close(held)
			<-release
		}
		return answer()
	}, s)
	return address, joined, held, sync.OnceFunc(func() { close(release) })
}

// askElsewhere asks about an allocation, and sends what came of it.
func askElsewhere(t *testing.T, cp *ControlPlane) <-chan error {
	t.Helper()
	asking := make(chan error, 1)
	go func() {
		_, _, err := cp.allocationElsewhere(t.Context(), "default", allocID(1), 0)
		asking <- err
	}()
	return asking
}

// A node moves to another server while it is well, first to the new one, and what is under way with
// the old one is finished there.
func TestANodeMovesToAnotherServerWhenNothingIsUnderWay(t *testing.T) {
	one, two := startServer(t), startServer(t)
	two.mu.Lock()
	two.node = nodeOf(described(), secretID) // servers share what they know
	two.mu.Unlock()
	address, joined, held, let := holding(t, one)
	defer let()
	cp := joinWith(t, Config{Servers: []string{address, two.address}, timing: timing{moveAfter: 50 * time.Millisecond}})
	registered(t, cp)
	old := <-joined
	asking := askElsewhere(t, cp)
	<-held
	require.Eventually(t, func() bool { return cp.Connected() == two.address }, time.Minute, time.Millisecond)
	_, err := cp.Heartbeat(t.Context(), nodeID)
	require.NoError(t, err)
	require.NotZero(t, two.called("Node.UpdateStatus"), "the new one is asked")
	select {
	case <-old.Done():
		require.Fail(t, "the old one is still asked something")
	case <-time.After(4 * idleTick):
	}
	require.Equal(t, two.address, cp.Connected(), "it moves no further before it has left that")
	let()
	require.NoError(t, <-asking)
	<-old.Done()
	require.Eventually(t, func() bool {
		_, err := cp.Heartbeat(t.Context(), nodeID) // has the next one hear the node, so that this one is left
		return err == nil && cp.Connected() == address
	}, time.Minute, time.Millisecond, "it goes on moving")
}

// What servers have asked of the node keeps the connection, too.
func TestANodeDoesNotLeaveAServerThatItAnswers(t *testing.T) {
	one, two := startServer(t), startServer(t)
	two.mu.Lock()
	two.node = nodeOf(described(), secretID)
	two.mu.Unlock()
	address, joined := behind(t, asIs, one)
	busy, done := make(chan struct{}), make(chan struct{})
	cp := joinWith(t, Config{
		Servers: []string{address, two.address}, timing: timing{moveAfter: 50 * time.Millisecond},
		Handler: &wire.Handler{Call: func(context.Context, string, func(any) error) (any, error) {
			close(busy)
			<-done
			return nil, nil
		}},
	})
	old := <-joined
	answered := make(chan error, 1)
	go func() { answered <- old.Call(context.Background(), "Any.Thing", struct{}{}, nil) }()
	<-busy
	require.Eventually(t, func() bool { return cp.Connected() == two.address }, time.Minute, time.Millisecond)
	registered(t, cp)
	close(done)
	require.NoError(t, <-answered)
	<-old.Done()
}

// A planned move passes servers that are of no use. That is no trouble of the node's: it is connected all
// the time, and the next server has only not been asked anything yet.
func TestAMovePastAServerOfNoUseIsNoTrouble(t *testing.T) {
	one, two := startServer(t), startServer(t)
	useless, conns := serveConns(t, func(net.Conn) {}) // it hangs up
	two.mu.Lock()
	two.node = nodeOf(described(), secretID)
	two.mu.Unlock()
	said, logger := logged(hclog.Info)
	cp := joinWith(t, Config{Servers: []string{one.address, useless, two.address}, Logger: logger, timing: timing{moveAfter: 50 * time.Millisecond}})
	registered(t, cp)
	require.Eventually(t, func() bool { return cp.Connected() == two.address }, time.Minute, time.Millisecond)
	require.NotEmpty(t, conns, "the one in between was tried")
	require.Nil(t, cp.Trouble())
	_, err := cp.Heartbeat(t.Context(), nodeID)
	require.NoError(t, err)
	require.Len(t, said.with("[INFO]"), 1, "a move is nothing to know")
}

// Who is looked for may take long to be of no use: meanwhile the connection there is may be lost.
func TestAServerThatIsLostWhileAnotherIsLookedForIsReplacedAtOnce(t *testing.T) {
	one := startServer(t)
	address, joined := behind(t, asIs, one)
	var before atomic.Bool
	silent, conns := serveConns(t, func(conn net.Conn) { // it says nothing, and then that it does not
		if !before.Swap(true) {
			_, _ = io.Copy(io.Discard, conn)
		}
	})
	cp := joinWith(t, Config{
		Servers: []string{address, silent}, timing: timing{moveAfter: 50 * time.Millisecond, patience: time.Hour},
	})
	registered(t, cp)
	<-conns
	(<-joined).HangUp()
	_, err := cp.Heartbeat(t.Context(), nodeID) // on the next connection
	require.NoError(t, err)
}

// A server that was left for one that is lost then is well all the same, and finishes what it was asked.
func TestALostServerDoesNotTakeTheOneBeforeItAlong(t *testing.T) {
	one, two := startServer(t), startServer(t)
	first, joined, held, let := holding(t, one)
	defer let()
	second, joinedNext := behind(t, asIs, two)
	cp := joinWith(t, Config{Servers: []string{first, second}, timing: timing{moveAfter: 50 * time.Millisecond}})
	registered(t, cp)
	old := <-joined
	asking := askElsewhere(t, cp)
	<-held
	require.Eventually(t, func() bool { return cp.Connected() == second }, time.Minute, time.Millisecond)
	(<-joinedNext).HangUp()
	select {
	case <-old.Done():
		require.Fail(t, "it is still asked something")
	case <-time.After(4 * idleTick):
	}
	let()
	require.NoError(t, <-asking)
	<-old.Done()
}
