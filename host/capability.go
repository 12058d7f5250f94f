package host

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"golang.org/x/time/rate"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/sandbox"
)

// capabilities are the host modules of ours.
var capabilities = map[string]map[string]sandbox.HostFunc{
	abi.ModuleABI:      abiFuncs,
	abi.ModuleLog:      logFuncs,
	abi.ModuleTask:     taskFuncs,
	abi.ModuleWasm:     wasmFuncs,
	abi.ModuleProcess:  processFuncs,
	abi.ModuleStream:   streamFuncs,
	abi.ModuleNet:      netFuncs,
	abi.ModuleHTTP:     httpFuncs,
	abi.ModuleKV:       kvFuncs,
	abi.ModuleExec:     execFuncs,
	abi.ModuleWorkload: workloadFuncs,
}

// linkCapabilities adds every host module of ours to a plugin's runtime. What a call
// may do with it is decided in the call.
func linkCapabilities(ctx context.Context, r wazero.Runtime) error {
	for module, funcs := range capabilities {
		if module != abi.ModuleABI {
			funcs = counted(module, observed(module, funcs))
		}
		if err := sandbox.LinkHost(ctx, r, module, funcs); err != nil {
			return err
		}
	}
	return nil
}

const i32, i64 = api.ValueTypeI32, api.ValueTypeI64

// maxRequest bounds a capability's request, in bytes: what is longer takes ten milliseconds
// to decode. An environment and a list of arguments are some kilobytes.
const maxRequest = 1 << 20

// pieceBytes is how much is read or written between two looks at the clock of a call.
const pieceBytes = 64 << 10

// structured makes a function (ptr, len: i32) -> i64 that takes a message and
// stages an answer.
func structured(f func(ctx context.Context, c *call, request []byte) (Message, error)) sandbox.HostFunc {
	return sandbox.HostFunc{
		Params:  []api.ValueType{i32, i32},
		Results: []api.ValueType{i64},
		Run: func(ctx context.Context, m api.Module, stack []uint64) {
			c := callOf(ctx)
			if n := uint32(stack[1]); n > maxRequest {
				stack[0] = c.stage(nil, abi.NewError(abi.ResourceExhausted, fmt.Sprintf("the request has %d bytes, the limit is %d", n, maxRequest)))
				return
			}
			answer, err := f(ctx, c, read(m, stack[0], stack[1], maxRequest))
			stack[0] = c.stage(answer, err)
		},
	}
}

// stage keeps a capability's answer until the guest fetches it, and returns the
// status that has its length.
func (c *call) stage(answer Message, err error) uint64 {
	var code abi.Code
	c.staged = nil
	switch {
	case err != nil:
		code = abi.CodeOf(err)
		c.staged = marshal(abi.Proto(err))
		c.plugin.counters.answered(code, c.told(err))
	case answer != nil:
		c.staged = marshal(answer)
	}
	return abi.Status(uint32(code), uint32(len(c.staged)))
}

// told is a refusal as others than the guest are told of it: without what is secret of the task.
// The first of a call goes with the error that the guest answers, if that does not have it.
func (c *call) told(err error) error {
	var refused *notGrantedError
	if !errors.As(err, &refused) {
		return err
	}
	shown := *refused.err
	shown.Message = c.inst.shown(shown.Message, false)
	if c.inst.refused == "" {
		c.inst.refused = shown.Message
	}
	return &notGrantedError{&shown, c.inst.shown(refused.fix, false)}
}

// inPieces hands bytes on in pieces, and ends the guest between two when its call is over.
func inPieces(ctx context.Context, data []byte, do func(piece []byte) error) error {
	for len(data) > pieceBytes {
		if err := do(data[:pieceBytes]); err != nil {
			return err
		}
		data = data[pieceBytes:]
		sandbox.Check(ctx)
	}
	return do(data)
}

// read copies a guest's bytes, with the bounds of [view].
func read(m api.Module, ptr, length uint64, limit int) []byte {
	return append([]byte(nil), view(m, ptr, length, limit)...)
}

// view returns a guest's bytes where they are, for as long as the host function runs. A
// pointer that leaves the guest's memory, or a length above the limit, ends the guest.
func view(m api.Module, ptr, length uint64, limit int) []byte {
	p, n := uint32(ptr), uint32(length)
	if n == 0 {
		return nil // with whatever pointer
	}
	if uint64(n) > uint64(limit) {
		panic(&protocolError{fmt.Sprintf("hands over %d bytes, the limit is %d", n, limit)})
	}
	b, ok := m.Memory().Read(p, n)
	if !ok {
		panic(badPointer(ptr, length))
	}
	return b
}

// badPointer is bytes that do not lie in the guest's memory.
func badPointer(ptr, length uint64) *protocolError {
	return &protocolError{fmt.Sprintf("hands over %d bytes at 0x%x, which is outside of its memory", uint32(length), uint32(ptr))}
}

// write copies bytes into a guest's memory.
func write(m api.Module, ptr uint64, b []byte) {
	if len(b) > 0 && !m.Memory().Write(uint32(ptr), b) {
		panic(&protocolError{fmt.Sprintf("asks for %d bytes at 0x%x, which is outside of its memory", len(b), uint32(ptr))})
	}
}

// limiter lets a bounded rate through and counts the rest.
type limiter struct {
	rate    *rate.Limiter
	dropped atomic.Int64
}

func newLimiter(r rate.Limit, burst int) *limiter {
	return &limiter{rate: rate.NewLimiter(r, burst)}
}

// allow reports whether one more may pass, and how many were dropped before it.
func (l *limiter) allow() (dropped int64, ok bool) {
	if !l.rate.Allow() {
		l.dropped.Add(1)
		return 0, false
	}
	return l.dropped.Swap(0), true
}
