package host

import (
	"context"
	"fmt"

	"github.com/tetratelabs/wazero/api"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/internal/plaintext"
	"github.com/wasmnode/wasmnode/sandbox"
	"github.com/wasmnode/wasmnode/workload/logfile"
)

// Bounds of a task event.
const (
	maxEventBytes      = 64 << 10 // as the guest hands it over
	maxEventText       = 1 << 10
	maxAnnotations     = 32
	maxAnnotationBytes = 256
)

// The streams of [abi.FuncTaskOutput].
const (
	streamStdout = 1
	streamStderr = 2
)

// taskFuncs is wasmnode:task/v1: what a driver reports about its tasks. It needs no
// grant; rates and sizes are bounded.
var taskFuncs = map[string]sandbox.HostFunc{
	abi.FuncTaskEvent: structured(taskEvent),
	abi.FuncTaskRefresh: {
		Run: func(ctx context.Context, _ api.Module, _ []uint64) {
			p := callOf(ctx).plugin
			if p.pool.settings() == nil {
				return // it is not polled yet
			}
			if _, ok := p.events.allow(); ok {
				p.host.cfg.OnRefresh(p.Name())
			}
		},
	},
	abi.FuncTaskOutput: {
		Params:  []api.ValueType{i32, i32, i32},
		Results: []api.ValueType{i64},
		Run: func(ctx context.Context, m api.Module, stack []uint64) {
			c := callOf(ctx)
			// To copy megabytes takes longer than a piece of them may.
			data := view(m, stack[1], stack[2], c.plugin.host.cfg.Limits.OutputBytes)
			stack[0] = c.stage(nil, c.writeOutput(ctx, uint32(stack[0]), data))
		},
	},
	abi.FuncTaskMark: {
		Params:  []api.ValueType{i32, i32, i32},
		Results: []api.ValueType{i64},
		Run: func(ctx context.Context, m api.Module, stack []uint64) {
			c := callOf(ctx)
			mark := read(m, stack[1], stack[2], maxRequest)
			stack[0] = c.stage(nil, c.markOutput(uint32(stack[0]), mark))
		},
	},
	abi.FuncTaskMarked: aboutStream(func(_ context.Context, c *call, stream uint32) (Message, error) {
		return c.outputMarked(stream)
	}),
}

// EventSink takes an event of a task. It must not block. Its error is what the guest is
// told.
type EventSink func(e *wasmnodev1.TaskEvent) error

type eventsKey struct{}

// WithEvents returns a context for a call that hands the task events of its guest to a
// sink. In a call without one the guest gets an error.
func WithEvents(ctx context.Context, sink EventSink) context.Context {
	return context.WithValue(ctx, eventsKey{}, sink)
}

// taskEvent passes a task event on.
func taskEvent(ctx context.Context, c *call, request []byte) (Message, error) {
	if len(request) > maxEventBytes {
		return nil, abi.NewError(abi.InvalidArgument, fmt.Sprintf("the event has %d bytes, the limit is %d", len(request), maxEventBytes))
	}
	e := &wasmnodev1.TaskEvent{}
	if err := decode(request, e); err != nil {
		return nil, abi.NewError(abi.InvalidArgument, "not a TaskEvent message")
	}
	if c.plugin.pool.settings() == nil {
		return nil, abi.NewError(abi.PermissionDenied, "task events: not before the plugin is configured")
	}
	if c.scope != nil && e.TaskId != c.scope.Config.Id {
		return nil, abi.NewError(abi.PermissionDenied, fmt.Sprintf("this call is about task %s, not %s", c.scope.Config.Id, plaintext.Line(e.TaskId, 128)))
	}
	sink, _ := ctx.Value(eventsKey{}).(EventSink)
	if sink == nil {
		return nil, abi.NewError(abi.FailedPrecondition, fmt.Sprintf("a call of %s cannot send task events", c.op))
	}
	if len(e.Annotations) > maxAnnotations {
		return nil, abi.NewError(abi.InvalidArgument, fmt.Sprintf("%d annotations, the limit is %d", len(e.Annotations), maxAnnotations))
	}
	if _, ok := c.plugin.events.allow(); !ok {
		return nil, abi.NewRecoverableError(abi.ResourceExhausted, "too many task events a second")
	}
	clean := &wasmnodev1.TaskEvent{TaskId: e.TaskId, Message: plaintext.Line(c.inst.shown(e.Message, false), maxEventText), Annotations: map[string]string{}}
	for k, v := range e.Annotations {
		clean.Annotations[plaintext.Line(c.inst.shown(k, false), maxAnnotationBytes)] = plaintext.Line(c.inst.shown(v, false), maxAnnotationBytes)
	}
	return nil, sink(clean)
}

// taskLog is a log file that is open for the rest of a call.
type taskLog struct {
	stream uint32
	writer *logfile.Writer
}

// writeOutput appends to the task's standard output or error.
func (c *call) writeOutput(ctx context.Context, stream uint32, data []byte) error {
	if c.scope == nil {
		return abi.NewError(abi.FailedPrecondition, "this call has no task whose output could be written")
	}
	log, err := c.openLog(stream)
	if log == nil {
		return err
	}
	return inPieces(ctx, data, func(piece []byte) error {
		_, err := log.Write(piece)
		return err
	})
}

// maxMarkBytes is how much a driver may remember with a stream of output.
const maxMarkBytes = 256

// markOutput remembers a mark with what a stream has so far.
func (c *call) markOutput(stream uint32, mark []byte) error {
	switch {
	case c.scope == nil:
		return abi.NewError(abi.FailedPrecondition, "this call has no task whose output could be marked")
	case len(mark) > maxMarkBytes:
		return abi.NewError(abi.InvalidArgument, fmt.Sprintf("a mark has %d bytes at most", maxMarkBytes))
	}
	log, err := c.openLog(stream)
	if log == nil {
		return err
	}
	if err := log.Mark(c.scope.Config.Id, mark); err != nil {
		return abi.NewRecoverableError(abi.Unavailable, fmt.Sprintf("the mark of the task's log: %v", err))
	}
	return nil
}

// outputMarked is the latest mark of a stream, and what it has got since.
func (c *call) outputMarked(stream uint32) (Message, error) {
	if c.scope == nil {
		return nil, abi.NewError(abi.FailedPrecondition, "this call has no task whose output could be marked")
	}
	log, err := c.openLog(stream)
	if err != nil {
		return nil, err
	}
	answer := &wasmnodev1.OutputMark{}
	if log != nil {
		answer.Mark, answer.BytesSince = log.Marked(c.scope.Config.Id)
	}
	return answer, nil
}

// openLog returns the task's log of a stream, which is opened once in a call; nil: the task
// has none.
func (c *call) openLog(stream uint32) (*logfile.Writer, error) {
	for _, l := range c.logs {
		if l.stream == stream {
			return l.writer, nil
		}
	}
	cfg := c.scope.Config
	path := ""
	switch stream {
	case streamStdout:
		path = cfg.StdoutPath
	case streamStderr:
		path = cfg.StderrPath
	default:
		return nil, abi.NewError(abi.InvalidArgument, fmt.Sprintf("unknown stream %d: 1 is standard output, 2 is standard error", stream))
	}
	if cfg.GetLog().GetDisabled() {
		return nil, nil
	}
	w, err := logfile.Open(path, int(cfg.GetLog().GetMaxFiles()), int64(cfg.GetLog().GetMaxFileSizeBytes()))
	if err != nil {
		return nil, abi.NewRecoverableError(abi.Unavailable, fmt.Sprintf("the task's log: %v", err))
	}
	c.logs = append(c.logs, taskLog{stream, w})
	return w, nil
}

func (c *call) closeLogs() {
	for _, l := range c.logs {
		_ = l.writer.Close() // a task does not fail because its log does
	}
}
