package outbound

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"slices"
	"strings"
	"time"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
)

// The bounds of requests and responses.
const (
	// MaxHeaders and MaxHeaderBytes are of a request; a cookie has 4 KiB at most.
	MaxHeaders     = 256
	MaxHeaderBytes = 64 << 10
	// MaxResponseHeaderBytes is of a response.
	MaxResponseHeaderBytes = 256 << 10

	idleTime        = 30 * time.Second // for which a connection is kept for the next request
	idleConnections = 16               // of a plugin, in all
	idlePerHost     = 4
)

// Client sends requests of HTTP/1.1 and keeps connections for the next ones. It follows no
// redirect, asks no proxy and unpacks nothing. It is safe for concurrent use.
type Client struct{ transport http.Transport }

// NewClient returns a client without connections. What it keeps, [Client.Close] ends.
func NewClient() *Client {
	c := &Client{}
	c.transport = http.Transport{
		DialContext:            c.dial,
		DialTLSContext:         c.dial,
		DisableCompression:     true,
		MaxIdleConns:           idleConnections,
		MaxIdleConnsPerHost:    idlePerHost,
		IdleConnTimeout:        idleTime,
		ExpectContinueTimeout:  time.Second,
		MaxResponseHeaderBytes: MaxResponseHeaderBytes,
	}
	return c
}

// Close ends the connections that are kept. It may be called again.
func (c *Client) Close() { c.transport.CloseIdleConnections() }

// Request is a request that may be sent.
type Request struct {
	Method string
	Target *Target
	Header http.Header
	TLS    *wasmnodev1.TlsOptions // nil: the system's roots
	// Body is sent where Streamed is not set; Length is of a streamed body, below 0: unknown.
	Body     []byte
	Streamed bool
	Length   int64
	Dialer   Dialer
}

// NewRequest reads a plugin's request, and checks all but what needs a grant.
//
// # Errors
//
// INVALID_ARGUMENT.
func NewRequest(m *wasmnodev1.HttpRequest) (*Request, error) {
	target, err := ParseTarget(m.Url, m.Socket)
	if err != nil {
		return nil, err
	}
	r := &Request{Method: m.Method, Target: target, TLS: m.Tls, Body: m.Body, Streamed: m.Streamed, Length: m.ContentLength}
	switch {
	case m.Method == "" || m.Method == http.MethodConnect || !isToken(m.Method):
		return nil, abi.NewError(abi.InvalidArgument, fmt.Sprintf("%q is not a method", m.Method[:min(len(m.Method), 64)]))
	case m.Tls != nil && target.URL.Scheme != "https":
		return nil, abi.NewError(abi.InvalidArgument, "options for TLS, but the URL is not one of https")
	case m.Streamed && len(m.Body) > 0:
		return nil, abi.NewError(abi.InvalidArgument, "a body that is streamed, and one that is not")
	}
	if r.Header, err = header(m.Headers); err != nil {
		return nil, err
	}
	_, err = tlsConfig(m.Tls, target.Host)
	return r, err
}

// perConnection are the headers that are between two neighbours, which the node decides.
var perConnection = []string{"Connection", "Content-Length", "Keep-Alive", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade"}

// header reads the headers of a request.
func header(lines []*wasmnodev1.HttpHeader) (http.Header, error) {
	refused := func(text string) error { return abi.NewError(abi.InvalidArgument, "header: "+text) }
	h, size := http.Header{}, 0
	for _, l := range lines {
		if size += len(l.Name) + len(l.Value) + len(": \r\n"); size > MaxHeaderBytes || len(lines) > MaxHeaders {
			return nil, refused(fmt.Sprintf("more than %d lines or %d bytes", MaxHeaders, MaxHeaderBytes))
		}
		if !isToken(l.Name) || strings.ContainsFunc(l.Value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
			return nil, refused(fmt.Sprintf("%q has a name or a value that is none", l.Name[:min(len(l.Name), 64)]))
		}
		if textproto.CanonicalMIMEHeaderKey(l.Name) == "Host" {
			return nil, refused("Host is the URL's")
		}
		h.Add(l.Name, l.Value)
	}
	upgrade, asked := h.Get("Upgrade"), hasToken(h.Values("Connection"), "upgrade")
	for _, name := range perConnection {
		h.Del(name)
	}
	if upgrade != "" && asked {
		h.Set("Connection", "Upgrade")
		h.Set("Upgrade", upgrade)
	}
	if _, said := h["User-Agent"]; !said {
		h["User-Agent"] = nil // none of Go's
	}
	return h, nil
}

// hasToken reports whether a list of words, separated by commas, has one.
func hasToken(lists []string, token string) bool {
	return slices.ContainsFunc(strings.Split(strings.Join(lists, ","), ","), func(s string) bool {
		return strings.EqualFold(strings.TrimSpace(s), token)
	})
}

// isToken reports whether a text is a name as HTTP has them.
func isToken(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return r <= ' ' || r >= 0x7f || strings.ContainsRune(`()<>@,;:\"/[]?={}`, r)
	})
}

type requestKey struct{}

// Do sends a request; body is its body where that is streamed. The connection is set where it
// has become a raw one. The context ends the request, its response included.
func (c *Client) Do(ctx context.Context, r *Request, body io.ReadCloser) (*http.Response, net.Conn, error) {
	var used net.Conn
	ctx = context.WithValue(ctx, requestKey{}, r)
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) { used = i.Conn }})
	u := *r.Target.URL
	u.Host = r.connectionKey()
	out := (&http.Request{Method: r.Method, URL: &u, Host: r.Target.URL.Host, Header: r.Header, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}).WithContext(ctx)
	switch {
	case r.Streamed:
		out.Body, out.ContentLength = body, r.Length
		if r.Length == 0 {
			out.Body = http.NoBody
		}
	case len(r.Body) > 0:
		out.Body, out.ContentLength = io.NopCloser(bytes.NewReader(r.Body)), int64(len(r.Body))
	}
	response, err := c.transport.RoundTrip(out)
	switch {
	case err != nil:
		return nil, nil, err
	case response.StatusCode == http.StatusSwitchingProtocols:
		return response, used, nil
	}
	return response, nil, nil
}

// connectionKey is the same for requests that may share a connection, and stands for a host in
// the URL that the transport gets: it goes by that alone.
func (r *Request) connectionKey() string {
	digest := sha256.New()
	for _, part := range [][]byte{
		[]byte(r.Target.Endpoint), []byte(r.TLS.GetServerName()), r.TLS.GetRootsPem(), r.TLS.GetCertificatePem(), r.TLS.GetKeyPem(),
	} {
		fmt.Fprintf(digest, "%d:%s", len(part), part)
	}
	return hex.EncodeToString(digest.Sum(nil))
}

// dial makes a connection for the request in the context.
func (c *Client) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	r := ctx.Value(requestKey{}).(*Request)
	ctx, cancel := context.WithTimeout(ctx, DialTime)
	defer cancel()
	if r.Target.Socket != "" {
		return Socket(ctx, r.Target.Socket)
	}
	conn, err := r.Dialer.TCP(ctx, r.Target.Host, r.Target.Port)
	if err != nil || r.Target.URL.Scheme != "https" {
		return conn, err
	}
	config, err := tlsConfig(r.TLS, r.Target.Host)
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return secure(ctx, conn, config)
}

// Headers are a header's lines, in the order of their names.
func Headers(h http.Header) (lines []*wasmnodev1.HttpHeader) {
	for name, values := range h {
		for _, v := range values {
			lines = append(lines, &wasmnodev1.HttpHeader{Name: name, Value: v})
		}
	}
	slices.SortStableFunc(lines, func(a, b *wasmnodev1.HttpHeader) int { return cmp.Compare(a.Name, b.Name) })
	return lines
}
