package stream

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/internal/wake"
)

// Stream is one stream of a call. What is not said to be the guest's is for the node's end.
type Stream struct {
	// ID is how the guest names it, unique in the plugin, up to four billion.
	ID uint32

	table  *Table
	ctx    context.Context // of what works for the stream
	cancel context.CancelFunc
	work   sync.WaitGroup
	freed  sync.Once

	// What follows is guarded by the table's lock.
	in, out  pipe
	blocking bool
	buf      []byte        // what out.data is in
	drained  chan struct{} // closed when what was written is sent; nil: nobody sends
	conn     net.Conn      // nil: there is none
	end      io.Closer     // what a stream of one way leads to; nil: there is none
	sink     bool          // the guest only writes
	exchange *exchange     // nil: it is no exchange of HTTP
}

// pipe is one way of a stream.
type pipe struct {
	data []byte      // what waits
	err  error       // nothing comes after data: io.EOF, or why
	wake wake.Signal // for the goroutine at the node's end
}

// errShut is what the guest gets for writing after it said that it would not.
var errShut = abi.NewError(abi.FailedPrecondition, "the stream was shut down for writing")

// errReadOnly is what the guest gets for writing to a stream that has only the other way.
var errReadOnly = abi.NewError(abi.FailedPrecondition, "nothing can be written to this stream")

// Connect makes the stream one of a connection, which it closes.
func (s *Stream) Connect(conn net.Conn) {
	s.table.mu.Lock()
	s.own(conn)
	s.table.mu.Unlock()
	s.work.Go(func() { s.fill(conn) })
}

// own makes a connection the stream's. One that comes after the stream's end is closed: who
// ended it did not know it. The lock is held.
func (s *Stream) own(conn net.Conn) {
	s.conn = conn
	if s.ctx.Err() != nil {
		closeNow(conn)
	}
}

// Discard gives the place of a stream back that was never connected.
func (s *Stream) Discard() {
	s.table.mu.Lock()
	delete(s.table.streams, s.ID)
	s.table.mu.Unlock()
	s.cut()
	s.release()
}

// cut ends what works for the stream, at once.
func (s *Stream) cut() {
	s.cancel()
	s.table.mu.Lock()
	conn, end := s.conn, s.end
	s.table.mu.Unlock()
	if conn != nil {
		closeNow(conn)
	}
	if end != nil {
		_ = end.Close()
	}
}

// closeNow closes a connection without a word to the other side, which could take time.
func closeNow(conn net.Conn) {
	if wrapped, ok := conn.(interface{ NetConn() net.Conn }); ok {
		conn = wrapped.NetConn()
	}
	_ = conn.Close()
}

// release gives back what the stream took. Nothing works for it any more.
func (s *Stream) release() {
	s.freed.Do(func() {
		s.table.mu.Lock()
		delete(s.table.closing, s)
		s.table.mu.Unlock()
		s.table.owner.give()
		s.table.changed.Set()
	})
}

// firstRead is how much is read at a time of what brings little.
const firstRead = 4 << 10

// fill hands on what a reader has, as the guest takes it.
func (s *Stream) fill(from io.Reader) {
	buf := make([]byte, firstRead)
	for {
		n, err := from.Read(buf)
		if !s.offer(buf[:n], err) {
			return
		}
		if n == len(buf) && n < PipeBytes {
			buf = make([]byte, 2*n)
		}
	}
}

// offer puts bytes into the pipe, which is empty, and waits until the guest has taken them.
// It reports whether there is more to come.
func (s *Stream) offer(data []byte, err error) bool {
	s.table.mu.Lock()
	s.in.data = data
	s.in.err = err
	s.table.mu.Unlock()
	s.table.changed.Set()
	for err == nil {
		s.table.mu.Lock()
		taken := len(s.in.data) == 0
		s.table.mu.Unlock()
		if taken {
			return true
		}
		select {
		case <-s.in.wake.C():
		case <-s.ctx.Done():
			return false
		}
	}
	return false
}

// Read gives what the guest has written, for the node's end: it waits for bytes, and
// returns [io.EOF] after the guest's shutdown. It implements [io.Reader].
func (s *Stream) Read(p []byte) (int, error) {
	for {
		s.table.mu.Lock()
		n := copy(p, s.out.data)
		err := s.out.err
		s.out.data = s.out.data[n:]
		s.table.mu.Unlock()
		switch {
		case n > 0:
			s.table.changed.Set()
			return n, nil
		case err != nil:
			return 0, err
		}
		select {
		case <-s.out.wake.C():
		case <-s.ctx.Done():
			return 0, s.ctx.Err()
		}
	}
}

// drain sends what the guest writes, and then that no more comes.
func (s *Stream) drain(to net.Conn) {
	s.handOn(to, func() {
		if half, ok := to.(interface{ CloseWrite() error }); ok {
			_ = half.CloseWrite()
		}
	})
}

// handOn writes what the guest writes, and tells when no more comes.
func (s *Stream) handOn(to io.Writer, end func()) {
	buf := make([]byte, PipeBytes)
	for {
		n, err := s.Read(buf)
		if n > 0 {
			_, err = to.Write(buf[:n])
		}
		switch {
		case errors.Is(err, io.EOF):
			end()
			return
		case err != nil:
			s.broken(err)
			return
		}
	}
}

// broken notes that nothing more can be written.
func (s *Stream) broken(err error) {
	s.table.mu.Lock()
	s.out.data, s.out.err = nil, err
	s.table.mu.Unlock()
	s.table.changed.Set()
}
