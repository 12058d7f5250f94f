// Package plainhttp sends requests of HTTP without net/http: the capability
// wasmnode:http/v1 with a face so small that a plugin stays small. With net/http, and so with
// package httpclient, a plugin is 8 MB larger, which every instance of it pays for.
//
// A read of a response waits in the node, so that an instance that follows a log for days
// is never woken for nothing. The plugin's other goroutines stand still meanwhile; only after
// an upgrade (status 101) do they go on.
//
// Exchanges end with the operation that they were begun in.
package plainhttp

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/sdk/go/internal/hostcall"
	"github.com/wasmnode/wasmnode/sdk/go/internal/stream"
)

// Header is one line of a header.
type Header = wasmnodev1.HttpHeader

// TLS is how the other side of a connection is verified, and how it verifies this one.
type TLS = wasmnodev1.TlsOptions

// Request is what is sent. The node follows no redirect.
type Request struct {
	Method string
	// URL is absolute, its query escaped.
	URL string
	// Socket is the path of a unix socket to send it to; empty: the URL's host.
	Socket string
	// TLS is for a URL of https; nil: the roots of the node's system, for the host of the URL.
	TLS    *TLS
	Header []*Header
	Body   []byte
	// Stream, if it is not nil, is the body in place of Body, to its end. It is read until the
	// server takes no more: the response says why.
	Stream io.Reader
	// Timeout bounds the exchange, both bodies included; 0: the operation's deadline does.
	Timeout time.Duration
}

// Response is the head of a response, and reads its body.
type Response struct {
	Status int
	Header []*Header

	ctx context.Context // of the operation, for the host
	id  uint32
	raw *stream.Stream // after an upgrade
	end time.Time      // of the exchange; zero: that of the operation
}

// Do sends a request and waits for the head of the response, which is to be closed.
//
// # Errors
//
// Those of [httpclient.Transport.RoundTrip]; DEADLINE_EXCEEDED: r.Timeout is over, which a
// read of the response's body may find, too.
//
// [httpclient.Transport.RoundTrip]: https://pkg.go.dev/github.com/wasmnode/wasmnode/sdk/go/httpclient#Transport.RoundTrip
func Do(ctx context.Context, r *Request) (*Response, error) {
	var begun wasmnodev1.HttpRequestResponse
	m := &wasmnodev1.HttpRequest{Method: r.Method, Url: r.URL, Socket: r.Socket, Tls: r.TLS, Headers: r.Header, Body: r.Body}
	if r.Stream != nil {
		m.Streamed, m.ContentLength = true, -1
	}
	if err := hostcall.Ask(ctx, hostcall.HTTPRequest, m, &begun); err != nil {
		return nil, err
	}
	response := &Response{ctx: ctx, id: begun.Stream}
	if r.Timeout > 0 {
		response.end = time.Now().Add(r.Timeout)
	}
	if r.Stream != nil {
		if err := response.send(r.Stream); err != nil {
			_ = response.Close()
			return nil, err
		}
	}
	if err := response.head(); err != nil {
		_ = response.Close()
		return nil, err
	}
	return response, nil
}

const switchingProtocols = 101

// send sends the body. That the server takes no more of it is not an error: it has answered.
func (r *Response) send(body io.Reader) error {
	buffer := make([]byte, 32<<10)
	for {
		n, err := body.Read(buffer)
		for rest := buffer[:n]; len(rest) > 0; {
			if err := r.await(stream.Writable); err != nil {
				return err
			}
			written, failed := hostcall.StreamWrite(r.ctx, r.id, rest)
			if failed != nil {
				return nil
			}
			rest = rest[written:]
		}
		if errors.Is(err, io.EOF) {
			return hostcall.StreamShutdown(r.ctx, r.id)
		}
		if err != nil {
			return err
		}
	}
}

// head waits for the head.
func (r *Response) head() error {
	if err := r.await(stream.Response); err != nil {
		return err
	}
	answer, err := hostcall.HTTPResponse(r.ctx, r.id)
	if err != nil {
		return err
	}
	var head wasmnodev1.HttpResponse
	if err := head.UnmarshalVT(answer); err != nil {
		return err
	}
	r.Status, r.Header = int(head.Status), head.Headers
	if r.Status == switchingProtocols {
		r.raw, err = stream.New(r.ctx, r.id)
	}
	return err
}

// await waits for an event, where the exchange has an end of its own.
func (r *Response) await(event uint32) error {
	if r.end.IsZero() {
		return nil
	}
	holds, err := r.poll(event, time.Until(r.end))
	if err == nil && !holds {
		err = abi.NewRecoverableError(abi.DeadlineExceeded, "the server does not answer in time")
	}
	return err
}

// poll reports whether an event holds within a time.
func (r *Response) poll(event uint32, longest time.Duration) (bool, error) {
	var answer wasmnodev1.StreamPollResponse
	err := hostcall.Ask(r.ctx, hostcall.StreamPoll, &wasmnodev1.StreamPollRequest{
		Entries: []*wasmnodev1.StreamPollEntry{{Stream: r.id, Events: event}}, TimeoutMs: max(0, longest.Milliseconds()+1),
	}, &answer)
	return len(answer.Entries) > 0, err
}

// Await waits until a read of the body does not wait, for there are bytes, the end or an error, and
// reports whether that came within the time. The request's timeout is not regarded.
//
// # Errors
//
// NOT_FOUND: the response is closed.
func (r *Response) Await(longest time.Duration) (bool, error) {
	return r.poll(stream.Readable, longest)
}

// Get returns the first line of a header with that name, in any case; "" without one.
func (r *Response) Get(name string) string {
	for _, h := range r.Header {
		if strings.EqualFold(h.Name, name) {
			return h.Value
		}
	}
	return ""
}

// Read implements [io.Reader].
func (r *Response) Read(p []byte) (int, error) {
	switch {
	case len(p) == 0:
		return 0, nil
	case r.raw != nil:
		return r.raw.Read(p)
	}
	if err := r.await(stream.Readable); err != nil {
		return 0, err
	}
	n, err := hostcall.StreamRead(r.ctx, r.id, p)
	if err == nil && n == 0 {
		err = io.EOF
	}
	return n, err
}

var errNotUpgraded = errors.New("the response is no upgrade: nothing can be written")

// Write writes to a connection that was upgraded.
func (r *Response) Write(p []byte) (int, error) {
	if r.raw == nil {
		return 0, errNotUpgraded
	}
	return r.raw.Write(p)
}

// CloseWrite says that nothing more is written to a connection that was upgraded.
func (r *Response) CloseWrite() error {
	if r.raw == nil {
		return errNotUpgraded
	}
	return r.raw.CloseWrite()
}

// Close ends the exchange.
func (r *Response) Close() error {
	if r.raw != nil {
		return r.raw.Close()
	}
	return hostcall.StreamClose(r.ctx, r.id)
}
