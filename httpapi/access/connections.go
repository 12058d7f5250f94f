package access

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
)

// extraConnections are how many connections above the limit are served one answer, which
// says so. Those above them are closed without a word.
const extraConnections = 64

// connections counts open connections.
type connections struct {
	limit int64
	open  atomic.Int64
}

// Listener bounds the connections of a listener. What is accepted above the limit is
// counted as refused, and gets a 429 where there are few such.
func (b *Bounds) Listener(l net.Listener) net.Listener { return &listener{l, b} }

type listener struct {
	net.Listener
	bounds *Bounds
}

// Accept implements [net.Listener].
func (l *listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		all := &l.bounds.connections
		n := all.open.Add(1)
		if n > all.limit+extraConnections {
			all.open.Add(-1)
			l.bounds.Count("connections")
			_ = c.Close() // nobody is told
			continue
		}
		return &connection{Conn: c, all: all, extra: n > all.limit}, nil
	}
}

// connection is counted until it is closed.
type connection struct {
	net.Conn
	all   *connections
	extra bool // it is above the limit
	once  sync.Once
}

// Close implements [net.Conn].
func (c *connection) Close() error {
	c.once.Do(func() { c.all.open.Add(-1) })
	return c.Conn.Close()
}

// NetConn is the connection below; it is how those who want its own methods find it.
func (c *connection) NetConn() net.Conn { return c.Conn }

type extraKey struct{}

// ConnContext is for [http.Server]: it marks the connections above the limit.
func ConnContext(ctx context.Context, c net.Conn) context.Context {
	for {
		switch below := c.(type) {
		case *connection:
			if below.extra {
				return context.WithValue(ctx, extraKey{}, true)
			}
			return ctx
		case interface{ NetConn() net.Conn }: // TLS
			c = below.NetConn()
		default:
			return ctx
		}
	}
}

func isExtra(ctx context.Context) bool { return ctx.Value(extraKey{}) != nil }
