package stream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
)

// ErrWouldBlock is what a read or write ends with that would have to wait, and must not. It is
// none of the contract's errors, which are alike if their codes are.
var ErrWouldBlock = errors.New("it would have to wait")

// The events of a poll, see [wasmnodev1.StreamEvent].
const (
	readable = uint32(wasmnodev1.StreamEvent_STREAM_EVENT_READABLE)
	writable = uint32(wasmnodev1.StreamEvent_STREAM_EVENT_WRITABLE)
	ended    = uint32(wasmnodev1.StreamEvent_STREAM_EVENT_ENDED)
	response = uint32(wasmnodev1.StreamEvent_STREAM_EVENT_RESPONSE)
)

// Read reads what there is, at least a byte unless p is empty, at most what p has room for
// and [PipeBytes]. It is the guest's.
//
// # Errors
//
// [io.EOF] at the end; NOT_FOUND: no such stream; [ErrWouldBlock]; UNAVAILABLE: the
// connection broke.
func (t *Table) Read(ctx context.Context, id uint32, p []byte) (n int, err error) {
	t.waitFor(ctx, id, func(s *Stream) bool {
		n, err = s.take(p)
		return n > 0 || err != nil || len(p) == 0
	}, &err)
	t.owner.read.Add(uint64(n))
	return n, err
}

// take takes bytes out of the pipe. The lock is held.
func (s *Stream) take(p []byte) (int, error) {
	n := copy(p, s.in.data)
	s.in.data = s.in.data[n:]
	switch {
	case n > 0 || len(p) == 0:
		s.in.wake.Set()
		return n, nil
	case s.in.err != nil && !errors.Is(s.in.err, io.EOF):
		return 0, failure("reading", s.in.err)
	}
	return 0, s.in.err
}

// Write takes at least a byte of p, unless that is empty, as far as there is room. It is the
// guest's.
//
// # Errors
//
// NOT_FOUND: no such stream; [ErrWouldBlock]; FAILED_PRECONDITION: it was shut down;
// UNAVAILABLE: the connection broke.
func (t *Table) Write(ctx context.Context, id uint32, p []byte) (n int, err error) {
	t.waitFor(ctx, id, func(s *Stream) bool {
		n, err = s.put(p)
		return n > 0 || err != nil || len(p) == 0
	}, &err)
	t.owner.written.Add(uint64(n))
	return n, err
}

// put puts bytes into the pipe. The lock is held.
func (s *Stream) put(p []byte) (int, error) {
	if err := s.unwritable(); err != nil {
		return 0, err
	}
	s.startWriting()
	n := min(len(p), PipeBytes-len(s.out.data))
	if len(s.out.data) == 0 {
		s.buf = append(s.buf[:0], p[:n]...)
		s.out.data = s.buf
	} else {
		s.out.data = append(s.out.data, p[:n]...)
	}
	s.out.wake.Set()
	return n, nil
}

// unwritable returns why a write fails at once. The lock is held.
func (s *Stream) unwritable() error {
	switch {
	case errors.Is(s.out.err, io.EOF):
		return errShut
	case s.out.err != nil:
		return failure("writing", s.out.err)
	}
	return nil
}

// startWriting has a connection get what is written. The lock is held.
func (s *Stream) startWriting() {
	if conn := s.conn; conn != nil && s.drained == nil {
		s.drained = make(chan struct{})
		s.work.Go(func() {
			defer close(s.drained)
			s.drain(conn)
		})
	}
}

// failure makes a broken connection's error the guest's.
func failure(what string, err error) error {
	var known *abi.Error
	if errors.As(err, &known) {
		return err
	}
	return abi.NewRecoverableError(abi.Unavailable, fmt.Sprintf("%s: %v", what, err))
}

// waitFor waits until do reports that it is done with a stream, or once if the stream is not
// to block. The outcome is in err.
func (t *Table) waitFor(ctx context.Context, id uint32, do func(*Stream) bool, err *error) {
	done := t.wait(ctx, -1, func() bool {
		s, missing := t.find(id)
		if missing != nil {
			*err = missing
			return true
		}
		if do(s) {
			return true
		}
		if !s.blocking {
			*err = ErrWouldBlock
		}
		return !s.blocking
	})
	if !done {
		*err = context.Cause(ctx)
	}
}

// SetBlocking decides whether reads and writes of a stream wait, which they do at first. It
// is the guest's.
func (t *Table) SetBlocking(id uint32, on bool) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	s, err := t.find(id)
	if err == nil {
		s.blocking = on
	}
	return err
}

// Shutdown says that nothing more is written to a stream. It is the guest's.
func (t *Table) Shutdown(id uint32) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	s, err := t.find(id)
	if err != nil {
		return err
	}
	s.shut()
	return nil
}

// shut notes that nothing more is written. The lock is held.
func (s *Stream) shut() {
	if s.out.err == nil {
		s.startWriting()
		s.out.err = io.EOF
		s.out.wake.Set()
	}
}

// Close closes a stream. What was written to a connection is still sent. It is the guest's.
func (t *Table) Close(id uint32) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	s, err := t.find(id)
	if err != nil {
		return err
	}
	delete(t.streams, id)
	t.closing[s] = struct{}{}
	s.shut()
	drained := s.drained
	t.lingering.Go(func() { s.linger(drained) })
	return nil
}

// linger ends a stream that the guest has closed, when what was written is sent. A nil
// channel: nobody sends it.
func (s *Stream) linger(drained <-chan struct{}) {
	if drained != nil {
		select {
		case <-drained:
		case <-s.ctx.Done():
		}
	}
	s.cut()
	s.work.Wait()
	s.release()
}

// Poll waits until something holds of what is asked, and returns what does. It is the
// guest's.
//
// # Errors
//
// INVALID_ARGUMENT: more than [PollEntries]; NOT_FOUND: no such stream.
func (t *Table) Poll(ctx context.Context, asked []*wasmnodev1.StreamPollEntry, timeout time.Duration) (hold []*wasmnodev1.StreamPollEntry, err error) {
	if len(asked) > PollEntries {
		return nil, abi.NewError(abi.InvalidArgument, fmt.Sprintf("%d streams to poll, the limit is %d", len(asked), PollEntries))
	}
	t.wait(ctx, timeout, func() bool {
		for _, e := range asked {
			s, missing := t.find(e.Stream)
			if missing != nil {
				err = missing
				return true
			}
			if events := s.events(e.Events); events != 0 {
				hold = append(hold, &wasmnodev1.StreamPollEntry{Stream: e.Stream, Events: events})
			}
		}
		return len(hold) > 0
	})
	return hold, err
}

// events returns which of these hold. The lock is held.
func (s *Stream) events(asked uint32) (hold uint32) {
	over := len(s.in.data) == 0 && s.in.err != nil
	if over || len(s.in.data) > 0 {
		hold |= readable
	}
	if s.unwritable() != nil || len(s.out.data) < PipeBytes {
		hold |= writable
	}
	if s.exchange != nil && s.exchange.answered {
		hold |= response
	}
	hold &= asked
	if over && hold&readable != 0 {
		hold |= ended
	}
	return hold
}
