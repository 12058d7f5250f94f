// Package network connects to servers, over TCP and to unix sockets of the node: the
// capability wasmnode:net/v1, which an operator has to grant, address by address. The sockets
// below a task's own directory need no grant in operations about that task. What it returns
// is a [net.Conn], for every client that can be given one.
//
// Connections end with the operation that they were made in: make them in each, not in
// Configure. For HTTP there is the package httpclient.
package network

import (
	"cmp"
	"context"
	"net"
	"time"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/sdk/go/internal/hostcall"
	"github.com/wasmnode/wasmnode/sdk/go/internal/stream"
)

// TLS is how the other side of a connection is verified; the zero value: by the roots of the
// node's system, for the host of the address.
type TLS = wasmnodev1.TlsOptions

// Dialer connects.
type Dialer struct {
	// Timeout is for connecting, a name's lookup and TLS included; 0: ten seconds.
	Timeout time.Duration
	// TLS, where it is set, is spoken on the connection, by the node.
	TLS *TLS
}

// Dial connects with a [Dialer] that says nothing.
func Dial(ctx context.Context, network, address string) (net.Conn, error) {
	return (&Dialer{}).DialContext(ctx, network, address)
}

// DialContext connects: network is "tcp" and address HOST:PORT, or network is "unix" and
// address the path of a socket. It has the form that the standard library's users ask for.
//
// # Errors
//
// PERMISSION_DENIED: what the operator did not grant; the text has the grant to add.
// NOT_FOUND: no such name or socket; UNAVAILABLE: nobody answers; DEADLINE_EXCEEDED;
// RESOURCE_EXHAUSTED: too many streams are open.
func (d *Dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	request := &wasmnodev1.NetDialRequest{Tls: d.TLS}
	switch network {
	case "tcp", "tcp4", "tcp6":
		request.Address = address
	case "unix":
		request.Socket = address
	default:
		return nil, abi.NewError(abi.InvalidArgument, "network "+network+": there are tcp and unix")
	}
	timeout := d.Timeout
	if deadline, ok := ctx.Deadline(); ok {
		left := max(time.Until(deadline), time.Millisecond)
		timeout = min(cmp.Or(timeout, left), left)
	}
	request.TimeoutMs = timeout.Milliseconds()
	var response wasmnodev1.NetDialResponse
	if err := hostcall.Ask(ctx, hostcall.NetDial, request, &response); err != nil {
		return nil, err
	}
	s, err := stream.New(ctx, response.Stream)
	if err != nil {
		return nil, err
	}
	return &conn{s, addr{network, response.Remote}}, nil
}

// conn is a connection that the node has.
type conn struct {
	*stream.Stream
	remote addr
}

// addr is an address as the node writes it.
type addr struct{ network, text string }

// Network implements [net.Addr].
func (a addr) Network() string { return a.network }

// String implements [net.Addr].
func (a addr) String() string { return a.text }

// LocalAddr implements [net.Conn]: the node's own end is not told.
func (c *conn) LocalAddr() net.Addr { return addr{c.remote.network, ""} }

// RemoteAddr implements [net.Conn].
func (c *conn) RemoteAddr() net.Addr { return c.remote }

// SetDeadline implements [net.Conn].
func (c *conn) SetDeadline(t time.Time) error { c.SetDeadlines(&t, &t); return nil }

// SetReadDeadline implements [net.Conn].
func (c *conn) SetReadDeadline(t time.Time) error { c.SetDeadlines(&t, nil); return nil }

// SetWriteDeadline implements [net.Conn].
func (c *conn) SetWriteDeadline(t time.Time) error { c.SetDeadlines(nil, &t); return nil }
