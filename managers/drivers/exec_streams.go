package drivers

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/workload"
)

// detachGrace is how long a driver has to end a command that nobody waits for any more, and
// whose streams are broken, before its call is ended.
const detachGrace = 2 * time.Second

// errDetached is what a driver reads and writes when nobody is at the other end.
var errDetached = errors.New("whoever had the command run has gone")

// execWithStreams has the driver run a command whose streams it gets.
func (d *Driver) execWithStreams(ctx context.Context, t *task, cfg *wasmnodev1.TaskConfig, h *wasmnodev1.TaskHandle, spec *workload.ExecSpec) (*structs.ExitResult, error) {
	request := execRequest(cfg, h, spec)
	if spec.TTY {
		size := spec.Size
		if size == (workload.Size{}) {
			size = workload.DefaultSize
		}
		request.Tty, request.Size = true, &wasmnodev1.TerminalSize{Rows: uint32(size.Rows), Columns: uint32(size.Columns)}
	}
	ctx, leave := context.WithCancelCause(ctx)
	defer leave(nil)
	call, end := context.WithCancelCause(context.WithoutCancel(ctx))
	defer end(nil)
	c := &command{spec: spec, leave: leave}
	defer context.AfterFunc(ctx, func() {
		c.detach()
		grace := time.AfterFunc(detachGrace, func() { end(errDetached) })
		context.AfterFunc(call, func() { grace.Stop() })
	})()
	answer := &wasmnodev1.DriverExecTaskResponse{}
	err := d.call(call, t, nil, 0, host.Call{Op: abi.OpDriverExecTask, Task: cfg, Answer: answer, Request: request, Streams: c.open})
	opened := c.end()
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case opened && abi.CodeOf(err) == abi.Unimplemented:
		return nil, d.badAnswer(abi.OpDriverExecTask, "UNIMPLEMENTED after it had opened the command's streams")
	}
	return d.execEnded(spec, answer, err)
}

// command is what leads to a command's streams: pipes, so that a driver's call never waits for
// whoever is at their other end when it is over.
type command struct {
	spec  *workload.ExecSpec
	leave context.CancelCauseFunc // ends the wait for the command

	outputs sync.WaitGroup // what hands on the output

	mu             sync.Mutex
	detached       bool
	feed           *io.PipeWriter // nil: the driver has not opened the streams
	stdout, stderr *io.PipeReader
}

// open makes the pipes. It is called once at most.
func (c *command) open() host.CommandStreams {
	stdin, feed := io.Pipe()
	stdout, toStdout := io.Pipe()
	stderr, toStderr := io.Pipe()
	c.mu.Lock()
	c.feed, c.stdout, c.stderr = feed, stdout, stderr
	detached := c.detached
	c.mu.Unlock()
	if detached {
		c.detach()
	}
	go c.take(feed) // a read may be under way when the command has ended: whose the input is, ends it
	c.outputs.Go(func() { c.handOn(stdout, c.spec.Stdout) })
	c.outputs.Go(func() { c.handOn(stderr, c.spec.Stderr) })
	return host.CommandStreams{Stdin: stdin, Stdout: toStdout, Stderr: toStderr, Sizes: c.spec.Resize}
}

// take takes the command's input.
func (c *command) take(feed *io.PipeWriter) {
	var err error
	if c.spec.Stdin != nil {
		_, err = io.Copy(feed, c.spec.Stdin)
	}
	_ = feed.CloseWithError(err) // nil is the end
}

// handOn hands output on. When nobody takes it the command has to end.
func (c *command) handOn(from *io.PipeReader, to io.Writer) {
	if to == nil {
		to = io.Discard
	}
	if _, err := io.Copy(to, from); err != nil {
		c.leave(outputError(err))
	}
}

// detach breaks the streams, those that are opened later too.
func (c *command) detach() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.detached = true
	if c.feed != nil {
		_ = c.feed.CloseWithError(errDetached)
		_ = c.stdout.CloseWithError(errDetached)
		_ = c.stderr.CloseWithError(errDetached)
	}
}

// end waits, when the driver's call has ended, until its output is handed on. It reports
// whether the driver has opened the streams.
func (c *command) end() (opened bool) {
	c.outputs.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.feed != nil
}
