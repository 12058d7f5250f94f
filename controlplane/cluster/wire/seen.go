package wire

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// maxSeen is how many of the first bytes of a connection are kept.
const maxSeen = 40

// lastWords is how long what the other side has said before it closed a connection is waited for.
const lastWords = time.Second

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

// Write implements [net.Conn]. Where the other side has closed the connection, what it said before tells
// why, and is read first: with TLS 1.3 it refuses a certificate when this side is done with its own part.
func (c *seenConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if err != nil {
		_ = c.SetReadDeadline(time.Now().Add(lastWords)) // errors: it is closed here, too, and the read tells so
		_, _ = c.Read(make([]byte, 1))
	}
	return n, err
}

// Refusal is what the other side has said instead of the protocol: a [ForeignError], or an alert of TLS.
// Nil: nothing of that kind.
func (s *Session) Refusal() error {
	if s.seen == nil {
		return nil
	}
	return s.seen.refusal()
}

func (c *seenConn) refusal() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var alert *net.OpError
	switch {
	case len(c.first) > 0 && c.first[0] != muxVersion:
		return &ForeignError{c.first}
	case errors.As(c.ended, &alert) && alert.Op == "remote error":
		return alert
	}
	return nil
}
