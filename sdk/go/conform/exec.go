package conform

import (
	"errors"
	"io"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
)

// Streams are those of a command, as a driver gets them. Whoever calls closes them.
type Streams struct {
	Stdin          io.ReadCloser
	Stdout, Stderr io.WriteCloser
}

// execStreams runs a command whose input is empty, which may fail, and has to end.
func (r *run) execStreams(t *taken) error {
	return r.exec(t, "it does not end with the command", emptyStreams())
}

// emptyStreams have no input, and take all output.
func emptyStreams() *Streams {
	return &Streams{Stdin: stream{io.EOF}, Stdout: stream{}, Stderr: stream{}}
}

// execGone runs a command of somebody who has gone.
func (r *run) execGone(t *taken) error {
	gone := stream{io.ErrClosedPipe}
	return r.exec(t, "it goes on when whoever asked for the command has gone", &Streams{Stdin: gone, Stdout: gone, Stderr: gone})
}

// exec makes the call, whose answer is not looked at.
func (r *run) exec(t *taken, late string, s *Streams) error {
	if !r.has(abi.OpDriverExecTask) {
		return nil
	}
	c := r.about(t, abi.OpDriverExecTask, &wasmnodev1.DriverExecTaskRequest{TaskId: t.config.Id, Handle: t.handle, Command: []string{"/bin/true"}})
	c.Streams = s
	err := faultOf(r.call(c).Err)
	if err != nil && tooSlow(err) {
		return errors.New(late)
	}
	return err
}

// stream fails with an error; without one it takes what is written.
type stream struct{ err error }

// Read implements [io.Reader].
func (s stream) Read([]byte) (int, error) { return 0, s.err }

// Write implements [io.Writer].
func (s stream) Write(p []byte) (int, error) {
	if s.err != nil {
		return 0, s.err
	}
	return len(p), nil
}

// Close implements [io.Closer].
func (s stream) Close() error { return nil }
