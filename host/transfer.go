package host

import (
	"context"
	"fmt"

	"github.com/tetratelabs/wazero/api"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/sandbox"
)

// abiFuncs is wasmnode:abi/v1, which moves a call's bytes. It needs no grant.
var abiFuncs = map[string]sandbox.HostFunc{
	abi.FuncInput: {
		Params: []api.ValueType{i32},
		Run: func(ctx context.Context, m api.Module, stack []uint64) {
			write(m, stack[0], callOf(ctx).input)
		},
	},
	abi.FuncOutput: {
		Params: []api.ValueType{i32, i32},
		Run: func(ctx context.Context, m api.Module, stack []uint64) {
			c := callOf(ctx)
			if c.answered {
				panic(&protocolError{fmt.Sprintf("hands a second answer over in %s", c.op)})
			}
			c.output = read(m, stack[0], stack[1], c.plugin.host.cfg.Limits.OutputBytes)
			c.answered = true
		},
	},
	abi.FuncResult: {
		Params: []api.ValueType{i32},
		Run: func(ctx context.Context, m api.Module, stack []uint64) {
			write(m, stack[0], callOf(ctx).staged)
		},
	},
}
