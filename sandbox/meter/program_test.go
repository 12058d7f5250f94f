package meter_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
	"github.com/tetratelabs/wazero/sys"
)

// kernel is a function of a guest with a size that takes some milliseconds.
type kernel struct {
	name string
	size uint64
}

var cKernels = []kernel{{"hash", 1024}, {"sieve", 1 << 20}, {"fib", 27}, {"sum", 100}, {"collatz", 50_000}, {"matmul", 20},
	{"sort", 100_000}, {"copies", 300_000}, {"tree", 20_000}, {"interpret", 2_000_000}}

var goKernels = []kernel{{"hash", 256}, {"sieve", 1 << 20}, {"fib", 24}, {"maps", 20_000}, {"json", 400}, {"match", 300}}

func TestKernelsGiveTheSameMeteredAndPlain(t *testing.T) {
	cases := []struct {
		name    string
		wasm    []byte
		kernels []kernel
	}{{"C", kernels(t, "kernels.wasm"), cKernels}, {"SIMD", kernels(t, "kernels_simd.wasm"), cKernels}, {"Go", computeGuest(t), goKernels}}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			plain := instantiate(t, newRuntime(t, wazero.NewRuntimeConfig()), c.wasm)
			metered := instantiate(t, newRuntime(t, wazero.NewRuntimeConfig()), rewrite(t, c.wasm))
			for _, k := range c.kernels {
				size := k.size
				if size > 1000 {
					size /= 20
				}
				want, err := plain.ExportedFunction(k.name).Call(context.Background(), size)
				require.NoError(t, err)
				got, err := metered.ExportedFunction(k.name).Call(context.Background(), size)
				require.NoError(t, err)
				require.Equal(t, want, got, k.name)
			}
		})
	}
}

func TestAGoProgramPrintsTheSameMeteredAndPlain(t *testing.T) {
	b := goGuest(t, "command")
	want := runCommand(t, b, 0)
	for _, quantum := range []uint32{100, 10_000} {
		if quantum == 100 && testing.Short() {
			continue
		}
		require.Equal(t, want, runCommand(t, rewrite(t, b), quantum), "quantum %d", quantum)
	}
}

// runCommand returns what a program prints, and its exit code.
func runCommand(t *testing.T, b []byte, quantum uint32) string {
	t.Helper()
	ctx := context.Background()
	r := wazero.NewRuntime(ctx)
	defer func() { _ = r.Close(ctx) }()
	wasi_snapshot_preview1.MustInstantiate(ctx, r)
	var yields int
	require.NoError(t, linkFixed(r, quantum, &yields))
	var out bytes.Buffer
	cfg := wazero.NewModuleConfig().WithArgs("command", "x", "y").WithStdout(&out).WithStderr(&out).WithSysWalltime().WithSysNanotime().WithSysNanosleep()
	_, err := r.InstantiateWithConfig(ctx, b, cfg)
	var exit *sys.ExitError
	require.True(t, errors.As(err, &exit), "%v", err)
	if quantum > 0 {
		require.Positive(t, yields)
	}
	return fmt.Sprintf("%sexit %d", out.String(), exit.ExitCode())
}
