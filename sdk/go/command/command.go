// Package command opens the streams of a command that a driver runs in a task: the capability
// wasmnode:exec/v1, which needs no grant. A driver that uses it has [driver.TaskStreamExecer],
// and is asked for every command in its tasks.
package command

import (
	"context"
	"encoding/binary"
	"io"

	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/sdk/go/driver"
	"github.com/wasmnode/wasmnode/sdk/go/internal/hostcall"
	"github.com/wasmnode/wasmnode/sdk/go/internal/stream"
)

// Streams are the streams of a command. They end with Exec, and what was written arrives.
// Goroutines can use each at the same time as the others, and as connections of the packages
// network, httpclient and plainhttp.
type Streams struct {
	// Stdin is what the command reads. Its end, which can come at once, is to be the end of
	// the command's input (on a terminal, ^D). Another error means that whoever asked for the
	// command has gone: end it and return, within two seconds.
	Stdin io.ReadCloser
	// Stdout and Stderr are what the command writes; with a terminal it is all Stdout. A write
	// waits while the other side is slow, and fails when that has gone.
	Stdout, Stderr io.WriteCloser

	sizes *stream.Stream
}

// Open opens the streams of the command that Exec was called for, once.
//
// # Errors
//
// FAILED_PRECONDITION: they were opened before, or the operation is another one.
// RESOURCE_EXHAUSTED: too many streams are open.
func Open(ctx context.Context) (*Streams, error) {
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
	return &Streams{Stdin: all[0], Stdout: all[1], Stderr: all[2], sizes: all[3]}, nil
}

// NextSize waits until the terminal's size changes, and returns it. The error is [io.EOF] when
// it changes no more, or that of a stream that is gone after Exec.
func (s *Streams) NextSize() (driver.TerminalSize, error) {
	var b [4]byte
	if _, err := io.ReadFull(s.sizes, b[:]); err != nil {
		return driver.TerminalSize{}, err
	}
	return driver.TerminalSize{Rows: binary.LittleEndian.Uint16(b[:]), Columns: binary.LittleEndian.Uint16(b[2:])}, nil
}
