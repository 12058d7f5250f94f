package wire

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/yamux"
)

// maxIdle is how many streams are kept between calls.
const maxIdle = 4

// A Session is a connection over which both sides call each other. Its methods may be
// called concurrently.
type Session struct {
	mux     *yamux.Session
	handler *Handler
	logger  hclog.Logger
	ctx     context.Context // of the handlers; done when the session is
	cancel  context.CancelFunc
	running sync.WaitGroup
	places  chan struct{} // one for each stream of the other side that is served
	asking  *room         // for what they ask
	busy    atomic.Int64  // questions of both sides that are under way
	seen    *seenConn     // the connection; nil: of a simulated server

	start, write time.Duration // startTimeout and writeTimeout

	mu   sync.Mutex
	idle []*clientStream
}

// newSession serves what the other side asks from now on.
func newSession(mux *yamux.Session, o Options) *Session {
	s := &Session{
		mux: mux, handler: o.Handler, logger: o.Logger, places: make(chan struct{}, MaxServed), asking: newRoom(cmp.Or(o.asking, maxAsking)),
		start: cmp.Or(o.start, startTimeout), write: cmp.Or(o.write, writeTimeout),
	}
	if s.logger == nil {
		s.logger = hclog.NewNullLogger()
	}
	if s.handler == nil {
		s.handler = &Handler{}
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.running.Go(s.accept)
	return s
}

// Done is closed when the session is over, whoever has ended it.
func (s *Session) Done() <-chan struct{} { return s.ctx.Done() }

// Busy reports whether either side asks something of the other now. Streams that only wait for what is
// asked next do not count.
func (s *Session) Busy() bool { return s.busy.Load() > 0 }

// Address is the other side's.
func (s *Session) Address() net.Addr { return s.mux.RemoteAddr() }

// Close ends the session and waits for its handlers, whose contexts are done. A handler
// must not call it.
func (s *Session) Close() {
	s.HangUp()
	s.running.Wait()
}

// HangUp ends the session without waiting for its handlers, whose contexts are done. Whoever
// must know that they have returned calls [Session.Close].
func (s *Session) HangUp() {
	s.cancel()
	_ = s.mux.Close()
}

// clientStream is a stream of calls, one after another.
type clientStream struct {
	conn *yamux.Stream
	r    *bufio.Reader
	seq  uint64
}

type requestHeader struct {
	ServiceMethod string
	Seq           uint64
}

type responseHeader struct {
	ServiceMethod string
	Seq           uint64
	Error         string
}

// Call asks the other side and waits for the reply, until ctx is done. args and reply are
// structs; a nil reply is not looked at. An answer that is an error is a [RemoteError]. What
// is none of the protocol, or beyond its bounds, closes the session: [ErrGarbage]. Each call under
// way has a stream of its own.
func (s *Session) Call(ctx context.Context, method string, args, reply any) error {
	err := s.CallOnBehalf(ctx, method, args, reply)
	if errors.Is(err, ErrGarbage) {
		s.HangUp()
	}
	return err
}

// CallOnBehalf is Call for somebody whose question may bring about any answer, such as one beyond the
// bounds: that costs nothing but its stream.
func (s *Session) CallOnBehalf(ctx context.Context, method string, args, reply any) error {
	request, err := Marshal(args)
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	s.busy.Add(1)
	defer s.busy.Add(-1)
	st, err := s.stream()
	if err != nil {
		return fmt.Errorf("%s: %w: %w", method, ErrClosed, err)
	}
	stop := context.AfterFunc(ctx, func() { _ = st.conn.SetDeadline(time.Unix(1, 0)) })
	err = st.call(method, request, reply)
	var remote *RemoteError
	whole := err == nil || errors.As(err, &remote)
	switch {
	case stop() && whole:
		s.keep(st)
		return err
	case whole:
		_ = st.conn.Close()
		return err
	}
	_ = st.conn.Close()
	switch {
	case errors.Is(err, ErrGarbage):
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), s.mux.IsClosed():
		err = ErrClosed
	}
	return fmt.Errorf("%s: %w", method, err)
}

// call sends a request and reads the response.
func (st *clientStream) call(method string, request []byte, reply any) error {
	st.seq++
	head, err := Marshal(requestHeader{method, st.seq})
	if err != nil {
		return err
	}
	if _, err := st.conn.Write(append(head, request...)); err != nil {
		return err
	}
	var header responseHeader
	raw, err := readValue(st.r, maxHeader)
	if err != nil {
		return err
	}
	if err := decode(raw, &header); err != nil {
		return err
	}
	if header.Seq != st.seq {
		return fmt.Errorf("%w: the answer of request %d to request %d", ErrGarbage, header.Seq, st.seq)
	}
	if raw, err = readValue(st.r, MaxMessage); err != nil {
		return err
	}
	switch {
	case header.Error != "":
		return &RemoteError{Method: method, Text: header.Error}
	case reply == nil:
		return nil
	}
	return decode(raw, reply)
}

// stream takes one that is idle, or opens one.
func (s *Session) stream() (*clientStream, error) {
	s.mu.Lock()
	if n := len(s.idle); n > 0 {
		st := s.idle[n-1]
		s.idle = s.idle[:n-1]
		s.mu.Unlock()
		return st, nil
	}
	s.mu.Unlock()
	conn, err := s.open(byteRPC)
	if err != nil {
		return nil, err
	}
	return &clientStream{conn: conn, r: bufio.NewReader(conn)}, nil
}

// open opens a stream and says what it is for.
func (s *Session) open(what byte) (*yamux.Stream, error) {
	conn, err := s.mux.OpenStream()
	if err != nil {
		return nil, err
	}
	if _, err := conn.Write([]byte{what}); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}

func (s *Session) keep(st *clientStream) {
	s.mu.Lock()
	kept := len(s.idle) < maxIdle
	if kept {
		s.idle = append(s.idle, st)
	}
	s.mu.Unlock()
	if !kept {
		_ = st.conn.Close()
	}
}

// Open starts a streaming request, and returns its stream once the other side has taken it. It must
// be closed; until then the session is busy.
func (s *Session) Open(ctx context.Context, method string, args any) (*Stream, error) {
	s.busy.Add(1)
	conn, err := s.open(byteStreaming)
	if err != nil {
		s.busy.Add(-1)
		return nil, fmt.Errorf("%s: %w: %w", method, ErrClosed, err)
	}
	st := newStream(conn, s.start, s.asking)
	st.left = sync.OnceFunc(func() { s.busy.Add(-1) })
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	var ack streamAck
	err = errors.Join(st.encode(streamHeader{method}), st.Decode(&ack))
	if err == nil && ack.Error != "" {
		err = &RemoteError{Method: method, Text: ack.Error}
	}
	if err == nil {
		err = st.encode(args)
	}
	if err != nil {
		st.Close()
		return nil, err
	}
	return st, nil
}
