package meter_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
	"go.uber.org/goleak"

	"github.com/wasmnode/wasmnode/internal/leaktest"
	"github.com/wasmnode/wasmnode/sandbox/meter"
	"github.com/wasmnode/wasmnode/sandbox/wasmbin"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(leaktest.WithTimeout(m)) }

// newRuntime returns a runtime in which guests can import WASI and the meter.
func newRuntime(t testing.TB, cfg wazero.RuntimeConfig) wazero.Runtime {
	t.Helper()
	ctx := context.Background()
	r := wazero.NewRuntimeWithConfig(ctx, cfg.WithCoreFeatures(meter.CoreFeatures(wasmbin.Pinned)))
	t.Cleanup(func() { _ = r.Close(ctx) })
	wasi_snapshot_preview1.MustInstantiate(ctx, r)
	require.NoError(t, meter.Link(ctx, r))
	return r
}

// linkFixed links a meter that always grants the same quantum, and counts.
func linkFixed(r wazero.Runtime, quantum uint32, yields *int) error {
	_, err := r.NewHostModuleBuilder(meter.ImportModule).NewFunctionBuilder().
		WithGoFunction(api.GoFunc(func(_ context.Context, stack []uint64) {
			*yields++
			stack[0] = uint64(quantum)
		}), nil, []api.ValueType{api.ValueTypeI32}).
		Export(meter.ImportFunc).Instantiate(context.Background())
	return err
}

// compile compiles a module and turns the engine's panics into errors.
func compile(r wazero.Runtime, b []byte) (c wazero.CompiledModule, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the engine panics: %v", p)
		}
	}()
	return r.CompileModule(context.Background(), b)
}

// rewriteWithin decodes a module and rewrites it.
func rewriteWithin(b []byte, limits wasmbin.Limits, opts meter.Options) ([]byte, *meter.Info, error) {
	m, err := wasmbin.Decode(b, limits)
	if err != nil {
		return nil, nil, err
	}
	return meter.Rewrite(m, opts)
}

func rewrite(t testing.TB, b []byte) []byte {
	t.Helper()
	out, _, err := rewriteWithin(b, wasmbin.Limits{}, meter.Options{})
	require.NoError(t, err)
	return out
}
