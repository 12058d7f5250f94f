package clientapi

import (
	"context"
	"errors"
	"fmt"
	"time"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/structs/errdefs"
	"github.com/wasmnode/wasmnode/workload"
)

// MaxExecMessage bounds a message of who runs a command, in bytes: the stock tools' pieces of
// input have 2 KiB.
const MaxExecMessage = 1 << 20

// firstSizeTimeout is how long a terminal's size is waited for, which clients send at
// once, so that a command that asks first thing gets the right answer, however far away
// or busy the client is.
const firstSizeTimeout = 5 * time.Second

// ExecConn carries the messages of a command, both ways at once.
type ExecConn interface {
	// Receive waits for the next message. One goroutine calls it.
	Receive(*nomad.ExecStreamingInput) error
	// Send sends a message, and may be called concurrently.
	Send(*nomad.ExecStreamingOutput) error
	// Finish tells that nothing more is sent, and why where that is for an error. Receive
	// returns soon then.
	Finish(err error)
	// Close has whatever is under way return.
	Close() error
}

// Exec runs a command between the messages of a connection, and returns when nothing of it is
// left: with its error, which the client was told. The connection is still to be closed.
func Exec(ctx context.Context, conn ExecConn, spec *workload.ExecSpec, run func(context.Context) (*structs.ExitResult, error)) error {
	closing := func() { _ = conn.Close() }
	defer context.AfterFunc(ctx, closing)()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stopClosing := context.AfterFunc(ctx, closing) // also once the client has gone
	input := workload.NewInput()
	received := make(chan struct{})
	go func() {
		defer close(received)
		receiveInput(conn, input)
		cancel() // the client has gone
	}()
	stopHeartbeats := AtIntervals(ctx, heartbeat, func() {
		if conn.Send(&nomad.ExecStreamingOutput{}) != nil {
			cancel() // this shows it also while input waits to be read
		}
	})
	input.Give(spec)
	if spec.TTY {
		spec.Size = input.FirstSize(ctx, firstSizeTimeout)
	}
	spec.Stdout, spec.Stderr = execOutput{conn, toStdout}, execOutput{conn, toStderr}
	exit, err := run(ctx)
	input.Close()
	stopHeartbeats()
	stopClosing() // a client that has said all is still to get the last messages
	if err == nil {
		_ = conn.Send(&nomad.ExecStreamingOutput{Exited: true, Result: &nomad.ExecStreamingExitResult{ExitCode: exit.ExitCode}})
	}
	conn.Finish(err)
	<-received
	return err
}

// isolated are the drivers whose tasks see no more of the machine than is theirs.
var isolated = map[string]bool{"docker": true, "exec": true, "java": true, "podman": true, "wasi": true}

// Isolated reports whether the tasks of a driver see no more of the machine than is theirs. A
// command in a task of another one needs a capability more, as in Nomad.
func Isolated(driver string) bool { return isolated[driver] }

// receiveInput takes messages until there are no more, or one is invalid.
func receiveInput(conn ExecConn, input *workload.Input) {
	defer input.Break()
	for {
		var in nomad.ExecStreamingInput
		if conn.Receive(&in) != nil {
			return
		}
		if in.TTYSize != nil {
			input.Resize(workload.Size{Rows: dimension(in.TTYSize.Height), Columns: dimension(in.TTYSize.Width)})
		}
		if in.Stdin != nil {
			input.Feed(in.Stdin.Data)
			if in.Stdin.Close {
				input.End()
			}
		}
	}
}

// dimension is a terminal's height or width as the kernel takes it.
func dimension(n int) uint16 { return uint16(max(0, min(n, 1<<16-1))) }

// ExecError is what people read of why a command could not be run: what it is about they know.
func ExecError(err error) string {
	var e *errdefs.Error
	if errors.As(err, &e) {
		return e.Message
	}
	return fmt.Sprint(err)
}

// execOutput is one of a command's streams to its client.
type execOutput struct {
	conn    ExecConn
	message func([]byte) *nomad.ExecStreamingOutput
}

// Write implements [io.Writer].
func (o execOutput) Write(b []byte) (int, error) {
	return len(b), o.conn.Send(o.message(b))
}

func toStdout(b []byte) *nomad.ExecStreamingOutput {
	return &nomad.ExecStreamingOutput{Stdout: &nomad.ExecStreamingIOOperation{Data: b}}
}

func toStderr(b []byte) *nomad.ExecStreamingOutput {
	return &nomad.ExecStreamingOutput{Stderr: &nomad.ExecStreamingIOOperation{Data: b}}
}
