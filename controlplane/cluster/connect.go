package cluster

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/hashicorp/go-hclog"

	"github.com/wasmnode/wasmnode/controlplane/cluster/wire"
	"github.com/wasmnode/wasmnode/internal/wake"
)

const (
	// moveAfter is how long a node stays with a server before it looks for another one, and as much again
	// at most: after a server was away for a while all nodes are with the others.
	moveAfter = 5 * time.Minute
	// idleTick is how often it is looked whether a server that was left is still used.
	idleTick = 250 * time.Millisecond
	// lookupTimeout bounds the question of which addresses a name has.
	lookupTimeout = 10 * time.Second
)

// timing is what tests have otherwise. Its zero value is that of a node.
type timing struct {
	patience  time.Duration // with servers that answer at once; 0: answerTimeout
	moveAfter time.Duration // 0: moveAfter
	shuffle   func(n int, swap func(i, j int))
	resolve   func(ctx context.Context, host string) ([]string, error)
	clock     func() time.Time
}

func (t timing) withDefaults() timing {
	if t.patience == 0 {
		t.patience = answerTimeout
	}
	if t.moveAfter == 0 {
		t.moveAfter = moveAfter
	}
	if t.shuffle == nil {
		t.shuffle = rand.Shuffle
	}
	if t.resolve == nil {
		t.resolve = net.DefaultResolver.LookupHost
	}
	if t.clock == nil {
		t.clock = time.Now
	}
	return t
}

// keep is connected to one server after another, and waits before it goes on where that did not
// help: a server that answers once and then nothing counts as one that is not there.
func (s *servers) keep() {
	wait := backoff.NewExponentialBackOff()
	wait.InitialInterval, wait.MaxInterval, wait.RandomizationFactor = firstWait, lastWait, 0.5
	lost := ""
	for s.ctx.Err() == nil {
		if session := s.try(s.ctx, s.round(s.ctx, lost)); session != nil {
			s.set(session)
			session, useful := s.stay(session)
			s.set(nil)
			s.tellLost(session)
			s.leave(session.Session)
			lost = session.address
			if useful {
				wait.Reset()
			}
		}
		select {
		case <-time.After(wait.NextBackOff()):
		case <-s.ctx.Done():
		}
	}
}

// round is where servers may be now: every address of each of them, once, in an order of this node's
// own, so that the nodes of a cluster spread over its servers. The one that was lost is the last.
func (s *servers) round(ctx context.Context, lost string) (addresses []string) {
	looking, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	for _, server := range s.list() {
		host, port, err := net.SplitHostPort(server)
		if err != nil {
			continue // it is none that was taken
		}
		found, err := s.timing.resolve(looking, host)
		if err != nil && ctx.Err() == nil {
			s.tell(server, s.explain(err, false))
		}
		for _, one := range found[:min(len(found), maxServers)] {
			if address := net.JoinHostPort(one, port); !slices.Contains(addresses, address) {
				addresses = append(addresses, address)
			}
		}
	}
	s.forgetTroubles(addresses)
	s.timing.shuffle(len(addresses), func(i, j int) { addresses[i], addresses[j] = addresses[j], addresses[i] })
	if i := slices.Index(addresses, lost); i >= 0 {
		addresses = append(slices.Delete(addresses, i, i+1), lost)
	}
	return addresses
}

// try connects to the first that answers; nil: none does. That one is not reached is told where
// none is: another one is there for that.
func (s *servers) try(ctx context.Context, addresses []string) *session {
	type failure struct {
		address string
		trouble
	}
	var unreached []failure
	for _, address := range addresses {
		session, why := s.dial(ctx, address)
		switch {
		case why == nil:
			return session
		case ctx.Err() != nil:
			return nil
		case why.unreached:
			unreached = append(unreached, failure{address, *why})
		default:
			s.tell(address, *why)
		}
	}
	for _, f := range unreached {
		s.tell(f.address, f.trouble)
	}
	return nil
}

// stay returns when the session is over, or the node leaves the servers. Meanwhile it moves to other
// servers, and returns the session with the last one, and whether any of them was useful.
func (s *servers) stay(session *session) (last *session, useful bool) {
	var leaving chan struct{} // closed when the last one that was left is; nil: there was none
	for {
		move := time.NewTimer(s.timing.moveAfter + rand.N(s.timing.moveAfter))
		select {
		case <-session.Done():
			move.Stop()
			return session, useful || session.useful.Load()
		case <-s.ctx.Done():
			move.Stop()
			return session, useful || session.useful.Load()
		case <-move.C:
		}
		if leaving != nil && !wake.IsClosed(leaving) {
			continue
		}
		if next := s.another(session); next != nil {
			s.logger.Debug("moving to another server", "server", next.address, "from", session.address)
			next.planned = session.useful.Load()
			useful = useful || next.planned
			s.set(next)
			leaving = make(chan struct{})
			old, done := session, leaving
			s.running.Go(func() {
				defer close(done)
				s.retire(old, next)
			})
			session = next
		}
	}
}

// another connects to another server than the one that is connected; nil: no other one answers, or the
// connection is lost meanwhile, and any server will do.
func (s *servers) another(than *session) *session {
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	s.running.Go(func() {
		select {
		case <-than.Done():
			cancel()
		case <-ctx.Done():
		}
	})
	round := s.round(ctx, than.address)
	if n := len(round); n > 0 && round[n-1] == than.address {
		round = round[:n-1]
	}
	return s.try(ctx, round)
}

// retire leaves a server once nothing is asked on its session any more, by either side, and the next
// server has heard the node, which it asks by that session then, or is lost.
func (s *servers) retire(old, next *session) {
	tick := time.NewTicker(idleTick)
	defer tick.Stop()
	for old.Busy() || !next.useful.Load() && !wake.IsClosed(next.Done()) {
		select {
		case <-tick.C:
			continue
		case <-old.Done():
		case <-s.ctx.Done():
		}
		break
	}
	s.leave(old.Session)
}

// leave ends a session. What servers have asked on it, and is being done, is waited for by close
// alone: the next server is not kept waiting for it.
func (s *servers) leave(session *wire.Session) {
	session.HangUp()
	s.running.Go(session.Close)
}

// dial connects to a server and asks it who leads, which the one that leads answers: one that is of
// another region, or has no leader, is of no use.
func (s *servers) dial(ctx context.Context, address string) (*session, *trouble) {
	ctx, cancel := context.WithTimeout(ctx, s.timing.patience)
	defer cancel()
	o := s.options
	if s.secured != nil { // certificates may have been replaced
		var err error
		if o.TLS, err = s.secured(); err == nil {
			err = valid(o.TLS, s.timing.clock())
		}
		if err != nil {
			why := s.explain(fmt.Errorf("tls: %w", err), true)
			return nil, &why
		}
	}
	w, err := wire.Dial(ctx, address, o)
	if err == nil {
		if err = w.Call(ctx, "Status.Leader", query{request: request{Region: s.region}}, nil); err == nil {
			return &session{Session: w, address: address, secured: o.TLS != nil}, nil
		}
		if why := w.Refusal(); why != nil {
			err = why
		}
		s.leave(w)
	}
	why := s.explain(err, o.TLS != nil)
	return nil, &why
}

// forgetTroubles forgets what was told of servers that are not there any more.
func (s *servers) forgetTroubles(addresses []string) {
	there := slices.Concat(addresses, s.list())
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.troubles, func(address, _ string) bool { return !slices.Contains(there, address) })
}

// tell says of a server why it is of no use, once for as long as that is so.
func (s *servers) tell(address string, why trouble) {
	if s.ctx.Err() != nil {
		return
	}
	s.mu.Lock()
	if s.session == nil { // otherwise another one is there for the node
		s.last = why
	}
	before, told := s.troubles[address]
	s.troubles[address] = why.kind
	s.mu.Unlock()
	if !told || before != why.kind {
		s.logger.Warn("a server is of no use; what runs goes on, and it is tried again", "server", address, "reason", why.text, "remedy", why.remedy)
	}
}

// tellLost says that a session is over, or why it was of no use from the start.
func (s *servers) tellLost(session *session) {
	why := s.explain(session.failure(), session.secured)
	if !session.useful.Load() {
		s.tell(session.address, why)
		return
	}
	if s.ctx.Err() == nil {
		s.mu.Lock()
		s.last = why
		s.mu.Unlock()
		s.logger.Warn("the connection to a server is lost; what runs goes on", "server", session.address, "reason", why.text)
	}
}

// answered notes that a server has answered a question of the node: only then the node is connected, as
// far as anybody is told.
func (s *servers) answered(session *session) {
	if session.useful.Swap(true) {
		return
	}
	s.mu.Lock()
	delete(s.troubles, session.address)
	s.last = trouble{}
	s.mu.Unlock()
	level := hclog.Info
	if session.planned {
		level = hclog.Debug
	}
	s.logger.Log(level, "connected to a server", "server", session.address, "region", s.region)
}
