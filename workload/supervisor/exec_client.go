package supervisor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/workload"
)

// Exec implements [workload.Runtime], over a connection of its own.
func (c *Client) Exec(ctx context.Context, id string, spec *workload.ExecSpec) (*structs.ExitResult, error) {
	return c.converse(ctx, opExec, &execRequest{ID: id, Command: spec.Command, Args: spec.Args, TTY: spec.TTY, Size: spec.Size}, spec)
}

// Run implements [workload.Runtime], likewise.
func (c *Client) Run(ctx context.Context, helper *workload.Helper) (*structs.ExitResult, error) {
	streams := &workload.ExecSpec{Stdin: helper.Stdin, Stdout: helper.Stdout, Stderr: helper.Stderr}
	return c.converse(ctx, opRun, &execRequest{Helper: helper}, streams)
}

// converse has something run whose streams are those of a connection.
func (c *Client) converse(ctx context.Context, op string, ask *execRequest, spec *workload.ExecSpec) (*structs.ExitResult, error) {
	if err := c.handshake(ctx); err != nil {
		return nil, err
	}
	ask.Stdin, ask.Stdout, ask.Stderr = spec.Stdin != nil, spec.Stdout != nil, spec.Stderr != nil
	conn, err := c.openExec(ctx, op, ask)
	if err != nil {
		return nil, err
	}
	// The command ends with the connection.
	defer conn.Close()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	context.AfterFunc(ctx, func() { _ = conn.Close() })
	done := make(chan struct{})
	defer close(done)
	to := &frameWriter{w: conn}
	if spec.Stdin != nil {
		go func() {
			if err := sendStdin(to, spec.Stdin); err != nil {
				cancel(fmt.Errorf("the command's input: %w", err)) // the command must not take it for the end
			}
		}()
	}
	if spec.Resize != nil {
		go sendSizes(to, spec.Resize, done)
	}
	exit, err := receiveOutput(conn, spec)
	var gone *connectionError
	if errors.As(err, &gone) {
		return nil, c.lost(ctx, gone.error)
	}
	return exit, err
}

// openExec asks for a command, and returns the connection for its frames.
func (c *Client) openExec(ctx context.Context, op string, ask *execRequest) (io.ReadWriteCloser, error) {
	body, err := json.Marshal(ask)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://supervisor/v1/"+op, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", execProtocol)
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.lost(ctx, err)
	}
	if conn, ok := resp.Body.(io.ReadWriteCloser); ok && resp.StatusCode == http.StatusSwitchingProtocols {
		return conn, nil
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusNotFound {
		return nil, abi.NewError(abi.Unimplemented, "the supervisor of workloads is of a version that runs no commands here: it is replaced when all its tasks have ended")
	}
	return nil, readError(resp)
}

// sendStdin sends what is read until it ends, or the connection does. It returns why
// no more can be read.
func sendStdin(to *frameWriter, stdin io.Reader) error {
	_, err := io.Copy(to.stream(frameStdin), stdin)
	if err == nil {
		err = to.write(frameStdinEnd, nil)
	}
	if errors.As(err, new(*connectionError)) {
		return nil // who is not there needs nothing
	}
	return err
}

func sendSizes(to *frameWriter, sizes <-chan workload.Size, done <-chan struct{}) {
	for {
		select {
		case size, ok := <-sizes:
			if !ok || to.writeJSON(frameSize, size) != nil {
				return
			}
		case <-done:
			return
		}
	}
}

// receiveOutput hands over what the command writes until it has ended.
func receiveOutput(conn io.Reader, spec *workload.ExecSpec) (*structs.ExitResult, error) {
	frames := newFrameReader(conn)
	for {
		kind, payload, err := frames.next()
		if err != nil {
			return nil, &connectionError{err}
		}
		switch kind {
		case frameStdout, frameStderr:
			to := spec.Stdout
			if kind == frameStderr {
				to = spec.Stderr
			}
			if to == nil {
				continue
			}
			if _, err := to.Write(payload); err != nil {
				return nil, fmt.Errorf("the command's output: %w", err)
			}
		case frameExit:
			exit := new(structs.ExitResult)
			return exit, unmarshal(payload, exit)
		case frameError:
			failure := new(abi.Error)
			if err := unmarshal(payload, failure); err != nil {
				return nil, err
			}
			return nil, failure
		case frameAlive:
		default:
			return nil, abi.NewError(abi.Internal, fmt.Sprintf("the supervisor of workloads sent a frame of kind %d", kind))
		}
	}
}
