package driver

import (
	"context"
	"time"

	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
)

// TerminalSize is a terminal's size in characters, 16 bits each.
type TerminalSize struct{ Rows, Columns uint16 }

// Command is a command to run inside a task. The package command opens its streams.
type Command struct {
	// Args are the program and its arguments; never empty.
	Args []string
	// TTY asks for a terminal, for all three streams.
	TTY bool
	// Size is the terminal's at the start.
	Size TerminalSize
	// Timeout is how long it may take; 0: as long as whoever asked for it waits.
	Timeout time.Duration
}

// execStreams has a driver run a command whose streams it can open. The package that does is
// the driver's to import: it makes a plugin larger, and the plugin's imports say that it does.
func execStreams(ctx context.Context, d TaskStreamExecer, r *wasmnodev1.DriverExecTaskRequest) (*ExecResult, error) {
	result, err := d.Exec(ctx, r.TaskId, r.Handle, &Command{
		Args: r.Command, TTY: r.Tty, Timeout: duration(r.TimeoutMs),
		Size: TerminalSize{Rows: uint16(r.Size.GetRows()), Columns: uint16(r.Size.GetColumns())},
	})
	if err != nil || result == nil {
		return nil, err
	}
	return &ExecResult{Result: result}, nil
}
