package sandbox

import (
	"context"
	"fmt"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/wasmnode/wasmnode/sandbox/meter"
)

// HostFunc is a function that guests may import.
type HostFunc struct {
	Params, Results []api.ValueType
	// Run does it, in a millisecond or so. Where its arguments can make it take longer, it
	// looks at its context between pieces of work, with [Check].
	Run api.GoModuleFunc
}

// LinkHost adds a host module to a runtime. It is the only way in which functions come
// to a guest, so that all of them are on the clock of the guest's call.
func LinkHost(ctx context.Context, r wazero.Runtime, module string, funcs map[string]HostFunc) error {
	b := r.NewHostModuleBuilder(module)
	for name, f := range funcs {
		b.NewFunctionBuilder().WithGoModuleFunction(onTheClock(f.Run), f.Params, f.Results).Export(name)
	}
	if _, err := b.Instantiate(ctx); err != nil {
		return fmt.Errorf("host module %s: %w", module, err)
	}
	return nil
}

// onTheClock ends the guest before and after a host function when its call is over: fuel
// counts instructions, of which a loop around a slow function has few.
func onTheClock(run api.GoModuleFunc) api.GoModuleFunc {
	return func(ctx context.Context, m api.Module, stack []uint64) {
		meter.Check(ctx)
		run(ctx, m, stack)
		meter.Visit(ctx)
	}
}

// Check ends the guest of the call with this context when that is over.
func Check(ctx context.Context) { meter.Check(ctx) }
