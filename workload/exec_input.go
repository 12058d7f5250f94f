package workload

import (
	"context"
	"io"
	"sync"
	"time"
)

// Input is what a command gets from a connection: whoever receives the connection's
// messages feeds it, and an [ExecSpec] reads from it. One goroutine feeds.
type Input struct {
	stdin *io.PipeReader
	feed  *io.PipeWriter
	sizes chan Size     // the latest one
	typed chan struct{} // closed once something else was fed
	begin func()        // closes it
}

// NewInput returns an input without an end. Close it when the command has ended.
func NewInput() *Input {
	typed := make(chan struct{})
	in := &Input{sizes: make(chan Size, 1), typed: typed, begin: sync.OnceFunc(func() { close(typed) })}
	in.stdin, in.feed = io.Pipe()
	return in
}

// Give makes it the input of a command.
func (in *Input) Give(spec *ExecSpec) { spec.Stdin, spec.Resize = in.stdin, in.sizes }

// FirstSize waits for the first size of a terminal, which is then not among the later
// ones. None in time, or before anything else is fed: the zero size.
func (in *Input) FirstSize(ctx context.Context, timeout time.Duration) Size {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	select {
	case size := <-in.sizes:
		return size
	case <-in.typed:
	case <-ctx.Done():
	}
	select {
	case size := <-in.sizes: // it came before what was fed
		return size
	default:
		return Size{}
	}
}

// Feed hands over standard input. It blocks until that is read; once the input is
// closed it is dropped.
func (in *Input) Feed(b []byte) {
	in.begin()
	if len(b) > 0 {
		_, _ = in.feed.Write(b) // a closed input is that of a command that has ended
	}
}

// End ends standard input.
func (in *Input) End() {
	in.begin()
	_ = in.feed.Close() // it never fails
}

// Break ends standard input with an error: there is more that will not come.
func (in *Input) Break() { _ = in.feed.CloseWithError(io.ErrUnexpectedEOF) } // it never fails

// Resize hands over a size, in place of one that was not taken yet.
func (in *Input) Resize(size Size) {
	select {
	case <-in.sizes:
	default:
	}
	in.sizes <- size
}

// Close drops what was not read and what is still fed.
func (in *Input) Close() { _ = in.stdin.Close() } // it never fails
