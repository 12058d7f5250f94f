package wire

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/hashicorp/yamux"
)

// MaxPayload is the most bytes of a frame that a stream sends.
const MaxPayload = 64 << 10

// A Stream is that of one streaming request. One goroutine may read and several may send.
type Stream struct {
	conn *yamux.Stream
	r    *bufio.Reader
	rest time.Duration // how long a value may take that has begun
	in   *room         // for a value, while it is read
	left func()        // called when it is closed; nil: nobody waits for that

	sending sync.Mutex
}

type streamHeader struct{ Method string }

type streamAck struct{ Error string }

type frame struct {
	Error   *frameError
	Payload []byte
}

// received is a frame as servers send it too: events are not in the payload.
type received struct {
	Error   *frameError
	Payload []byte
	Event   *struct{ Data []byte }
}

type frameError struct {
	Message string
	Code    *int64
}

func newStream(conn *yamux.Stream, rest time.Duration, in *room) *Stream {
	return &Stream{conn: conn, r: bufio.NewReader(conn), rest: rest, in: in}
}

// Decode reads the next value of the other side, of at most [MaxAsk] bytes. io.EOF: there
// will be none. It may be long in coming, but one that has begun has to go on: nothing more
// is read of a stream where it does not.
func (st *Stream) Decode(v any) error {
	if _, err := st.r.Peek(1); err != nil {
		return err
	}
	late := time.AfterFunc(st.rest, st.StopReading)
	defer late.Stop()
	raw, err := readInto(st.in, st.r, MaxAsk)
	if err != nil {
		return err
	}
	defer st.in.give(len(raw))
	return decode(raw, v)
}

// Send sends bytes, in as many frames as it takes. It blocks while the other side does not
// read, and returns an error once that is gone or the session is over.
func (st *Stream) Send(payload []byte) error {
	for {
		part := payload[:min(len(payload), MaxPayload)]
		if err := st.encode(frame{Payload: part}); err != nil {
			return err
		}
		if payload = payload[len(part):]; len(payload) == 0 {
			return nil
		}
	}
}

// SendValue sends a value as it is, outside of a frame: what the one that opened a stream
// does.
func (st *Stream) SendValue(v any) error { return st.encode(v) }

// Receive reads the next frame and returns its bytes, or those of its event. io.EOF: there will be
// none; a [RemoteError]: the other side has failed.
func (st *Stream) Receive() ([]byte, error) {
	var f received
	if err := st.Decode(&f); err != nil {
		return nil, err
	}
	if e := f.Error; e != nil {
		failure := &RemoteError{Method: "stream", Text: e.Message}
		if e.Code != nil {
			failure.Code = int(*e.Code)
		}
		return nil, failure
	}
	if f.Event != nil {
		return f.Event.Data, nil
	}
	return f.Payload, nil
}

// Read reads what the other side sends that is no value of the protocol, as a snapshot. It
// implements [io.Reader].
func (st *Stream) Read(p []byte) (int, error) { return st.r.Read(p) }

// Gone returns a context that is done as well once the other side has closed the stream. It
// reads: what comes is thrown away, and Decode must not be called any more. It ends with the
// stream.
func (st *Stream) Gone(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer cancel()
		_, _ = io.Copy(io.Discard, st.r)
	}()
	return ctx, cancel
}

// StopReading has Decode, and who waits in it, return an error. What is sent still arrives.
func (st *Stream) StopReading() { _ = st.conn.SetReadDeadline(time.Unix(1, 0)) }

// Close closes the stream, also for one that is reading from it.
func (st *Stream) Close() {
	st.StopReading()
	_ = st.conn.Close()
	if st.left != nil {
		st.left()
	}
}

func (st *Stream) encode(v any) error {
	raw, err := Marshal(v)
	if err != nil {
		return err
	}
	st.sending.Lock()
	defer st.sending.Unlock()
	if _, err := st.conn.Write(raw); err != nil {
		return fmt.Errorf("sending: %w", err)
	}
	return nil
}
