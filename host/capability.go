package host

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"golang.org/x/time/rate"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/sandbox"
)

// linkCapabilities adds every host module of ours to a plugin's runtime. What a call
// may do with it is decided in the call.
func linkCapabilities(ctx context.Context, r wazero.Runtime) error {
	for module, funcs := range map[string]map[string]hostFunc{
		abi.ModuleABI:     abiFuncs,
		abi.ModuleLog:     logFuncs,
		abi.ModuleTask:    taskFuncs,
		abi.ModuleWasm:    wasmFuncs,
		abi.ModuleProcess: processFuncs,
	} {
		b := r.NewHostModuleBuilder(module)
		for name, f := range funcs {
			b.NewFunctionBuilder().WithGoModuleFunction(f.run, f.params, f.results).Export(name)
		}
		if _, err := b.Instantiate(ctx); err != nil {
			return fmt.Errorf("host module %s: %w", module, err)
		}
	}
	return nil
}

// hostFunc is a function that guests may import.
type hostFunc struct {
	params  []api.ValueType
	results []api.ValueType
	run     api.GoModuleFunc
}

const i32, i64 = api.ValueTypeI32, api.ValueTypeI64

// structured makes a function (ptr, len: i32) -> i64 that takes a message and
// stages an answer.
func structured(f func(ctx context.Context, c *call, request []byte) (Message, error)) hostFunc {
	return hostFunc{
		params:  []api.ValueType{i32, i32},
		results: []api.ValueType{i64},
		run: func(ctx context.Context, m api.Module, stack []uint64) {
			defer sandbox.Pause(ctx)()
			c := callOf(ctx)
			answer, err := f(ctx, c, read(m, stack[0], stack[1], c.plugin.host.cfg.Limits.OutputBytes))
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
		c.plugin.counters.answered(code)
	case answer != nil:
		c.staged = marshal(answer)
	}
	return abi.Status(uint32(code), uint32(len(c.staged)))
}

// read copies a guest's bytes. A pointer that leaves the guest's memory, or a length
// above the limit, ends the guest.
func read(m api.Module, ptr, length uint64, limit int) []byte {
	p, n := uint32(ptr), uint32(length)
	if n == 0 {
		return nil // with whatever pointer
	}
	if uint64(n) > uint64(limit) {
		panic(&protocolError{fmt.Sprintf("hands over %d bytes, the limit is %d", n, limit)})
	}
	view, ok := m.Memory().Read(p, n)
	if !ok {
		panic(&protocolError{fmt.Sprintf("hands over %d bytes at 0x%x, which is outside of its memory", n, p)})
	}
	return append([]byte(nil), view...)
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
