package host

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/host/outbound"
	"github.com/wasmnode/wasmnode/internal/grantsyntax"
	"github.com/wasmnode/wasmnode/internal/plaintext"
)

// NetGrant is what a plugin may connect to. The zero value permits nothing.
type NetGrant struct {
	// Addresses are HOST:PORT, or HOST:* for any port. HOST is an IP address, or a name in
	// small letters: what it means is looked up when it is dialled, and addresses of the
	// machine itself and of its link have to be granted by themselves.
	Addresses []string
	// Sockets are paths of unix sockets, with '*' for any text between two slashes.
	Sockets []string
	// Namespaces are the directories whose network namespaces a driver may name as those of
	// allocations' networks. Absolute, clean paths; no patterns.
	Namespaces []string
}

// HTTPGrant is which requests of HTTP a plugin may send. The zero value permits none.
type HTTPGrant struct {
	Endpoints []HTTPEndpoint
}

// HTTPEndpoint is a server and what may be asked of it.
type HTTPEndpoint struct {
	// Endpoint is "http://HOST[:PORT]", "https://HOST[:PORT]", or "unix:PATH" with '*' for any
	// text between two slashes.
	Endpoint string
	// Methods are those that may be used, "*" alone any; empty: GET and HEAD.
	Methods []string
	// Paths are those of URLs, with '*' for any text between two slashes, and a slash at the
	// end for all below. Empty: none.
	Paths []string
}

// empty reports whether nothing can be connected to.
func (g NetGrant) empty() bool { return len(g.Addresses) == 0 && len(g.Sockets) == 0 }

// address reports whether a host, a name or an IP address, is granted with a port.
func (g NetGrant) address(host string, port uint16) bool {
	return slices.Contains(g.Addresses, net.JoinHostPort(host, strconv.Itoa(int(port)))) ||
		slices.Contains(g.Addresses, net.JoinHostPort(host, grantsyntax.Any))
}

// socket reports whether the socket at that clean path is granted.
func (g NetGrant) socket(path string) bool {
	return slices.ContainsFunc(g.Sockets, func(granted string) bool { return outbound.MatchPath(granted, path) })
}

// readingMethods are those of an endpoint that names none.
var readingMethods = []string{"GET", "HEAD"}

// methods are those that may be used.
func (e HTTPEndpoint) methods() []string {
	if len(e.Methods) == 0 {
		return readingMethods
	}
	return e.Methods
}

// method reports whether a method may be used.
func (e HTTPEndpoint) method(name string) bool {
	return slices.Contains(e.methods(), grantsyntax.Any) || slices.Contains(e.methods(), name)
}

// is reports whether it is the endpoint of a target.
func (e HTTPEndpoint) is(t *outbound.Target) bool {
	if path, ok := strings.CutPrefix(e.Endpoint, grantsyntax.UnixEndpoint); ok {
		return t.Socket != "" && outbound.MatchPath(path, t.Socket)
	}
	_, _, canonical, err := grantsyntax.SplitEndpoint(e.Endpoint)
	return err == nil && t.Socket == "" && canonical == t.Endpoint
}

// request reports whether a request may be sent.
func (g HTTPGrant) request(method string, t *outbound.Target) bool {
	return slices.ContainsFunc(g.Endpoints, func(e HTTPEndpoint) bool {
		return e.is(t) && e.method(method) && t.Within(e.Paths)
	})
}

// address reports whether requests may be sent to an IP address by that itself.
func (g HTTPGrant) address(a netip.AddrPort) bool {
	return slices.ContainsFunc(g.Endpoints, func(e HTTPEndpoint) bool {
		host, port, _, err := grantsyntax.SplitEndpoint(e.Endpoint)
		return err == nil && host == a.Addr().String() && port == a.Port()
	})
}

// clone copies a grant, which its giver may change.
func (g HTTPGrant) clone() HTTPGrant {
	g.Endpoints = slices.Clone(g.Endpoints)
	for i, e := range g.Endpoints {
		g.Endpoints[i].Methods, g.Endpoints[i].Paths = slices.Clone(e.Methods), slices.Clone(e.Paths)
	}
	return g
}

// list is the grant for people: a word for each method and path of an endpoint.
func (g HTTPGrant) list() (out []string) {
	for _, e := range g.Endpoints {
		methods := strings.Join(e.methods(), ",")
		for _, p := range e.Paths {
			out = append(out, methods+":"+e.Endpoint+p)
		}
	}
	return out
}

// noConnections refuses all connections. What the plugin needs is not known here, so that the
// fix is one to complete.
func noConnections(plugin string) *MissingGrantError {
	return &MissingGrantError{plugin, abi.ModuleNet, netFix(plugin, `addresses = ["HOST:PORT"]`) + ", naming what it connects to; unix sockets are granted by sockets = [\"/PATH\"]"}
}

// noRequests refuses all requests of HTTP, likewise.
func noRequests(plugin string) *MissingGrantError {
	return &MissingGrantError{plugin, abi.ModuleHTTP, httpFix(plugin, "http://HOST:PORT", "GET", "/PATH") + ", naming the requests that it sends; a unix socket is \"unix:/PATH\""}
}

// netFix is the configuration that grants a plugin a connection.
func netFix(plugin, setting string) string {
	return fmt.Sprintf(`plugin %q { grant { net { %s } } }`, plugin, setting)
}

// httpFix is the configuration that grants a plugin a request.
func httpFix(plugin, endpoint, method, path string) string {
	methods := ""
	if !slices.Contains(readingMethods, method) {
		methods = fmt.Sprintf("methods = [%q] ", method)
	}
	return fmt.Sprintf(`plugin %q { grant { http { endpoint %q { %spaths = [%q] } } } }`, plugin, endpoint, methods, path)
}

// deniedNet refuses a connection and names the missing grant.
func deniedNet(plugin, key, what string) error {
	what = plaintext.Line(what, 256)
	if strings.Contains(what, grantsyntax.Any) {
		what = "…" // the plugin is not to write patterns into what the operator copies
	}
	return notGranted("connecting to "+what, netFix(plugin, fmt.Sprintf("%s = [%q]", key, what)))
}

// deniedHTTP refuses a request and names the missing grant. A target's endpoint has no patterns.
func deniedHTTP(plugin, method string, t *outbound.Target) error {
	path, endpoint := plaintext.Line(t.URL.Path, 256), plaintext.Line(t.Endpoint, 256)
	what := fmt.Sprintf("%s %s%s", method, endpoint, path)
	if strings.Contains(path, grantsyntax.Any) || grantsyntax.URLPath(path) != nil {
		path = "/…" // the plugin is not to write patterns into what the operator copies
	}
	return notGranted(what, httpFix(plugin, endpoint, method, path))
}
