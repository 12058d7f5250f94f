package host

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/netip"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/host/outbound"
	"github.com/wasmnode/wasmnode/sandbox"
)

// httpFuncs is wasmnode:http/v1: requests of HTTP.
var httpFuncs = map[string]sandbox.HostFunc{
	abi.FuncHTTPRequest: structured(httpRequest),
	abi.FuncHTTPResponse: aboutStream(func(ctx context.Context, c *call, id uint32) (Message, error) {
		r, err := c.streams().Response(ctx, id)
		if err != nil {
			return nil, err
		}
		return &wasmnodev1.HttpResponse{Status: uint32(r.StatusCode), Headers: outbound.Headers(r.Header), ContentLength: r.ContentLength}, nil
	}),
	abi.FuncHTTPTrailers: aboutStream(func(_ context.Context, c *call, id uint32) (Message, error) {
		trailer, err := c.streams().Trailers(id)
		if err != nil {
			return nil, err
		}
		return &wasmnodev1.HttpTrailers{Trailers: outbound.Headers(trailer)}, nil
	}),
}

// httpRequest begins to send a request, if it is granted.
func httpRequest(_ context.Context, c *call, request []byte) (Message, error) {
	m := &wasmnodev1.HttpRequest{}
	if err := decode(request, m); err != nil {
		return nil, abi.NewError(abi.InvalidArgument, "not an HttpRequest message")
	}
	s := c.plugin.pool.settings()
	if s == nil {
		return nil, abi.NewError(abi.PermissionDenied, "requests: not before the plugin is configured")
	}
	r, err := outbound.NewRequest(m)
	if err != nil {
		return nil, err
	}
	if !s.grants.HTTP.request(r.Method, r.Target) {
		return nil, deniedHTTP(c.plugin.Name(), r.Method, r.Target)
	}
	r.Dialer = c.plugin.dialer(s, func(a netip.AddrPort) error {
		alike := *r.Target
		alike.Endpoint = r.Target.URL.Scheme + "://" + a.String()
		return deniedHTTP(c.plugin.Name(), r.Method, &alike)
	})
	opened, err := c.openStream()
	if err != nil {
		return nil, err
	}
	c.plugin.counters.opened(abi.ModuleHTTP)
	opened.Exchange(r.Streamed, func(ctx context.Context, body io.ReadCloser) (*http.Response, net.Conn, error) {
		return s.http.Do(ctx, r, body)
	})
	return &wasmnodev1.HttpRequestResponse{Stream: opened.ID}, nil
}
