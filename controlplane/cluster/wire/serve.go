package wire

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/hashicorp/yamux"
)

// The bounds of what the other side has under way.
const (
	// MaxServed is how many of the other side's streams are served at a time. Further ones
	// are closed.
	MaxServed = 128
	// maxOpen is how many streams there are, with those that are being closed. A peer that
	// has more loses its connection.
	maxOpen = 1024
	// startTimeout is how long a stream may take to say what it is for, and a request or a
	// value of a stream to come once it has begun: what has come of it is kept until then.
	startTimeout = 30 * time.Second
	// writeTimeout is how long the other side may take to read an answer, which is kept until
	// then; a slow line brings the largest in that time. The stream ends then.
	writeTimeout = time.Minute
)

// A Handler answers what the other side asks. Each of its functions may be nil and is called
// concurrently, with a context that is done when the session is; the session's end waits for
// all of them. What they are given was sent by the other side: it is bounded by [MaxAsk],
// and nothing else is known of it.
type Handler struct {
	// Call answers a request. decode reads its arguments into a struct, once. The reply is a
	// struct, or one that is [Held]; nil is an empty one. An error that is ErrNoMethod is
	// answered as servers know it, one that is a [CodedError] with its status.
	Call func(ctx context.Context, method string, decode func(any) error) (reply any, err error)
	// Streams reports whether Stream takes a method.
	Streams func(method string) bool
	// Stream answers a streaming request until it returns, which closes the stream. An
	// error is sent as the last frame. Further values of the other side are read with
	// stream.Decode, one that has gone away is noticed by stream.Gone.
	Stream func(ctx context.Context, method string, decode func(any) error, stream *Stream) error
}

// Held is a reply, also one beside an error, for which something is held, as a place among
// what is answered at once, until it is written or cannot be: Release is called once then.
type Held struct {
	Reply   any
	Release func()
}

// ErrNoMethod is a handler's answer to a method that it does not have.
var ErrNoMethod = errors.New("no such method")

// noMethod is how servers and their tools know that a node has no method.
func noMethod(method string) string { return "rpc: can't find method " + method }

// accept serves the other side's streams until the session is over.
func (s *Session) accept() {
	defer s.HangUp()
	for {
		conn, err := s.mux.AcceptStream()
		if err != nil {
			return
		}
		if s.mux.NumStreams() > maxOpen {
			s.logger.Warn("closing a connection that has too many streams", "address", s.Address(), "most", maxOpen)
			return
		}
		select {
		case s.places <- struct{}{}:
			s.running.Go(func() {
				defer func() { <-s.places }()
				s.busy.Add(1)
				defer s.busy.Add(-1)
				s.serve(conn)
			})
		default:
			s.logger.Warn("refusing a request: too many are under way", "address", s.Address(), "most", MaxServed)
			_ = conn.Close()
		}
	}
}

// serve answers what comes on a stream.
func (s *Session) serve(conn *yamux.Stream) {
	defer func() { _ = conn.Close() }()
	_ = conn.SetReadDeadline(time.Now().Add(s.start))
	var what [1]byte
	if _, err := io.ReadFull(conn, what[:]); err != nil {
		return
	}
	var err error
	switch what[0] {
	case byteRPC:
		err = s.serveCalls(conn)
	case byteStreaming:
		err = s.serveStream(conn)
	default:
		err = fmt.Errorf("%w: a stream that starts with byte %#02x", ErrGarbage, what[0])
	}
	if errors.Is(err, errNoRoom) {
		s.logger.Warn("refusing a request", "address", s.Address(), "error", err, "most_bytes", maxAsking)
	}
	if errors.Is(err, ErrGarbage) {
		s.logger.Warn("closing a connection that sends what is not understood", "address", s.Address(), "error", err)
		s.HangUp()
	}
}

// serveCalls answers requests one after another until the other side closes the stream.
func (s *Session) serveCalls(conn *yamux.Stream) error {
	r := bufio.NewReader(conn)
	for {
		header, args, err := s.readRequest(r)
		if err != nil {
			return err
		}
		err = s.serveCall(conn, header, args)
		s.asking.give(len(args))
		if err != nil {
			return err
		}
		// The next request may be long in coming, but one that has begun has to go on.
		_ = conn.SetReadDeadline(time.Time{})
		s.busy.Add(-1)
		_, err = r.Peek(1)
		s.busy.Add(1)
		if err != nil {
			return err
		}
		_ = conn.SetReadDeadline(time.Now().Add(s.start))
	}
}

// readRequest reads a request. Its arguments are still to be decoded, and have their room until
// that is given back.
func (s *Session) readRequest(r *bufio.Reader) (header requestHeader, args []byte, err error) {
	raw, err := readValue(r, maxHeader)
	if err != nil {
		return header, nil, err
	}
	if err := decode(raw, &header); err != nil {
		return header, nil, err
	}
	args, err = readInto(s.asking, r, MaxAsk)
	return header, args, err
}

// serveCall answers a request.
func (s *Session) serveCall(conn *yamux.Stream, header requestHeader, args []byte) error {
	var reply any
	err := ErrNoMethod
	if s.handler.Call != nil {
		reply, err = s.handler.Call(s.ctx, header.ServiceMethod, func(v any) error { return decode(args, v) })
	}
	if held, is := reply.(Held); is {
		defer held.Release()
		reply = held.Reply
	}
	answer, err := response(header, reply, err)
	if err != nil {
		return err
	}
	_ = conn.SetWriteDeadline(time.Now().Add(s.write))
	_, err = conn.Write(answer)
	return err
}

// response returns the answer to a request as it stands on the wire.
func response(to requestHeader, reply any, err error) ([]byte, error) {
	header := responseHeader{ServiceMethod: to.ServiceMethod, Seq: to.Seq}
	switch {
	case errors.Is(err, ErrNoMethod):
		header.Error = noMethod(to.ServiceMethod)
	case err != nil:
		header.Error = errorText(err)
	}
	if reply == nil || header.Error != "" {
		reply = struct{}{}
	}
	body, err := Marshal(reply)
	if err != nil {
		return nil, err
	}
	head, err := Marshal(header)
	return append(head, body...), err
}

// serveStream answers a streaming request.
func (s *Session) serveStream(conn *yamux.Stream) error {
	st := newStream(conn, s.start, s.asking)
	defer st.Close()
	var header streamHeader
	if err := st.Decode(&header); err != nil {
		return err
	}
	if s.handler.Streams == nil || s.handler.Stream == nil || !s.handler.Streams(header.Method) {
		return st.encode(streamAck{Error: noMethod(header.Method)})
	}
	if err := st.encode(streamAck{}); err != nil {
		return err
	}
	args, err := readInto(s.asking, st.r, MaxAsk)
	if err != nil {
		return err
	}
	defer s.asking.give(len(args))
	_ = conn.SetReadDeadline(time.Time{})
	err = s.handler.Stream(s.ctx, header.Method, func(v any) error { return decode(args, v) }, st)
	if err == nil {
		return nil
	}
	code := int64(500)
	var coded *CodedError
	if errors.As(err, &coded) {
		code = int64(coded.Code)
	}
	// An error of reading or writing has nobody to be told, and this may be one.
	_ = conn.SetWriteDeadline(time.Now().Add(s.write))
	_ = st.encode(frame{Error: &frameError{Message: strings.ToValidUTF8(err.Error(), "?"), Code: &code}})
	return nil
}
