package host

import (
	"context"
	"encoding/binary"
	"io"
	"sync"

	"github.com/tetratelabs/wazero/api"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/host/stream"
	"github.com/wasmnode/wasmnode/sandbox"
	"github.com/wasmnode/wasmnode/workload"
)

// execFuncs is wasmnode:exec/v1: the streams of the command that a call is about. It needs no
// grant, since whoever has the command run has opened them.
var execFuncs = map[string]sandbox.HostFunc{
	abi.FuncExecOpen: {
		Results: []api.ValueType{i64},
		Run: func(ctx context.Context, _ api.Module, stack []uint64) {
			c := callOf(ctx)
			answer, err := c.openCommand(streamsOf(ctx))
			stack[0] = c.stage(answer, err)
		},
	},
}

// CommandStreams are the streams of a command, as a driver gets them. None is nil, but Sizes
// may be: there are none then. The call closes those that its guest has opened, at the latest
// when it ends; closing has to end a read or a write that is under way.
type CommandStreams struct {
	Stdin          io.ReadCloser
	Stdout, Stderr io.WriteCloser
	// Sizes brings the later sizes of the command's terminal.
	Sizes <-chan workload.Size
}

type streamsKey struct{}

// WithStreams returns a context for a call that is about a command, whose streams are opened
// once and only if its guest asks for them. See [Call].
func WithStreams(ctx context.Context, open func() CommandStreams) context.Context {
	return context.WithValue(ctx, streamsKey{}, open)
}

// streamsOf is what opens the streams of a call's command; nil: the call is about none.
func streamsOf(ctx context.Context) func() CommandStreams {
	open, _ := ctx.Value(streamsKey{}).(func() CommandStreams)
	return open
}

// openCommand opens the streams of the call's command, all or none.
func (c *call) openCommand(open func() CommandStreams) (Message, error) {
	switch {
	case open == nil || c.op != abi.OpDriverExecTask: // an instance is configured in the context of its first call
		return nil, abi.NewError(abi.FailedPrecondition, "this call is about no command: they come with "+abi.OpDriverExecTask)
	case c.command:
		return nil, abi.NewError(abi.FailedPrecondition, "the streams of the call's command were opened before")
	}
	var opened [4]*stream.Stream
	for i := range opened {
		s, err := c.openStream()
		if err != nil {
			for _, s := range opened[:i] {
				s.Discard()
			}
			return nil, err
		}
		opened[i] = s
	}
	c.command = true
	c.plugin.counters.opened(abi.ModuleExec)
	stdin, stdout, stderr, sizes := opened[0], opened[1], opened[2], opened[3]
	streams := open()
	stdin.Source(streams.Stdin)
	stdout.Sink(streams.Stdout)
	stderr.Sink(streams.Stderr)
	sizes.Source(&sizeReader{from: streams.Sizes, closed: make(chan struct{})})
	return &wasmnodev1.ExecStreams{Stdin: stdin.ID, Stdout: stdout.ID, Stderr: stderr.ID, Sizes: sizes.ID}, nil
}

// sizeBytes is the size of an encoded terminal's size.
const sizeBytes = 4

// sizeReader gives the sizes of a terminal as bytes. What is read at a time has room for one.
type sizeReader struct {
	from   <-chan workload.Size // nil: none come
	closed chan struct{}
	once   sync.Once
}

// Read implements [io.Reader].
func (r *sizeReader) Read(p []byte) (int, error) {
	select {
	case size, ok := <-r.from:
		if !ok {
			return 0, io.EOF
		}
		binary.LittleEndian.PutUint16(p, size.Rows)
		binary.LittleEndian.PutUint16(p[2:], size.Columns)
		return sizeBytes, nil
	case <-r.closed:
		return 0, io.EOF
	}
}

// Close implements [io.Closer].
func (r *sizeReader) Close() error {
	r.once.Do(func() { close(r.closed) })
	return nil
}
