package host

import (
	"context"
	"errors"
	"io"
	"math"
	"time"

	"github.com/tetratelabs/wazero/api"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/host/stream"
	"github.com/wasmnode/wasmnode/sandbox"
)

// streamFuncs is wasmnode:stream/v1: reading and writing what other capabilities have opened.
// It needs no grant, since it opens nothing.
var streamFuncs = map[string]sandbox.HostFunc{
	abi.FuncStreamRead:  moving((*stream.Table).Read),
	abi.FuncStreamWrite: moving((*stream.Table).Write),
	abi.FuncStreamShutdown: aboutStream(func(_ context.Context, c *call, id uint32) (Message, error) {
		return nil, c.streams().Shutdown(id)
	}),
	abi.FuncStreamClose: aboutStream(func(_ context.Context, c *call, id uint32) (Message, error) {
		return nil, c.streams().Close(id)
	}),
	abi.FuncStreamBlocking: {
		Params:  []api.ValueType{i32, i32},
		Results: []api.ValueType{i64},
		Run: func(ctx context.Context, _ api.Module, stack []uint64) {
			c := callOf(ctx)
			stack[0] = c.stage(nil, c.streams().SetBlocking(uint32(stack[0]), uint32(stack[1]) != 0))
		},
	},
	abi.FuncStreamPoll: structured(streamPoll),
}

// moving makes a function (stream, ptr, len: i32) -> i64 of one that moves bytes: on success
// the lower half of the status counts them. The bytes are the guest's own, which stands still.
func moving(do func(t *stream.Table, ctx context.Context, id uint32, p []byte) (int, error)) sandbox.HostFunc {
	return sandbox.HostFunc{
		Params:  []api.ValueType{i32, i32, i32},
		Results: []api.ValueType{i64},
		Run: func(ctx context.Context, m api.Module, stack []uint64) {
			c := callOf(ctx)
			n, err := do(c.streams(), ctx, uint32(stack[0]), memory(m, stack[1], stack[2]))
			switch {
			case errors.Is(err, stream.ErrWouldBlock):
				c.staged = nil // it is no news
				stack[0] = abi.Status(uint32(abi.Unavailable), 0)
			case err != nil && !errors.Is(err, io.EOF):
				stack[0] = c.stage(nil, err)
			default:
				c.staged = nil
				stack[0] = abi.Status(0, uint32(n))
			}
		},
	}
}

// aboutStream makes a function (stream: i32) -> i64 that stages an answer.
func aboutStream(do func(ctx context.Context, c *call, id uint32) (Message, error)) sandbox.HostFunc {
	return sandbox.HostFunc{
		Params:  []api.ValueType{i32},
		Results: []api.ValueType{i64},
		Run: func(ctx context.Context, _ api.Module, stack []uint64) {
			c := callOf(ctx)
			answer, err := do(ctx, c, uint32(stack[0]))
			stack[0] = c.stage(answer, err)
		},
	}
}

// streamPoll waits for one of some streams.
func streamPoll(ctx context.Context, c *call, request []byte) (Message, error) {
	r := &wasmnodev1.StreamPollRequest{}
	if err := decode(request, r); err != nil {
		return nil, abi.NewError(abi.InvalidArgument, "not a StreamPollRequest message")
	}
	timeout := time.Duration(-1)
	if r.TimeoutMs >= 0 {
		timeout = milliseconds(r.TimeoutMs)
	}
	hold, err := c.streams().Poll(ctx, r.Entries, timeout)
	if err != nil {
		return nil, err
	}
	return &wasmnodev1.StreamPollResponse{Entries: hold}, nil
}

// milliseconds is a duration that fits into one.
func milliseconds(n int64) time.Duration {
	return time.Duration(min(n, math.MaxInt64/int64(time.Millisecond))) * time.Millisecond
}

// memory returns bytes of a guest's memory, which are read and written only in the call.
func memory(m api.Module, ptr, length uint64) []byte {
	n := min(uint32(length), stream.PipeBytes) // more is not moved at a time
	if uint32(length) == 0 {
		return nil
	}
	if uint64(uint32(ptr))+uint64(uint32(length)) > uint64(m.Memory().Size()) {
		panic(badPointer(ptr, length))
	}
	view, _ := m.Memory().Read(uint32(ptr), n) // it lies within
	return view
}

// streams returns those of the call, which end with it.
func (c *call) streams() *stream.Table {
	if c.table == nil {
		c.table = stream.NewTable(c.plugin.streams)
	}
	return c.table
}

// endStreams ends the call's streams; flush: the guest came to an end by itself.
func (c *call) endStreams(ctx context.Context, flush bool) {
	if c.table != nil {
		c.table.End(ctx, flush)
	}
}

// openStream takes a place for a stream. Before the plugin is configured, and in its
// initialiser, which other instances are copied from, there are none.
func (c *call) openStream() (*stream.Stream, error) {
	if c.op == abi.ExportInitialize {
		return nil, abi.NewError(abi.FailedPrecondition, "streams: not in the initialiser")
	}
	return c.streams().Open()
}
