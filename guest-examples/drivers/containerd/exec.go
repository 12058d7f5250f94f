package main

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"path"
	"strconv"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/sdk/go/command"
	"github.com/wasmnode/wasmnode/sdk/go/config"
	"github.com/wasmnode/wasmnode/sdk/go/driver"
)

var _ driver.TaskStreamExecer = (*containerd)(nil)

// execution is a command in a container. Its output is copied from files, as the container's is.
// It has no input: that takes a named pipe, which no plugin can make.
type execution struct {
	*client
	container string
	id        string
	outputs   []*tail
}

// Exec runs a command in the container. It is killed when nobody waits for it any more, or when
// it is given input.
func (d *containerd) Exec(ctx context.Context, _ string, h *driver.TaskHandle, cmd *driver.Command) (*driver.ExitResult, error) {
	c, id, err := d.of(ctx, h)
	if err != nil {
		return nil, err
	}
	defer c.close()
	streams, err := command.Open(ctx)
	if err != nil {
		return nil, err
	}
	e := &execution{client: c, container: id, id: "exec-" + strconv.FormatUint(rand.Uint64(), 36)}
	e.outputs = []*tail{{name: outputName(e.id, stdout), to: streams.Stdout}}
	if !cmd.TTY {
		e.outputs = append(e.outputs, &tail{name: outputName(e.id, stderr), to: streams.Stderr})
	}
	defer e.clear(ctx)
	if err := e.begin(ctx, cmd); err != nil {
		return nil, err
	}
	return e.run(ctx, d, cmd, streams)
}

// begin starts the command, as the container's first process was, with other arguments.
func (e *execution) begin(ctx context.Context, cmd *driver.Command) error {
	k, err := e.client.container(e.container)
	if err != nil {
		return err
	}
	spec, err := config.Parse(k.spec)
	if err != nil {
		return abi.NewError(abi.Internal, "the container's specification: "+err.Error())
	}
	s, err := e.status(e.container)
	if err != nil {
		return err
	}
	own := object{}
	for _, f := range spec.Get("process").Fields() {
		own[f.Name] = f.Value
	}
	own["args"], own["terminal"] = cmd.Args, cmd.TTY
	if cmd.TTY {
		own["consoleSize"] = object{"height": int64(cmd.Size.Rows), "width": int64(cmd.Size.Columns)}
	}
	m, dir := about(e.container), path.Dir(s.stdout)+"/"
	for i, o := range e.outputs {
		if err := createOutput(ctx, o.name); err != nil {
			return err
		}
		m.text(protowire.Number(3+i), dir+o.name) // standard output is 3, and error 4
	}
	m.truth(5, cmd.TTY)
	m.any(6, processType, appendJSON(nil, own))
	m.text(7, e.id)
	if _, err := e.ask("tasks.v1.Tasks/Exec", m); err != nil {
		return err
	}
	return e.start(e.container, e.id)
}

// run copies output until the command ends.
func (e *execution) run(ctx context.Context, d *containerd, cmd *driver.Command, streams *command.Streams) (*driver.ExitResult, error) {
	other, err := d.engine.open(ctx)
	if err != nil {
		return nil, err
	}
	defer other.close()
	faults := make(chan error, 1)
	go func() { faults <- noInput(streams.Stdin) }()
	exited := other.watch(e.container, e.id, cmd.Timeout)
	if cmd.TTY {
		go d.followSizes(ctx, e.container, e.id, cmd.Size, streams)
	}
	for pause := shortPause; ; pause = min(2*pause, longPause) {
		if more, err := e.copyNew(ctx); err != nil {
			return nil, err
		} else if more {
			pause = shortPause
		}
		select {
		case w := <-exited:
			if isCode(w.err, abi.DeadlineExceeded) {
				return nil, abi.NewError(abi.DeadlineExceeded, "the command did not end within "+cmd.Timeout.String()+", and was killed")
			}
			if w.err != nil {
				return nil, w.err
			}
			return &driver.ExitResult{ExitCode: int32(w.code)}, e.rest(ctx)
		case err := <-faults:
			if err != nil {
				return nil, err
			}
			faults = nil // and no more comes
		case <-time.After(pause):
		}
	}
}

// noInput reads what a command is given as input, which has to be nothing.
func noInput(from io.Reader) error {
	n, err := io.ReadAtLeast(from, make([]byte, 1), 1)
	switch {
	case n > 0:
		return abi.NewError(abi.FailedPrecondition, "a command in a container of containerd has no input: that takes a named pipe, which no plugin can make")
	case errors.Is(err, io.EOF):
		return nil
	}
	return err
}

func (e *execution) copyNew(ctx context.Context) (more bool, err error) {
	for _, o := range e.outputs {
		n, err := o.copyNew(ctx)
		if err != nil {
			return more, err
		}
		more = more || n > 0
	}
	return more, nil
}

// rest has containerd forget the command, which is when all of its output is there, and copies
// that.
func (e *execution) rest(ctx context.Context) error {
	if err := e.forget(); err != nil {
		return err
	}
	for more, err := true, error(nil); more; {
		if more, err = e.copyNew(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (e *execution) forget() error {
	_, err := e.ask("tasks.v1.Tasks/DeleteProcess", process(e.container, e.id))
	if absent(err) {
		return nil
	}
	return err
}

// clear ends what is left of a command.
func (e *execution) clear(ctx context.Context) {
	if err := e.forget(); err != nil { // it runs still
		_ = e.kill(e.container, e.id, 9, false)
		_, _ = e.wait(e.container, e.id, endTime)
		_ = e.forget()
	}
	for _, o := range e.outputs {
		_ = removeOutput(ctx, o.name)
	}
}

// followSizes tells containerd the terminal's sizes.
func (d *containerd) followSizes(ctx context.Context, container, id string, size driver.TerminalSize, streams *command.Streams) {
	c, err := d.engine.open(ctx)
	if err != nil {
		return
	}
	defer c.close()
	for err == nil {
		m := process(container, id)
		m.number(3, uint64(size.Columns))
		m.number(4, uint64(size.Rows))
		_, _ = c.ask("tasks.v1.Tasks/ResizePty", m) // a command that has ended has no terminal
		size, err = streams.NextSize()
	}
}
