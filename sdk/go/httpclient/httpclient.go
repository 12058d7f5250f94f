// Package httpclient sends requests of HTTP: the capability wasmnode:http/v1, which an
// operator has to grant, by server, method and path. [Transport] is an [http.RoundTripper],
// so that every client that takes an [http.Client] works.
//
// Exchanges end with the operation that they were begun in.
package httpclient

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/sdk/go/internal/hostcall"
	"github.com/wasmnode/wasmnode/sdk/go/internal/stream"
	"github.com/wasmnode/wasmnode/sdk/go/network"
)

// Transport has the node send requests. The node follows no redirect and asks no proxy, speaks
// HTTP/1.1 and keeps connections; an [http.Client] that follows redirects asks the node again,
// and needs the grant again. The zero value is ready.
type Transport struct {
	// Socket is the path of a unix socket of the node's that all requests go to; empty: the
	// host of the URL. The host is the Host header then.
	Socket string
	// TLS is of requests with https; nil: the roots of the node's system.
	TLS *network.TLS
}

// inlineBody is up to how many bytes a body whose length is known is handed over at once.
const inlineBody = 64 << 10

// RoundTrip implements [http.RoundTripper]. The body of a response with status 101 is also an
// [io.Writer], and has CloseWrite.
//
// # Errors
//
// PERMISSION_DENIED: what the operator did not grant; the text has the grant to add.
// NOT_FOUND: no such name or socket; UNAVAILABLE: nobody answers; RESOURCE_EXHAUSTED: too many
// streams are open; INVALID_ARGUMENT: what is no request of HTTP, or could be read as another
// one. Otherwise the context's.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx := r.Context()
	s, err := t.begin(ctx, r)
	if err != nil {
		closeBody(r)
		return nil, err
	}
	head, err := headOf(ctx, s)
	if err != nil {
		_ = s.Close()
		return nil, err
	}
	return response(r, s, head), nil
}

// headOf waits for the head of the response.
func headOf(ctx context.Context, s *stream.Stream) (*wasmnodev1.HttpResponse, error) {
	if err := s.Await(ctx, stream.Response); err != nil {
		return nil, err
	}
	answer, err := hostcall.HTTPResponse(ctx, s.ID())
	if err != nil {
		return nil, err
	}
	head := &wasmnodev1.HttpResponse{}
	return head, head.UnmarshalVT(answer)
}

// begin hands the request over.
func (t *Transport) begin(ctx context.Context, r *http.Request) (*stream.Stream, error) {
	m, err := t.message(r)
	if err != nil {
		return nil, err
	}
	var begun wasmnodev1.HttpRequestResponse
	if err := hostcall.Ask(ctx, hostcall.HTTPRequest, m, &begun); err != nil {
		return nil, err
	}
	s, err := stream.New(ctx, begun.Stream)
	if err != nil {
		return nil, err
	}
	if m.Streamed {
		go send(s, r)
	}
	return s, nil
}

// message is the request in the words of the contract.
func (t *Transport) message(r *http.Request) (*wasmnodev1.HttpRequest, error) {
	u := *r.URL
	u.Fragment, u.RawFragment, u.User = "", "", nil // of these a server gets nothing in the URL
	if r.Host != "" && t.Socket != "" {
		u.Host = r.Host
	}
	m := &wasmnodev1.HttpRequest{Method: r.Method, Url: u.String(), Socket: t.Socket}
	if m.Method == "" {
		m.Method = http.MethodGet
	}
	if u.Scheme == "https" {
		m.Tls = t.TLS
	}
	for name, values := range r.Header {
		for _, v := range values {
			m.Headers = append(m.Headers, &wasmnodev1.HttpHeader{Name: name, Value: v})
		}
	}
	switch {
	case r.Body == nil || r.Body == http.NoBody:
	case r.ContentLength > 0 && r.ContentLength <= inlineBody:
		defer closeBody(r)
		var body bytes.Buffer
		if _, err := io.CopyN(&body, r.Body, r.ContentLength); err != nil {
			return nil, err
		}
		m.Body = body.Bytes()
	default:
		m.Streamed, m.ContentLength = true, r.ContentLength
		if r.ContentLength == 0 {
			m.ContentLength = -1 // as net/http has it: a body of a length that is not known
		}
	}
	return m, nil
}

func closeBody(r *http.Request) {
	if r.Body != nil {
		_ = r.Body.Close()
	}
}

// send streams a body. What goes wrong, the response tells: a server may answer without
// reading all of it.
func send(s *stream.Stream, r *http.Request) {
	defer closeBody(r)
	if _, err := io.Copy(s, r.Body); err == nil {
		_ = s.CloseWrite()
	}
}

// response is the node's answer in the words of net/http.
func response(r *http.Request, s *stream.Stream, head *wasmnodev1.HttpResponse) *http.Response {
	out := &http.Response{
		Status: strings.TrimSpace(strconv.Itoa(int(head.Status)) + " " + http.StatusText(int(head.Status))), StatusCode: int(head.Status),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{}, ContentLength: head.ContentLength, Request: r,
	}
	for _, h := range head.Headers {
		out.Header.Add(h.Name, h.Value)
	}
	b := body{s: s, ctx: r.Context(), response: out}
	if out.Body = b; head.Status == http.StatusSwitchingProtocols {
		out.Body = rawBody{b}
	}
	return out
}

// body reads a response.
type body struct {
	s        *stream.Stream
	ctx      context.Context // the request's
	response *http.Response
}

// Read implements [io.Reader].
func (b body) Read(p []byte) (int, error) {
	n, err := b.s.ReadUntil(b.ctx, p)
	if errors.Is(err, io.EOF) {
		b.trailers()
	}
	return n, err
}

// trailers are read where there are any.
func (b body) trailers() {
	answer, err := hostcall.HTTPTrailers(b.ctx, b.s.ID())
	if err != nil {
		return
	}
	var m wasmnodev1.HttpTrailers
	if m.UnmarshalVT(answer) != nil || len(m.Trailers) == 0 {
		return
	}
	b.response.Trailer = http.Header{}
	for _, h := range m.Trailers {
		b.response.Trailer.Add(h.Name, h.Value)
	}
}

// Close implements [io.Closer].
func (b body) Close() error {
	_ = b.s.Close() // closing twice is allowed
	return nil
}

// rawBody is a connection that was upgraded.
type rawBody struct{ body }

// Write implements [io.Writer].
func (b rawBody) Write(p []byte) (int, error) { return b.s.Write(p) }

// CloseWrite says that nothing more is written.
func (b rawBody) CloseWrite() error { return b.s.CloseWrite() }
