package stream

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"

	"github.com/wasmnode/wasmnode/abi"
)

// exchange is what a stream of HTTP has beside its bytes. It is guarded by the table's lock.
type exchange struct {
	answered bool
	response *http.Response // only its head is the guest's to see
	err      error          // why there is none
}

// RoundTrip sends a request, whose body is to be read from the reader, and returns the
// response, and the connection where it has become a raw one (status 101).
type RoundTrip func(ctx context.Context, body io.ReadCloser) (*http.Response, net.Conn, error)

// requestBody is what the guest writes of a request.
type requestBody struct{ *Stream }

// errUnread is what the guest gets for writing more of a body than the server wants.
var errUnread = abi.NewError(abi.Unavailable, "writing: the server does not read the rest of the request's body")

// Close implements [io.Closer]: nobody reads on.
func (b requestBody) Close() error {
	b.table.mu.Lock()
	if b.conn == nil && b.out.err == nil {
		b.out.data, b.out.err = nil, errUnread
	}
	b.table.mu.Unlock()
	b.table.changed.Set()
	return nil
}

// Exchange makes the stream one of HTTP: writing is the request's body if that is streamed,
// reading the response's.
func (s *Stream) Exchange(streamed bool, do RoundTrip) {
	s.table.mu.Lock()
	s.exchange = &exchange{}
	if !streamed {
		s.out.err = errReadOnly
	}
	s.table.mu.Unlock()
	s.work.Go(func() {
		response, conn, err := do(s.ctx, requestBody{s})
		if err != nil {
			err = failure("the request", err)
		}
		s.answer(response, conn, err)
		if err != nil {
			s.offer(nil, err)
			return
		}
		defer func() { _ = response.Body.Close() }() // what is wrong with it, reading it has told
		s.fill(response.Body)
	})
}

// answer notes the head of a response. The connection of an upgrade is the stream's from now
// on, both ways.
func (s *Stream) answer(response *http.Response, conn net.Conn, err error) {
	s.table.mu.Lock()
	s.exchange.answered, s.exchange.response, s.exchange.err = true, response, err
	switch {
	case err != nil:
		s.out.data, s.out.err = nil, err
	case conn != nil:
		s.own(conn)
		s.out.err = nil
	}
	s.table.mu.Unlock()
	s.table.changed.Set()
}

// Response waits for the head of a response; its body is the stream's to read. It is the
// guest's, and waits also where reads do not.
//
// # Errors
//
// NOT_FOUND: no such stream; FAILED_PRECONDITION: it is none of HTTP; otherwise why there is
// no response.
func (t *Table) Response(ctx context.Context, id uint32) (r *http.Response, err error) {
	answered := t.wait(ctx, -1, func() bool {
		var e *exchange
		if e, err = t.exchange(id); err != nil {
			return true
		}
		r, err = e.response, e.err
		return e.answered
	})
	if !answered {
		return nil, context.Cause(ctx)
	}
	return r, err
}

// exchange returns that of a stream. The lock is held.
func (t *Table) exchange(id uint32) (*exchange, error) {
	s, err := t.find(id)
	if err == nil && s.exchange == nil {
		err = abi.NewError(abi.FailedPrecondition, "the stream is none of HTTP")
	}
	if err != nil {
		return nil, err
	}
	return s.exchange, nil
}

// Trailers returns the headers after the body of a response. It is the guest's.
//
// # Errors
//
// NOT_FOUND: no such stream; FAILED_PRECONDITION: it is none of HTTP, or its body has not been
// read to the end.
func (t *Table) Trailers(id uint32) (http.Header, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e, err := t.exchange(id)
	if err != nil {
		return nil, err
	}
	if s := t.streams[id]; len(s.in.data) > 0 || !errors.Is(s.in.err, io.EOF) {
		return nil, abi.NewError(abi.FailedPrecondition, "the body has not been read to its end")
	}
	return e.response.Trailer, nil
}
