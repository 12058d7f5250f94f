package main

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/sdk/go/command"
	"github.com/wasmnode/wasmnode/sdk/go/driver"
	"github.com/wasmnode/wasmnode/sdk/go/plainhttp"
)

var _ driver.TaskStreamExecer = (*docker)(nil)

// endOfInput is what ends the input of a terminal: ^D.
const endOfInput = "\x04"

// Exec runs a command in the container. When nobody waits for it any more its input ends; what
// goes on all the same the engine has no way to end.
func (d *docker) Exec(ctx context.Context, _ string, handle *driver.TaskHandle, c *driver.Command) (*driver.ExitResult, error) {
	s, err := stateOf(handle)
	if err != nil {
		return nil, err
	}
	var o object
	for _, name := range []string{"AttachStdin", "AttachStdout", "AttachStderr"} {
		o.truth(name, true)
	}
	o.truth("Tty", c.TTY)
	if c.TTY { // engines with API 1.42 make the terminal of that size, others are told once it is there
		o.list("ConsoleSize", [][]byte{decimal(c.Size.Rows), decimal(c.Size.Columns)})
	}
	o.texts("Cmd", c.Args)
	v, err := d.engine.ask(ctx, request{method: "POST", path: "/containers/" + s.container + "/exec", body: o.encoded()})
	if err != nil {
		return nil, err
	}
	streams, err := command.Open(ctx)
	if err != nil {
		return nil, err
	}
	e := &execution{engine: d.engine, path: "/exec/" + v.Get("Id").Text(), command: c, streams: streams}
	if err := e.start(ctx); err != nil {
		return nil, err
	}
	defer func() { _ = e.conn.Close() }()
	if c.TTY {
		go e.followSizes(ctx)
	}
	go e.sendInput()
	err = e.receive()
	e.ended.Store(true)
	if err != nil {
		e.endInput()
		return nil, err
	}
	return e.result(ctx)
}

func decimal(n uint16) []byte { return strconv.AppendUint(nil, uint64(n), 10) }

// execution is a command in a container.
type execution struct {
	engine  engine
	path    string // of the engine's object
	command *driver.Command
	streams *command.Streams
	conn    *answer     // with the command's streams
	ended   atomic.Bool // nothing comes from it any more
}

func (e *execution) start(ctx context.Context) (err error) {
	var o object
	o.truth("Detach", false)
	o.truth("Tty", e.command.TTY)
	e.conn, err = e.engine.send(ctx, request{
		method: "POST", path: e.path + "/start", body: o.encoded(), timeout: e.command.Timeout, lasting: true,
		header: []*plainhttp.Header{{Name: "Connection", Value: "Upgrade"}, {Name: "Upgrade", Value: "tcp"}},
	})
	return err
}

// sendInput sends what comes on standard input. After an error nobody waits for the command.
func (e *execution) sendInput() {
	_, err := io.Copy(e.conn, e.streams.Stdin)
	e.endInput()
	if err != nil {
		_ = e.conn.Close()
	}
}

// endInput tells the command that no more comes. A connection that is gone needs it not.
func (e *execution) endInput() {
	if e.command.TTY {
		_, _ = io.WriteString(e.conn, endOfInput)
	} else {
		_ = e.conn.CloseWrite()
	}
}

// receive hands on what the command writes, until it ends.
func (e *execution) receive() error {
	if e.command.TTY {
		_, err := io.Copy(e.streams.Stdout, e.conn)
		return err
	}
	to := map[byte]io.Writer{stdout: e.streams.Stdout, stderr: e.streams.Stderr}
	for {
		var head [8]byte // the stream, and the length of what follows
		if _, err := io.ReadFull(e.conn, head[:]); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		w := to[head[0]]
		if w == nil {
			return errGarbled
		}
		if _, err := io.CopyN(w, e.conn, int64(binary.BigEndian.Uint32(head[4:]))); err != nil {
			return err
		}
	}
}

// followSizes tells the engine the terminal's sizes.
func (e *execution) followSizes(ctx context.Context) {
	size, err := e.command.Size, error(nil)
	for err == nil {
		e.resize(ctx, size)
		size, err = e.streams.NextSize()
	}
}

// A command's streams are there a moment before it is, and go a moment before it has ended.
const (
	moments = 100
	moment  = 20 * time.Millisecond
	// resizeTime bounds a request in which an engine may wait for a command to begin.
	resizeTime = 200 * time.Millisecond
)

func (e *execution) resize(ctx context.Context, size driver.TerminalSize) {
	query := url.Values{"h": {string(decimal(size.Rows))}, "w": {string(decimal(size.Columns))}}
	for i := 0; i < moments && !e.ended.Load(); i++ {
		response, err := e.engine.send(ctx, request{method: "POST", path: e.path + "/resize", query: query, timeout: resizeTime})
		if err == nil {
			_ = response.Close()
			return
		}
		time.Sleep(moment)
	}
}

// result is how the command ended.
func (e *execution) result(ctx context.Context) (*driver.ExitResult, error) {
	for range moments {
		v, err := e.engine.get(ctx, e.path+"/json", nil)
		if err != nil {
			return nil, err
		}
		if !v.Get("Running").Bool() {
			return &driver.ExitResult{ExitCode: int32(v.Get("ExitCode").Int())}, nil
		}
		time.Sleep(moment)
	}
	return nil, abi.NewError(abi.Unavailable, "the command has closed its output and goes on")
}
