package drivertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/sdk/go/internal/hostcall"
)

// Listen has the node accept the driver's connections to an address: HOST:PORT, the path of a
// unix socket, neither of which need exist. Requests of HTTP come there, too, so that a test
// can give the listener to [http.Serve]. It is closed with the test. TLS is not spoken: a
// connection that asks for it is one without.
func (n *core) Listen(address string) net.Listener {
	n.t.Helper()
	dir, err := os.MkdirTemp("", "drivertest") // a test's own directory can be too long for a socket
	if err != nil {
		n.t.Fatalf("drivertest: %v", err)
	}
	path := filepath.Join(dir, "socket")
	l, err := net.Listen("unix", path)
	if err != nil {
		n.t.Fatalf("drivertest: %v", err)
	}
	n.t.Cleanup(func() {
		_ = l.Close()
		_ = os.RemoveAll(dir)
	})
	n.records.mu.Lock()
	defer n.records.mu.Unlock()
	if n.records.listening == nil {
		n.records.listening = map[string]string{}
	}
	n.records.listening[address] = path
	return l
}

// dial connects to what the test listens on.
func (r *records) dial(ctx context.Context, address string) (net.Conn, error) {
	r.mu.Lock()
	path, ok := r.listening[address]
	r.mu.Unlock()
	if !ok {
		return nil, abi.NewRecoverableError(abi.Unavailable, fmt.Sprintf("connecting to %s: nobody listens; a test does so by Node.Listen", address))
	}
	return (&net.Dialer{}).DialContext(ctx, "unix", path)
}

// streams are those of one call.
type streams struct {
	mu   sync.Mutex
	cond sync.Cond
	last uint32
	open map[uint32]*fakeStream
}

// pipeBytes is how much of what a driver writes waits in a stream, as in a node's.
const pipeBytes = 32 << 10

// fakeStream is an open stream. Nothing bounds what waits in it for the driver. The lock of its
// streams guards it.
type fakeStream struct {
	in          bytes.Buffer
	inErr       error
	out         bytes.Buffer
	outErr      error // io.EOF: it was shut down
	nonblocking bool
	response    *http.Response
	failed      error
	end         func()
}

func newStreams() *streams {
	s := &streams{open: map[uint32]*fakeStream{}}
	s.cond.L = &s.mu
	return s
}

// add opens a stream, whose end is end.
func (s *streams) add(f *fakeStream) uint32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	s.open[s.last] = f
	return s.last
}

// change changes something, and wakes who waits.
func (s *streams) change(do func()) {
	s.mu.Lock()
	do()
	s.mu.Unlock()
	s.cond.Broadcast()
}

// connect has a stream be one of a connection.
func (s *streams) connect(f *fakeStream, from io.Reader, to net.Conn) {
	go s.fill(f, from)
	go s.drain(f, to)
}

func (s *streams) fill(f *fakeStream, from io.Reader) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		s.change(func() { f.in.Write(buf[:n]); f.inErr = err })
		if err != nil {
			return
		}
	}
}

// drain sends what the driver writes, and then that no more comes.
func (s *streams) drain(f *fakeStream, to net.Conn) {
	if _, err := io.Copy(to, written{s, f}); err != nil {
		s.change(func() { f.outErr = err })
		return
	}
	if half, ok := to.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
}

// written is what the driver writes.
type written struct {
	s *streams
	f *fakeStream
}

// Read implements [io.Reader]: it waits for bytes.
func (w written) Read(p []byte) (int, error) {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	for w.f.out.Len() == 0 {
		if w.f.outErr != nil {
			return 0, w.f.outErr
		}
		w.s.cond.Wait()
	}
	defer w.s.cond.Broadcast()
	return w.f.out.Read(p)
}

// Close implements [io.Closer]: nothing more is taken.
func (w written) Close() error {
	w.s.change(func() {
		if w.f.outErr == nil {
			w.f.outErr = os.ErrClosed
		}
	})
	return nil
}

// close ends all streams.
func (s *streams) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id := range s.open {
		s.drop(id)
	}
	s.cond.Broadcast()
}

// drop ends a stream. The lock is held.
func (s *streams) drop(id uint32) {
	f := s.open[id]
	delete(s.open, id)
	if f.outErr == nil {
		f.outErr = os.ErrClosed
	}
	go f.end()
}

// find returns an open stream. The lock is held.
func (s *streams) find(id uint32) (*fakeStream, error) {
	if f := s.open[id]; f != nil {
		return f, nil
	}
	return nil, abi.NewError(abi.NotFound, fmt.Sprintf("stream %d is not open in this call", id))
}

// on does something with an open stream, once ready holds.
func (s *streams) on(id uint32, ready func(*fakeStream) bool, do func(*fakeStream) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		f, err := s.find(id)
		switch {
		case err != nil:
			return err
		case ready == nil || ready(f):
			defer s.cond.Broadcast()
			return do(f)
		case f.nonblocking:
			return hostcall.ErrWouldBlock
		}
		s.cond.Wait()
	}
}

func (h *callHost) StreamRead(id uint32, p []byte) (n int, err error) {
	err = h.streams.on(id,
		func(f *fakeStream) bool { return f.in.Len() > 0 || f.inErr != nil },
		func(f *fakeStream) error {
			if n, _ = f.in.Read(p); n == 0 && !errors.Is(f.inErr, io.EOF) {
				return broken("reading", f.inErr)
			}
			return nil
		})
	return n, err
}

// broken is what a driver is told of a connection's error, as a node tells it.
func broken(what string, err error) error {
	var known *abi.Error
	if errors.As(err, &known) {
		return abi.FromProto(abi.Proto(err))
	}
	return abi.NewRecoverableError(abi.Unavailable, what+": "+err.Error())
}

func (h *callHost) StreamWrite(id uint32, p []byte) (n int, err error) {
	err = h.streams.on(id, (*fakeStream).writable, func(f *fakeStream) error {
		if f.outErr != nil {
			return abi.NewError(abi.FailedPrecondition, "writing: "+f.outErr.Error())
		}
		n, _ = f.out.Write(p[:min(len(p), pipeBytes-f.out.Len())])
		return nil
	})
	return n, err
}

func (h *callHost) StreamShutdown(id uint32) error {
	return h.streams.on(id, nil, func(f *fakeStream) error {
		if f.outErr == nil {
			f.outErr = io.EOF
		}
		return nil
	})
}

func (h *callHost) StreamClose(id uint32) error {
	return h.streams.on(id, nil, func(f *fakeStream) error {
		if f.outErr == nil {
			f.outErr = io.EOF
		}
		h.streams.drop(id)
		return nil
	})
}

func (h *callHost) StreamBlocking(id uint32, on bool) error {
	return h.streams.on(id, nil, func(f *fakeStream) error { f.nonblocking = !on; return nil })
}

func (h *callHost) StreamPoll(request []byte) ([]byte, error) {
	var r wasmnodev1.StreamPollRequest
	if err := r.UnmarshalVT(request); err != nil {
		return nil, abi.NewError(abi.InvalidArgument, "poll: "+err.Error())
	}
	var over bool
	if r.TimeoutMs >= 0 {
		timer := time.AfterFunc(time.Duration(r.TimeoutMs)*time.Millisecond, func() { h.streams.change(func() { over = true }) })
		defer timer.Stop()
	}
	h.streams.mu.Lock()
	defer h.streams.mu.Unlock()
	for {
		answer := &wasmnodev1.StreamPollResponse{}
		for _, e := range r.Entries {
			f, err := h.streams.find(e.Stream)
			if err != nil {
				return nil, err
			}
			if events := f.events() & (e.Events | ended); events&^ended != 0 {
				answer.Entries = append(answer.Entries, &wasmnodev1.StreamPollEntry{Stream: e.Stream, Events: events})
			}
		}
		if over || len(answer.Entries) > 0 {
			return answer.MarshalVT()
		}
		h.streams.cond.Wait()
	}
}

const ended = uint32(wasmnodev1.StreamEvent_STREAM_EVENT_ENDED)

// writable reports whether a write would not wait. The lock is held.
func (f *fakeStream) writable() bool { return f.outErr != nil || f.out.Len() < pipeBytes }

// events are those that hold. The lock is held.
func (f *fakeStream) events() uint32 {
	var events wasmnodev1.StreamEvent
	if f.writable() {
		events |= wasmnodev1.StreamEvent_STREAM_EVENT_WRITABLE
	}
	if f.in.Len() > 0 || f.inErr != nil {
		events |= wasmnodev1.StreamEvent_STREAM_EVENT_READABLE
	}
	if f.in.Len() == 0 && f.inErr != nil {
		events |= wasmnodev1.StreamEvent_STREAM_EVENT_ENDED
	}
	if f.response != nil || f.failed != nil {
		events |= wasmnodev1.StreamEvent_STREAM_EVENT_RESPONSE
	}
	return uint32(events)
}

func (h *callHost) NetDial(request []byte) ([]byte, error) {
	if err := h.denied(); err != nil {
		return nil, err
	}
	var r wasmnodev1.NetDialRequest
	if err := r.UnmarshalVT(request); err != nil {
		return nil, abi.NewError(abi.InvalidArgument, "dial: "+err.Error())
	}
	address := r.Address + r.Socket // one of them
	conn, err := h.dial(context.Background(), address)
	if err != nil {
		return nil, err
	}
	f := &fakeStream{end: func() { _ = conn.Close() }}
	id := h.streams.add(f)
	h.streams.connect(f, conn, conn)
	return (&wasmnodev1.NetDialResponse{Stream: id, Remote: address}).MarshalVT()
}

func (h *callHost) HTTPRequest(request []byte) ([]byte, error) {
	if err := h.denied(); err != nil {
		return nil, err
	}
	var m wasmnodev1.HttpRequest
	if err := m.UnmarshalVT(request); err != nil {
		return nil, abi.NewError(abi.InvalidArgument, "request: "+err.Error())
	}
	u, err := url.Parse(m.Url)
	if err != nil || u.Host == "" {
		return nil, abi.NewError(abi.InvalidArgument, fmt.Sprintf("request: %q is not an absolute URL", m.Url))
	}
	ctx, cancel := context.WithCancel(context.Background())
	f := &fakeStream{end: cancel}
	id := h.streams.add(f)
	go h.exchange(ctx, f, &m, u)
	return (&wasmnodev1.HttpRequestResponse{Stream: id}).MarshalVT()
}

// exchange sends a request to what the test listens on.
func (h *callHost) exchange(ctx context.Context, f *fakeStream, m *wasmnodev1.HttpRequest, u *url.URL) {
	response, conn, err := h.roundTrip(ctx, f, m, u)
	h.streams.change(func() {
		f.response, f.failed, f.inErr = response, err, err
		if conn != nil && errors.Is(f.outErr, io.EOF) {
			f.outErr = nil
		}
	})
	switch {
	case err != nil:
		return
	case conn != nil:
		h.streams.connect(f, response.Body, conn)
		<-ctx.Done()
		_ = conn.Close()
	default:
		defer func() { _ = response.Body.Close() }()
		h.streams.fill(f, response.Body)
	}
}

// roundTrip returns the response, and the connection if it is a raw one now.
func (h *callHost) roundTrip(ctx context.Context, f *fakeStream, m *wasmnodev1.HttpRequest, u *url.URL) (*http.Response, net.Conn, error) {
	address := m.Socket
	if address == "" {
		port := u.Port()
		if port == "" {
			port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
		}
		address = net.JoinHostPort(u.Hostname(), port)
	}
	var used net.Conn
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) { used = i.Conn }})
	plain := *u
	plain.Scheme = "http"
	r, err := http.NewRequestWithContext(traced, m.Method, plain.String(), bytes.NewReader(m.Body))
	if err != nil {
		return nil, nil, abi.NewError(abi.InvalidArgument, "request: "+err.Error())
	}
	if m.Streamed {
		r.Body, r.ContentLength = written{h.streams, f}, m.ContentLength
	}
	for _, l := range m.Headers {
		r.Header.Add(l.Name, l.Value)
	}
	transport := &http.Transport{DisableKeepAlives: !strings.EqualFold(r.Header.Get("Connection"), "upgrade"), DisableCompression: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return h.dial(ctx, address) }}
	response, err := transport.RoundTrip(r)
	switch {
	case err != nil:
		return nil, nil, broken("the request", err)
	case response.StatusCode == http.StatusSwitchingProtocols:
		return response, used, nil
	}
	return response, nil, nil
}

func (h *callHost) HTTPResponse(id uint32) (answer []byte, err error) {
	failed := h.streams.on(id,
		func(f *fakeStream) bool { return f.response != nil || f.failed != nil },
		func(f *fakeStream) error {
			if f.failed != nil {
				return f.failed
			}
			answer, err = (&wasmnodev1.HttpResponse{Status: uint32(f.response.StatusCode), Headers: headers(f.response.Header), ContentLength: f.response.ContentLength}).MarshalVT()
			return err
		})
	return answer, failed
}

func (h *callHost) HTTPTrailers(id uint32) (answer []byte, err error) {
	failed := h.streams.on(id, nil, func(f *fakeStream) error {
		if f.response == nil || f.in.Len() > 0 || !errors.Is(f.inErr, io.EOF) {
			return abi.NewError(abi.FailedPrecondition, "the body has not been read to its end")
		}
		answer, err = (&wasmnodev1.HttpTrailers{Trailers: headers(f.response.Trailer)}).MarshalVT()
		return err
	})
	return answer, failed
}

func headers(h http.Header) (lines []*wasmnodev1.HttpHeader) {
	for name, values := range h {
		for _, v := range values {
			lines = append(lines, &wasmnodev1.HttpHeader{Name: name, Value: v})
		}
	}
	return lines
}
