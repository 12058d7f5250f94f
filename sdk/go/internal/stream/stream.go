// Package stream is an open stream of the node as a Go program uses one: reads and writes
// that other goroutines go on beside, and deadlines.
//
// A plugin has one thread, which a call of the host that waits would stop with all
// goroutines. So no read or write waits in the host: a goroutine that has to wait says for
// what, and one of them asks the host for all, when no other goroutine can run. See
// [Stream.Await].
package stream

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/sdk/go/internal/hostcall"
)

// The events that can be waited for.
const (
	Readable = uint32(wasmnodev1.StreamEvent_STREAM_EVENT_READABLE)
	Writable = uint32(wasmnodev1.StreamEvent_STREAM_EVENT_WRITABLE)
	Response = uint32(wasmnodev1.StreamEvent_STREAM_EVENT_RESPONSE)
)

// ErrClosed is what a closed stream ends with.
var ErrClosed = os.ErrClosed

// Stream is an open stream. It is safe for concurrent use.
type Stream struct {
	ctx context.Context // of the call that opened it, for the host
	id  uint32

	mu     sync.Mutex
	closed bool
	read   time.Time // the deadlines; zero: none
	write  time.Time
}

// New returns the stream that the host has opened with that ID in the call of ctx.
func New(ctx context.Context, id uint32) (*Stream, error) {
	if err := hostcall.StreamBlocking(ctx, id, false); err != nil {
		return nil, err
	}
	return &Stream{ctx: context.WithoutCancel(ctx), id: id}, nil
}

// ID is how the host names it.
func (s *Stream) ID() uint32 { return s.id }

// SetDeadlines sets those that are not nil.
func (s *Stream) SetDeadlines(read, write *time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if read != nil {
		s.read = *read
	}
	if write != nil {
		s.write = *write
	}
}

// Read implements [io.Reader].
func (s *Stream) Read(p []byte) (int, error) { return s.ReadUntil(context.Background(), p) }

// ReadUntil is Read, with a context that ends it.
func (s *Stream) ReadUntil(ctx context.Context, p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for {
		if err := s.usable(Readable); err != nil {
			return 0, err
		}
		n, err := hostcall.StreamRead(s.ctx, s.id, p) //nolint:contextcheck // ctx may be of no operation
		switch {
		case err == nil && n == 0:
			return 0, io.EOF
		case !errors.Is(err, hostcall.ErrWouldBlock):
			return n, err
		}
		if err := s.Await(ctx, Readable); err != nil {
			return 0, err
		}
	}
}

// Write implements [io.Writer].
func (s *Stream) Write(p []byte) (written int, err error) {
	for written < len(p) {
		if err := s.usable(Writable); err != nil {
			return written, err
		}
		n, err := hostcall.StreamWrite(s.ctx, s.id, p[written:])
		written += n
		if errors.Is(err, hostcall.ErrWouldBlock) {
			err = s.Await(context.Background(), Writable)
		}
		if err != nil {
			return written, err
		}
	}
	return written, nil
}

// CloseWrite says that nothing more is written.
func (s *Stream) CloseWrite() error {
	if err := s.usable(0); err != nil {
		return err
	}
	return hostcall.StreamShutdown(s.ctx, s.id)
}

// Close closes the stream. What waits for it ends with [ErrClosed].
func (s *Stream) Close() error {
	s.mu.Lock()
	again := s.closed
	s.closed = true
	s.mu.Unlock()
	if again {
		return ErrClosed
	}
	return hostcall.StreamClose(s.ctx, s.id)
}

// usable returns why the stream cannot be used for an event any more.
func (s *Stream) usable(event uint32) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	deadline := s.deadline(event)
	switch {
	case s.closed:
		return ErrClosed
	case !deadline.IsZero() && !time.Now().Before(deadline):
		return os.ErrDeadlineExceeded
	}
	return nil
}

// deadline is that of an event. The lock is held.
func (s *Stream) deadline(event uint32) time.Time {
	switch event {
	case Readable:
		return s.read
	case Writable:
		return s.write
	}
	return time.Time{}
}

// The longest that the host is asked to wait for at a time: in the meantime a timer of the
// program's own, a deadline that is set, and a closed stream are not noticed. It begins small
// and doubles, so that what takes long costs little.
const (
	firstWait   = time.Millisecond
	longestWait = 200 * time.Millisecond
)

// Await waits until an event holds, or its deadline has passed, the stream is closed or ctx
// ends, whose error it returns then.
func (s *Stream) Await(ctx context.Context, event uint32) error {
	wait := firstWait
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := s.usable(event); err != nil {
			return err
		}
		s.mu.Lock()
		until := s.deadline(event)
		s.mu.Unlock()
		if d, ok := ctx.Deadline(); ok && (until.IsZero() || d.Before(until)) {
			until = d
		}
		longest := wait
		if !until.IsZero() {
			longest = max(0, min(longest, time.Until(until)))
		}
		holds, err := poll(s, event, longest)
		if holds || err != nil {
			return err
		}
		wait = min(2*wait, longestWait)
	}
}

// ask asks the host for what holds of some events, one of each stream.
func ask(ctx context.Context, entries []*wasmnodev1.StreamPollEntry, longest time.Duration) ([]*wasmnodev1.StreamPollEntry, error) {
	ms := (longest + time.Millisecond - 1).Milliseconds() // rounded up, so that time passes
	var response wasmnodev1.StreamPollResponse
	if err := hostcall.Ask(ctx, hostcall.StreamPoll, &wasmnodev1.StreamPollRequest{Entries: entries, TimeoutMs: ms}, &response); err != nil {
		return nil, err
	}
	return response.Entries, nil
}
