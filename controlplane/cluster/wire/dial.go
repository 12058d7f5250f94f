package wire

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/yamux"
)

// What the first bytes of a connection and of a stream say.
const (
	byteTLS       = 0x04 // a TLS handshake follows
	byteMultiplex = 0x06 // yamux, each of whose streams says what it is for
	byteRPC       = 0x01 // requests and responses
	byteStreaming = 0x05 // one streaming request
)

// dialTimeout bounds a connection with its TLS handshake.
const dialTimeout = 10 * time.Second

// Options are those of a session.
type Options struct {
	// TLS is used where it is not nil. Its server's name is compared as it says.
	TLS *tls.Config
	// Handler answers what the other side asks; nil: it is told that there is no such method.
	Handler *Handler
	// Logger is told what goes wrong in the background. Nil: nothing is logged.
	Logger hclog.Logger

	start, write time.Duration // for tests; 0: startTimeout and writeTimeout
	asking       int64         // likewise; 0: maxAsking
}

// Dial connects to a server's RPC address ("host:port"). It does not wait for an answer: a
// port that speaks something else is noticed with the first call.
func Dial(ctx context.Context, address string, o Options) (*Session, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	s, err := greet(ctx, conn, o)
	if err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("%s: %w", address, err)
	}
	return s, nil
}

// greet says what the connection is for.
func greet(ctx context.Context, conn net.Conn, o Options) (*Session, error) {
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if o.TLS != nil {
		if _, err := conn.Write([]byte{byteTLS}); err != nil {
			return nil, err
		}
		secured := tls.Client(conn, o.TLS)
		if err := secured.HandshakeContext(ctx); err != nil {
			return nil, fmt.Errorf("TLS: %w", err)
		}
		conn = secured
	}
	seen := &seenConn{Conn: conn}
	if _, err := seen.Write([]byte{byteMultiplex}); err != nil {
		return nil, cmp.Or(seen.refusal(), err)
	}
	if !stop() {
		return nil, ctx.Err()
	}
	mux, err := yamux.Client(seen, muxConfig(o.Logger))
	if err != nil {
		return nil, err
	}
	session := newSession(mux, o)
	session.seen = seen
	return session, nil
}

// Accept takes the other side of a connection that a node has dialled, as a server does. It
// is there for simulated servers.
func Accept(ctx context.Context, conn net.Conn, o Options) (*Session, error) {
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if o.TLS != nil {
		if err := expect(conn, byteTLS); err != nil {
			return nil, err
		}
		conn = tls.Server(conn, o.TLS)
	}
	if err := expect(conn, byteMultiplex); err != nil {
		return nil, err
	}
	if !stop() {
		return nil, ctx.Err()
	}
	mux, err := yamux.Server(conn, muxConfig(o.Logger))
	if err != nil {
		return nil, err
	}
	return newSession(mux, o), nil
}

// expect reads a byte that must be the one that is told.
func expect(conn net.Conn, want byte) error {
	var b [1]byte
	if _, err := conn.Read(b[:]); err != nil {
		return err
	}
	if b[0] != want {
		return fmt.Errorf("%w: a connection that starts with byte %#02x instead of %#02x", ErrGarbage, b[0], want)
	}
	return nil
}

// muxConfig is yamux's own, but for where it logs.
func muxConfig(logger hclog.Logger) *yamux.Config {
	if logger == nil {
		logger = hclog.NewNullLogger()
	}
	c := yamux.DefaultConfig()
	c.LogOutput = nil
	c.Logger = logger.StandardLogger(&hclog.StandardLoggerOptions{ForceLevel: hclog.Debug})
	return c
}
