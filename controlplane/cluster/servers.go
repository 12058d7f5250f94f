package cluster

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/wasmnode/wasmnode/controlplane/cluster/wire"
	"github.com/wasmnode/wasmnode/structs/errdefs"
)

const (
	// defaultPort is that of servers' RPC.
	defaultPort = "4647"
	// maxServers bounds the servers that are learned; further ones are left out.
	maxServers = 64
	// The bounds of the wait between two tries to connect. Each is jittered by half, so that
	// the nodes of a cluster do not come back at once.
	firstWait, lastWait = 250 * time.Millisecond, 30 * time.Second
	// answerTimeout bounds calls that a server answers at once. One that has not answered then
	// is left for another.
	answerTimeout = 30 * time.Second
)

// addresses returns the servers' with their ports.
func addresses(configured []string) (list []string, err error) {
	for _, given := range configured {
		address := given
		if _, _, err := net.SplitHostPort(given); err != nil {
			address = net.JoinHostPort(strings.Trim(given, "[]"), defaultPort)
		}
		if !isAddress(address) {
			return nil, fmt.Errorf("client.servers: %q is not HOST:PORT", given)
		}
		list = append(list, address)
	}
	if len(list) == 0 {
		return nil, errors.New("client.servers: there is none")
	}
	return list, nil
}

// isAddress reports whether a text, which a server may have sent, is an address.
func isAddress(text string) bool {
	host, port, err := net.SplitHostPort(text)
	n, bad := strconv.Atoi(port)
	return err == nil && bad == nil && n > 0 && n < 1<<16 && host != "" && len(host) < 256 && !strings.ContainsAny(host, " /\t\n")
}

// servers keep a connection to one of a list of servers.
type servers struct {
	configured []string
	options    wire.Options
	secured    func() (*tls.Config, error) // optional
	region     string
	logger     hclog.Logger
	ctx        context.Context
	end        context.CancelFunc
	running    sync.WaitGroup
	timing     timing

	mu       sync.Mutex
	learned  []string
	session  *session          // nil: there is none
	changed  chan struct{}     // closed and replaced when session is another
	silent   time.Time         // since when there is no session
	troubles map[string]string // the kinds of those that were told by address
	last     trouble           // of them, while there was no session
}

// session is one with a server that has answered and has a leader.
type session struct {
	*wire.Session
	address string
	secured bool        // by TLS
	planned bool        // the node has moved to it from another one that was well
	useful  atomic.Bool // it has answered a question of the node since

	mu  sync.Mutex
	why error // it was hung up; nil: the connection is lost
}

// fail hangs up, for a reason.
func (s *session) fail(why error) {
	s.mu.Lock()
	if s.why == nil {
		s.why = why
	}
	s.mu.Unlock()
	s.HangUp()
}

// failure is why the session is over.
func (s *session) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if why := s.Refusal(); why != nil {
		return why
	}
	if s.why != nil {
		return s.why
	}
	return wire.ErrClosed
}

// connect keeps connecting until close.
func connect(list []string, o wire.Options, secured func() (*tls.Config, error), region string, t timing) *servers {
	s := &servers{
		configured: list, options: o, secured: secured, region: region, logger: o.Logger, timing: t.withDefaults(),
		changed: make(chan struct{}), silent: time.Now(), troubles: map[string]string{},
	}
	s.ctx, s.end = context.WithCancel(context.Background())
	s.running.Go(s.keep)
	return s
}

func (s *servers) close() {
	s.end()
	s.running.Wait()
}

func (s *servers) connected() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.session == nil {
		return ""
	}
	return s.session.address
}

// list returns the servers: those that were learned, and the configured ones, since what is
// told may be an address that cannot be reached from here.
func (s *servers) list() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := slices.Clone(s.configured)
	for _, address := range s.learned {
		if !slices.Contains(list, address) {
			list = append(list, address)
		}
	}
	return list
}

// learn takes the servers that one has told of.
func (s *servers) learn(told []string) {
	var list []string
	for _, address := range told {
		if isAddress(address) && !slices.Contains(list, address) && len(list) < maxServers {
			list = append(list, address)
		}
	}
	rand.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(list) > 0 {
		s.learned = list
	}
}

func (s *servers) set(session *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if session == nil && s.session != nil {
		s.silent = time.Now()
	}
	s.session = session
	close(s.changed)
	s.changed = make(chan struct{})
}

// await returns the session, once there is one that is not the one given.
func (s *servers) await(ctx context.Context, not *session) (*session, error) {
	for {
		s.mu.Lock()
		session, changed := s.session, s.changed
		s.mu.Unlock()
		if session != nil && session != not {
			return session, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-s.ctx.Done():
			return nil, errdefs.New(errdefs.Unavailable, "the connection to the servers is closed")
		}
	}
}

// call asks a server, and another one when that is lost, says nothing or has no leader, until
// one answers or ctx is done.
func (s *servers) call(ctx context.Context, method string, args, reply any) error {
	return s.callFor(ctx, s.timing.patience, method, args, reply)
}

// callFor asks a server that may take so long to answer.
func (s *servers) callFor(ctx context.Context, limit time.Duration, method string, args, reply any) error {
	var failed *session
	for {
		session, err := s.await(ctx, failed)
		if err != nil {
			return err
		}
		limited, cancel := context.WithTimeout(ctx, limit)
		err = session.Call(limited, method, args, reply)
		late := limited.Err() != nil
		cancel()
		switch {
		case ctx.Err() != nil:
			return cmp.Or(err, ctx.Err())
		case late:
			err = errSilent
		case !isAway(err):
			s.answered(session)
			return ofVersion(err)
		}
		failed = session
		session.fail(err)
	}
}

// now asks the server that is connected, and fails when there is none: for what is asked
// again soon.
func (s *servers) now(ctx context.Context, method string, args, reply any) error {
	return s.nowFor(ctx, answerTimeout, method, args, reply)
}

// nowFor is now, of a server that may take so long to answer. What others ask may be answered with what
// is beyond the bounds: the session goes on.
func (s *servers) nowFor(ctx context.Context, limit time.Duration, method string, args, reply any) error {
	session, err := s.connectedNow()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return ofVersion(session.CallOnBehalf(ctx, method, args, reply))
}

// open starts a streaming request at the server that is connected, until ctx is done.
func (s *servers) open(ctx context.Context, method string, args any) (*wire.Stream, error) {
	session, err := s.connectedNow()
	if err != nil {
		return nil, err
	}
	return session.Open(ctx, method, args)
}

// connectedNow is the session, if there is one.
func (s *servers) connectedNow() (*session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.session == nil {
		return nil, errdefs.NewRecoverable(errdefs.Unavailable, "no server of the cluster answers now: wasmnode doctor says why")
	}
	return s.session, nil
}

// ofVersion tells of a server that does not know a method what that means.
func ofVersion(err error) error {
	if wire.Says(err, unknownMethod) {
		return fmt.Errorf("%w: the server is older than Nomad 1.6, or than what was asked", err)
	}
	return err
}

// isAway reports whether an error is of the server, and not its answer.
func isAway(err error) bool {
	var remote *wire.RemoteError
	switch {
	case err == nil, errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return false
	case errors.As(err, &remote):
		return strings.Contains(remote.Text, noLeader)
	}
	return true
}
