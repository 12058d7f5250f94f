package stream

import "io"

// Source makes the stream one that the guest reads only. It closes from, which has to end a
// read that is under way.
func (s *Stream) Source(from io.ReadCloser) {
	s.table.mu.Lock()
	s.out.err, s.end = errReadOnly, from
	s.table.mu.Unlock()
	s.work.Go(func() { s.fill(from) })
}

// Sink makes the stream one that the guest writes only: reading it is at its end at once. It
// closes to, which has to end a write that is under way. What the guest has written when it
// returns is handed on, however long that takes: see [Table.End].
func (s *Stream) Sink(to io.WriteCloser) {
	s.table.mu.Lock()
	s.in.err, s.end = io.EOF, to
	s.sink, s.drained = true, make(chan struct{})
	s.table.mu.Unlock()
	s.work.Go(func() {
		defer close(s.drained)
		s.handOn(to, func() { _ = to.Close() })
	})
}
