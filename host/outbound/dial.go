package outbound

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"time"

	"github.com/wasmnode/wasmnode/abi"
)

// DialTime is how long connecting may take where nothing else is said, the lookup of a name
// and the handshake of TLS included.
const DialTime = 10 * time.Second

// Lookup returns the addresses of a name.
type Lookup func(ctx context.Context, name string) ([]netip.Addr, error)

// SystemLookup asks the machine's resolver.
func SystemLookup(ctx context.Context, name string) ([]netip.Addr, error) {
	return net.DefaultResolver.LookupNetIP(ctx, "ip", name)
}

// Dialer connects. It is safe for concurrent use.
type Dialer struct {
	// Lookup is how names become addresses.
	Lookup Lookup
	// Permitted returns nil where an address of the machine itself or of its link may be
	// dialled that a name has, and the refusal otherwise: who is granted a name has not been
	// granted whatever somebody makes of it.
	Permitted func(netip.AddrPort) error
}

// TCP connects to a host, a name or an IP address. The context bounds it.
//
// # Errors
//
// Those of Permitted; NOT_FOUND: there is no such name; DEADLINE_EXCEEDED; UNAVAILABLE,
// recoverable: nobody answers.
func (d Dialer) TCP(ctx context.Context, host string, port uint16) (net.Conn, error) {
	addresses, err := d.addresses(ctx, host, port)
	if err != nil {
		return nil, err
	}
	for _, a := range addresses {
		var conn net.Conn
		if conn, err = (&net.Dialer{}).DialContext(ctx, "tcp", a.String()); err == nil {
			return conn, nil
		}
		if ctx.Err() != nil {
			break
		}
	}
	return nil, unreachable(ctx, net.JoinHostPort(host, strconv.Itoa(int(port))), err)
}

// addresses returns what may be dialled, of which there is at least one.
func (d Dialer) addresses(ctx context.Context, host string, port uint16) (out []netip.AddrPort, err error) {
	if ip, err := netip.ParseAddr(host); err == nil {
		return []netip.AddrPort{netip.AddrPortFrom(ip, port)}, nil
	}
	found, err := d.Lookup(ctx, host)
	if err != nil {
		return nil, unresolved(ctx, host, err)
	}
	var refused error
	for _, ip := range found {
		a := netip.AddrPortFrom(ip.Unmap(), port)
		if local(a.Addr()) {
			if err := d.Permitted(a); err != nil {
				refused = err
				continue
			}
		}
		out = append(out, a)
	}
	switch {
	case len(out) > 0:
		return out, nil
	case refused != nil:
		return nil, refused
	}
	return nil, unresolved(ctx, host, errors.New("it has no address"))
}

// local reports whether an address is the machine's own or of its link, or nobody's: behind
// those are services that trust whoever reaches them.
func local(ip netip.Addr) bool {
	return ip.IsLoopback() || ip.IsUnspecified() || ip.IsLinkLocalUnicast() || ip.IsMulticast()
}

// unresolved is a name without addresses.
func unresolved(ctx context.Context, host string, err error) error {
	var dns *net.DNSError
	if errors.As(err, &dns) && dns.IsNotFound {
		return abi.NewError(abi.NotFound, fmt.Sprintf("looking up %s: there is no such name", host))
	}
	return unreachable(ctx, host, err)
}

// unreachable is what does not answer, with the cause but for what it repeats.
func unreachable(ctx context.Context, what string, err error) error {
	if ctx.Err() != nil {
		return abi.NewRecoverableError(abi.DeadlineExceeded, fmt.Sprintf("connecting to %s: it does not answer in time", what))
	}
	var op *net.OpError
	if errors.As(err, &op) {
		err = op.Err
	}
	return abi.NewRecoverableError(abi.Unavailable, fmt.Sprintf("connecting to %s: %v", what, err))
}
