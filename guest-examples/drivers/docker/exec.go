package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"time"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/sdk/go/driver"
)

var _ driver.TaskExecer = (*docker)(nil)

// maxExecOutput bounds what a command's answer has of its output, which is one message.
const maxExecOutput = 2 << 20

// ExecTask runs a command in the container, without standard input and terminal.
func (d *docker) ExecTask(ctx context.Context, _ string, handle *driver.TaskHandle, command []string, timeout time.Duration) (*driver.ExecResult, error) {
	s, err := stateOf(handle)
	if err != nil {
		return nil, err
	}
	var o object
	o.truth("AttachStdout", true)
	o.truth("AttachStderr", true)
	o.texts("Cmd", command)
	v, err := d.engine.ask(ctx, request{method: "POST", path: "/containers/" + s.container + "/exec", body: o.encoded()})
	if err != nil {
		return nil, err
	}
	id := v.Get("Id").Text()
	response, err := d.engine.send(ctx, request{
		method: "POST", path: "/exec/" + id + "/start", body: []byte(`{"Detach":false,"Tty":false}`), timeout: timeout,
	})
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Close() }()
	result := &driver.ExecResult{}
	if result.Stdout, result.Stderr, err = split(response); err != nil {
		return nil, err
	}
	if v, err = d.engine.get(ctx, "/exec/"+id+"/json", nil); err != nil {
		return nil, err
	}
	result.Result = &driver.ExitResult{ExitCode: int32(v.Get("ExitCode").Int())}
	return result, nil
}

// split reads the frames of a command's output.
func split(response io.Reader) (out, err []byte, failed error) {
	r := bufio.NewReader(response)
	var outputs [3]bytes.Buffer
	for {
		var head [8]byte
		if _, err := io.ReadFull(r, head[:]); errors.Is(err, io.EOF) {
			return outputs[stdout].Bytes(), outputs[stderr].Bytes(), nil
		} else if err != nil {
			return nil, nil, err
		}
		stream, n := head[0], int64(binary.BigEndian.Uint32(head[4:]))
		if stream > stderr {
			return nil, nil, errGarbled
		}
		if int64(outputs[stdout].Len()+outputs[stderr].Len())+n > maxExecOutput {
			return nil, nil, abi.NewError(abi.ResourceExhausted, "the command's output is longer than 2 MiB")
		}
		if _, err := io.CopyN(&outputs[stream], r, n); err != nil {
			return nil, nil, err
		}
	}
}
