package wire

import (
	"errors"
	"fmt"
	"net"
	"sync"
)

// maxSeen is how many of the first bytes of a connection are kept.
const maxSeen = 40

// muxVersion is what each frame of a session starts with.
const muxVersion = 0

// A ForeignError is of a connection whose other side speaks something else.
type ForeignError struct{ First []byte } // what it has sent first, in part

// Error shows what was sent.
func (e *ForeignError) Error() string {
	return fmt.Sprintf("it answers %q, which is none of the protocol of Nomad's servers", e.First)
}

// seenConn is a connection that keeps what came first and what has ended it, which the sessions on it do
// not tell.
type seenConn struct {
	net.Conn

	mu    sync.Mutex
	first []byte
	ended error
}

// Read implements [net.Conn].
func (c *seenConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.first = append(c.first, p[:min(n, maxSeen-len(c.first))]...)
	if c.ended == nil {
		c.ended = err
	}
	return n, err
}

// Refusal is what the other side has said instead of the protocol: a [ForeignError], or an alert of TLS.
// Nil: nothing of that kind.
func (s *Session) Refusal() error {
	if s.seen == nil {
		return nil
	}
	s.seen.mu.Lock()
	defer s.seen.mu.Unlock()
	var alert *net.OpError
	switch {
	case len(s.seen.first) > 0 && s.seen.first[0] != muxVersion:
		return &ForeignError{s.seen.first}
	case errors.As(s.seen.ended, &alert) && alert.Op == "remote error":
		return alert
	}
	return nil
}
