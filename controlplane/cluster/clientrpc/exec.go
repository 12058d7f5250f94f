package clientrpc

import (
	"context"
	"encoding/json"
	"slices"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/clientapi"
	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/workload"
)

type execArgs struct {
	AllocID, JobID, Task, Action string
	Cmd                          []string
	Tty                          bool
	AuthToken                    string
}

// exec runs a command, or an action of the task, in a task.
func (s *server) exec(ctx context.Context, args *execArgs, st *conn) error {
	spec, err := s.command(ctx, args)
	if err != nil {
		return err
	}
	s.Logger.Info("a command runs in a task", "alloc_id", args.AllocID, "task", args.Task, "command", spec.Command)
	return clientapi.Exec(ctx, &execStream{conn: st}, spec, func(ctx context.Context) (*structs.ExitResult, error) {
		return s.Node.Exec(ctx, args.AllocID, args.Task, spec)
	})
}

// command is what to run, unless it is refused.
func (s *server) command(ctx context.Context, args *execArgs) (*workload.ExecSpec, error) {
	if args.AllocID == "" {
		return nil, errNoAllocation
	}
	alloc, err := s.allocation(args.AllocID)
	if err != nil {
		return nil, err
	}
	if args.Task == "" {
		return nil, errNoTask
	}
	if args.JobID != "" && args.JobID != alloc.JobID {
		return nil, invalid("job %s does not have allocation %s", args.JobID, args.AllocID)
	}
	task := alloc.Task(args.Task)
	if task == nil {
		return nil, invalid("unknown task name %q", args.Task)
	}
	command := args.Cmd
	if args.Action != "" {
		i := slices.IndexFunc(task.Actions, func(a *nomad.Action) bool { return a.Name == args.Action })
		if i < 0 {
			return nil, invalid("action %s not found in task %s", args.Action, args.Task)
		}
		command = append([]string{task.Actions[i].Command}, task.Actions[i].Args...)
	}
	if len(command) == 0 || command[0] == "" {
		return nil, invalid("command is not present")
	}
	if s.MayExec != nil && !clientapi.Isolated(task.Driver) {
		if err := s.MayExec(ctx, args.AuthToken, alloc.Namespace); err != nil {
			return nil, err
		}
	}
	if err := s.Node.CanExec(args.AllocID, args.Task); err != nil {
		return nil, err
	}
	return &workload.ExecSpec{Command: command[0], Args: command[1:], TTY: args.Tty}, nil
}

// execStream is the stream of a command.
type execStream struct{ conn *conn }

// execInput is a message of who runs a command. One without anything is a heartbeat.
type execInput struct {
	Stdin *struct {
		Data  []byte
		Close bool
	}
	TtySize *struct{ Height, Width int32 }
}

// Receive implements [clientapi.ExecConn].
func (e *execStream) Receive(in *nomad.ExecStreamingInput) error {
	var message execInput
	if err := e.conn.Decode(&message); err != nil {
		return err
	}
	message.into(in)
	return nil
}

func (m *execInput) into(in *nomad.ExecStreamingInput) {
	if m.Stdin != nil {
		in.Stdin = &nomad.ExecStreamingIOOperation{Data: m.Stdin.Data, Close: m.Stdin.Close}
	}
	if size := m.TtySize; size != nil {
		in.TTYSize = &nomad.TerminalSize{Height: int(size.Height), Width: int(size.Width)}
	}
}

// Send implements [clientapi.ExecConn].
func (e *execStream) Send(message *nomad.ExecStreamingOutput) error {
	frame, err := json.Marshal(message)
	if err != nil {
		return err
	}
	return e.conn.Send(frame)
}

// Finish implements [clientapi.ExecConn]. The error is told by who serves the stream.
func (e *execStream) Finish(error) { e.conn.StopReading() }

// Close implements [clientapi.ExecConn].
func (e *execStream) Close() error {
	e.conn.Close()
	return nil
}
