package driver

import (
	"context"
	"encoding/binary"
	"io"
	"time"

	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/sdk/go/internal/hostcall"
	"github.com/wasmnode/wasmnode/sdk/go/internal/stream"
)

// TerminalSize is a terminal's size in characters, 16 bits each.
type TerminalSize struct{ Rows, Columns uint16 }

// Command is a command to run inside a task.
type Command struct {
	// Args are the program and its arguments; never empty.
	Args []string
	// TTY asks for a terminal, for all three streams.
	TTY bool
	// Size is the terminal's at the start.
	Size TerminalSize
	// Timeout is how long it may take; 0: as long as whoever asked for it waits.
	Timeout time.Duration

	end func() // closes the streams; nil: they were not opened
}

// CommandStreams are the streams of a command. They are closed when Exec returns, and what was
// written arrives. Goroutines can use each at the same time as the others, and as connections
// of the packages network and httpclient.
type CommandStreams struct {
	// Stdin is what the command reads. Its end, which can come at once, is to be the end of
	// the command's input (on a terminal, ^D). Another error means that whoever asked for the
	// command has gone: end it and return, within two seconds.
	Stdin io.ReadCloser
	// Stdout and Stderr are what the command writes; with a terminal it is all Stdout. A write
	// waits while the other side is slow, and fails when that has gone.
	Stdout, Stderr io.WriteCloser

	sizes *stream.Stream
}

// Open opens the command's streams, once.
//
// # Errors
//
// FAILED_PRECONDITION: they were opened before. RESOURCE_EXHAUSTED: too many streams are open.
func (c *Command) Open(ctx context.Context) (*CommandStreams, error) {
	answer, err := hostcall.ExecOpen(ctx)
	if err != nil {
		return nil, err
	}
	var opened wasmnodev1.ExecStreams
	if err := opened.UnmarshalVT(answer); err != nil {
		return nil, err
	}
	var all [4]*stream.Stream
	for i, id := range []uint32{opened.Stdin, opened.Stdout, opened.Stderr, opened.Sizes} {
		if all[i], err = stream.New(ctx, id); err != nil {
			return nil, err
		}
	}
	c.end = func() {
		for _, s := range all {
			_ = s.Close() // closing twice is allowed
		}
	}
	return &CommandStreams{Stdin: all[0], Stdout: all[1], Stderr: all[2], sizes: all[3]}, nil
}

// NextSize waits until the terminal's size changes, and returns it. The error is [io.EOF] when
// it changes no more, or that of a closed stream after Exec.
func (s *CommandStreams) NextSize() (TerminalSize, error) {
	var b [4]byte
	if _, err := io.ReadFull(s.sizes, b[:]); err != nil {
		return TerminalSize{}, err
	}
	return TerminalSize{Rows: binary.LittleEndian.Uint16(b[:]), Columns: binary.LittleEndian.Uint16(b[2:])}, nil
}

// execStreams has a driver run a command whose streams it can open. What it does not open is
// not linked: the plugin's imports say whether it does.
func execStreams(ctx context.Context, d TaskStreamExecer, r *wasmnodev1.DriverExecTaskRequest) (*ExecResult, error) {
	c := &Command{
		Args: r.Command, TTY: r.Tty, Timeout: duration(r.TimeoutMs),
		Size: TerminalSize{Rows: uint16(r.Size.GetRows()), Columns: uint16(r.Size.GetColumns())},
	}
	result, err := d.Exec(ctx, r.TaskId, r.Handle, c)
	if c.end != nil {
		c.end()
	}
	if err != nil || result == nil {
		return nil, err
	}
	return &ExecResult{Result: result}, nil
}
