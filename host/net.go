package host

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/host/outbound"
	"github.com/wasmnode/wasmnode/internal/grantsyntax"
	"github.com/wasmnode/wasmnode/sandbox"
)

// netFuncs is wasmnode:net/v1: connections.
var netFuncs = map[string]sandbox.HostFunc{abi.FuncNetDial: structured(netDial)}

// netDial connects to what was granted.
func netDial(ctx context.Context, c *call, request []byte) (Message, error) {
	r := &wasmnodev1.NetDialRequest{}
	if err := decode(request, r); err != nil {
		return nil, abi.NewError(abi.InvalidArgument, "not a NetDialRequest message")
	}
	s := c.plugin.pool.settings()
	switch {
	case s == nil:
		return nil, abi.NewError(abi.PermissionDenied, "connecting: not before the plugin is configured")
	case (r.Address == "") == (r.Socket == ""):
		return nil, abi.NewError(abi.InvalidArgument, "either an address or a socket has to be set")
	case r.TimeoutMs < 0:
		return nil, abi.NewError(abi.InvalidArgument, "timeout_ms is negative")
	}
	dial, err := c.dialOf(r, s)
	if err != nil {
		return nil, err
	}
	opened, err := c.openStream()
	if err != nil {
		return nil, err
	}
	timeout := outbound.DialTime
	if r.TimeoutMs > 0 {
		timeout = milliseconds(r.TimeoutMs)
	}
	conn, err := dialWithin(ctx, timeout, dial)
	if err != nil {
		opened.Discard()
		return nil, err
	}
	c.plugin.counters.opened(abi.ModuleNet)
	opened.Connect(conn)
	answer := &wasmnodev1.NetDialResponse{Stream: opened.ID, Remote: r.Socket}
	if r.Socket == "" {
		answer.Remote = conn.RemoteAddr().String()
	}
	return answer, nil
}

type dialFunc func(ctx context.Context) (net.Conn, error)

// dialWithin dials, and the guest waits.
func dialWithin(ctx context.Context, timeout time.Duration, dial dialFunc) (net.Conn, error) {
	defer sandbox.Pause(ctx)()
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return dial(ctx)
}

// dialOf returns how a connection is made, if it is granted.
func (c *call) dialOf(r *wasmnodev1.NetDialRequest, s *settings) (dialFunc, error) {
	host, connect, err := c.connectOf(r, s)
	if err != nil || r.Tls == nil {
		return connect, err
	}
	return func(ctx context.Context) (net.Conn, error) {
		conn, err := connect(ctx)
		if err != nil {
			return nil, err
		}
		return outbound.Secure(ctx, conn, r.Tls, host)
	}, nil
}

// connectOf is dialOf without TLS; host is whom a certificate has to name.
func (c *call) connectOf(r *wasmnodev1.NetDialRequest, s *settings) (host string, _ dialFunc, _ error) {
	if r.Socket != "" {
		connect, err := c.socketOf(r.Socket, s.grants.Net)
		return "", connect, err
	}
	p := c.plugin
	host, port, err := outbound.SplitAddress(r.Address)
	if err != nil {
		return "", nil, err
	}
	if !s.grants.Net.address(host, port) {
		return "", nil, deniedNet(p.Name(), "addresses", net.JoinHostPort(host, fmt.Sprint(port)))
	}
	dialer := p.dialer(s, func(a netip.AddrPort) error { return deniedNet(p.Name(), "addresses", a.String()) })
	return host, func(ctx context.Context) (net.Conn, error) { return dialer.TCP(ctx, host, port) }, nil
}

// socketOf is connectOf for a unix socket. Those of the task's own need no grant in calls
// about it: what runs in the task is the driver's to talk to.
func (c *call) socketOf(path string, g NetGrant) (dialFunc, error) {
	if err := grantsyntax.Path(path); err != nil {
		return nil, abi.NewError(abi.InvalidArgument, fmt.Sprintf("the socket %v", err))
	}
	if g.socket(path) {
		return func(ctx context.Context) (net.Conn, error) { return outbound.Socket(ctx, path) }, nil
	}
	if own := c.taskDirectory(); own != "" && strings.HasPrefix(path, own+"/") {
		return func(ctx context.Context) (net.Conn, error) { return outbound.SocketBelow(ctx, own, path) }, nil
	}
	return nil, deniedNet(c.plugin.Name(), "sockets", path)
}

// taskDirectory is the directory of the task that the call is about, empty if there is none.
func (c *call) taskDirectory() string {
	if c.scope == nil {
		return ""
	}
	return c.scope.Config.GetDirectories().GetTask()
}

// dialer connects for the plugin; refuse is the refusal of a name's address that has to be
// granted by itself.
func (p *Plugin) dialer(s *settings, refuse func(netip.AddrPort) error) outbound.Dialer {
	return outbound.Dialer{Lookup: p.host.cfg.Lookup, Permitted: func(a netip.AddrPort) error {
		if s.grants.Net.address(a.Addr().String(), a.Port()) || s.grants.HTTP.address(a) {
			return nil
		}
		return refuse(a)
	}}
}
