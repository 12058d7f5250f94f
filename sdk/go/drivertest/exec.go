package drivertest

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/sdk/go/driver"
)

// Command is a command for [Node.Exec].
type Command struct {
	// Args are the program and its arguments.
	Args []string
	// TTY asks for a terminal, whose size is Size at first.
	TTY  bool
	Size driver.TerminalSize
	// Sizes brings the terminal's later sizes; nil: there are none.
	Sizes <-chan driver.TerminalSize
	// Stdin is read ahead of what the command reads; nil: it is empty. The test ends a read
	// that is under way when the command has ended. Another error than [io.EOF] is what a
	// driver gets when whoever asked for the command has gone.
	Stdin io.Reader
	// Stdout and Stderr get what the command writes; nil: it is dropped.
	Stdout, Stderr io.Writer
	// Timeout is in the request; nothing ends a command that takes longer.
	Timeout time.Duration
}

// Exec runs a command inside the task, with streams for a driver that opens them. Of one that
// does not, standard input is dropped and the output comes in the end.
func (n *Node) Exec(task *driver.TaskConfig, handle *driver.TaskHandle, c *Command) (*driver.ExitResult, error) {
	r := &wasmnodev1.DriverExecTaskRequest{TaskId: task.GetId(), Handle: handle, Command: c.Args, TimeoutMs: uint64(c.Timeout.Milliseconds()), Tty: c.TTY}
	if c.TTY {
		r.Size = &wasmnodev1.TerminalSize{Rows: uint32(c.Size.Rows), Columns: uint32(c.Size.Columns)}
	}
	request, err := r.MarshalVT()
	if err != nil {
		return nil, err
	}
	opened := &openedCommand{Command: c, over: make(chan struct{})}
	host := &callHost{records: n.records, operation: abi.OpDriverExecTask, taskID: task.GetId(), streams: newStreams(), command: opened}
	answer, err := n.callWith(context.Background(), host, request)
	close(opened.over)
	opened.output.Wait()
	if err != nil {
		return nil, err
	}
	var result driver.ExecResult
	if err := result.UnmarshalVT(answer); err != nil {
		return nil, err
	}
	return result.Result, errors.Join(writeAll(c.Stdout, result.Stdout), writeAll(c.Stderr, result.Stderr))
}

func writeAll(w io.Writer, b []byte) error {
	if w == nil || len(b) == 0 {
		return nil
	}
	_, err := w.Write(b)
	return err
}

// ExecTask runs a command inside the task, without input and terminal.
func (n *Node) ExecTask(task *driver.TaskConfig, handle *driver.TaskHandle, command []string, timeout time.Duration) (*driver.ExecResult, error) {
	var stdout, stderr bytes.Buffer
	result, err := n.Exec(task, handle, &Command{Args: command, Timeout: timeout, Stdout: &stdout, Stderr: &stderr})
	if err != nil {
		return nil, err
	}
	return &driver.ExecResult{Stdout: stdout.Bytes(), Stderr: stderr.Bytes(), Result: result}, nil
}

// openedCommand is the command of a call.
type openedCommand struct {
	*Command
	output sync.WaitGroup
	over   chan struct{} // closed at the end of the call

	mu     sync.Mutex
	opened bool
}

func (h *callHost) ExecOpen() ([]byte, error) {
	c := h.command
	if c == nil {
		return nil, abi.NewError(abi.FailedPrecondition, "open: this call is about no command")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.opened {
		return nil, abi.NewError(abi.FailedPrecondition, "open: the streams were opened before")
	}
	c.opened = true
	stdin, sizes := h.source(), h.source()
	answer := &wasmnodev1.ExecStreams{
		Stdin: h.streams.add(stdin), Stdout: h.sink(c.Stdout), Stderr: h.sink(c.Stderr), Sizes: h.streams.add(sizes),
	}
	if c.Stdin == nil {
		stdin.inErr = io.EOF
	} else {
		go h.streams.fill(stdin, c.Stdin)
	}
	go h.resize(sizes)
	return answer.MarshalVT()
}

var errReadOnly = errors.New("nothing can be written to this stream")

// source is a stream that the driver only reads.
func (*callHost) source() *fakeStream { return &fakeStream{outErr: errReadOnly, end: func() {}} }

// sink opens a stream that the driver only writes.
func (h *callHost) sink(to io.Writer) uint32 {
	if to == nil {
		to = io.Discard
	}
	f := &fakeStream{inErr: io.EOF, end: func() {}}
	id := h.streams.add(f)
	h.command.output.Add(1)
	go func() {
		defer h.command.output.Done()
		if _, err := io.Copy(to, written{h.streams, f}); err != nil {
			h.streams.change(func() { f.outErr = err })
		}
	}()
	return id
}

// resize hands on the sizes of the command's terminal.
func (h *callHost) resize(f *fakeStream) {
	for {
		select {
		case size, ok := <-h.command.Sizes:
			if !ok {
				h.streams.change(func() { f.inErr = io.EOF })
				return
			}
			var b [4]byte
			binary.LittleEndian.PutUint16(b[:], size.Rows)
			binary.LittleEndian.PutUint16(b[2:], size.Columns)
			h.streams.change(func() { f.in.Write(b[:]) })
		case <-h.command.over:
			return
		}
	}
}
