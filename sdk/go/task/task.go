// Package task reports to the node about tasks: the capability wasmnode:task/v1, which
// every plugin has.
package task

import (
	"context"
	"io"

	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/sdk/go/internal/hostcall"
)

// Event shows message among the events of the task with that ID, with the type
// "Driver". A message is cut at 1 KiB; there are at most 32 annotations.
//
// # Errors
//
// RESOURCE_EXHAUSTED: too many events a second, later ones may be taken;
// PERMISSION_DENIED: the current call is about another task; INVALID_ARGUMENT: too
// many annotations; FAILED_PRECONDITION or NOT_FOUND: the event has no receiver, such
// as one that is sent while configuring, or of a task that is not the driver's.
func Event(ctx context.Context, taskID, message string, annotations map[string]string) error {
	event := &wasmnodev1.TaskEvent{TaskId: taskID, Message: message, Annotations: annotations}
	encoded, err := event.MarshalVT()
	if err != nil {
		return err
	}
	return hostcall.TaskEvent(ctx, encoded)
}

// Refresh asks the node to poll the driver's fingerprint now instead of at the next
// interval, because something has changed. It is a request: the node limits the rate.
func Refresh(ctx context.Context) { hostcall.TaskRefresh(ctx) }

// Dir returns where the driver sees the directory of the task that the current call is about,
// with "local" and "secrets" in it: "/task", or natively, where a test has it. It needs
// no grant. In a call about no task there is nothing there. A link in it that leads out of it
// is not followed. Close what you open in the same call: an instance that leaves a file open is
// not used again.
func Dir(ctx context.Context) string {
	dir, _ := hostcall.TaskDirs(ctx)
	return dir
}

// AllocDir returns where the driver sees the directory that all tasks of the allocation share,
// likewise.
func AllocDir(ctx context.Context) string {
	_, alloc := hostcall.TaskDirs(ctx)
	return alloc
}

// Stdout writes to the standard output of the task that the current call is about.
// A driver whose task is a workload of the host's has no need of it.
func Stdout(ctx context.Context) io.Writer { return output{ctx, 1} }

// Stderr writes to the standard error of the task that the current call is about.
func Stderr(ctx context.Context) io.Writer { return output{ctx, 2} }

// Mark remembers up to 256 bytes with all that was written to a stream so far, 1 for Stdout and
// 2 for Stderr: where in an engine's log it came from, say. It replaces what was remembered.
// What is written and what is remembered survive the agent together.
func Mark(ctx context.Context, stream uint32, mark []byte) error {
	return hostcall.TaskMark(ctx, stream, mark)
}

// Marked returns what was last remembered with a stream of the task, in whatever call, and how
// many bytes were written to it since. Empty: nothing yet, in this invocation of the task.
func Marked(ctx context.Context, stream uint32) (mark []byte, since uint64, err error) {
	answer, err := hostcall.TaskMarked(ctx, stream)
	if err != nil {
		return nil, 0, err
	}
	var m wasmnodev1.OutputMark
	if err := m.UnmarshalVT(answer); err != nil {
		return nil, 0, err
	}
	return m.Mark, m.BytesSince, nil
}

// maxOutput is how much is handed over at a time, in bytes: well below what the host
// takes, and little enough to copy.
const maxOutput = 64 << 10

type output struct {
	ctx    context.Context
	stream uint32
}

func (o output) Write(data []byte) (written int, err error) {
	for len(data) > 0 {
		n := min(len(data), maxOutput)
		if err := hostcall.TaskOutput(o.ctx, o.stream, data[:n]); err != nil {
			return written, err
		}
		written += n
		data = data[n:]
	}
	return written, nil
}
