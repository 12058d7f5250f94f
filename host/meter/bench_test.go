package meter_test

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/wasmnode/wasmnode/host/meter"
)

// BenchmarkOverhead measures how much longer kernels take with the meter, and with
// the engine's own checks, than without either, in turns in one run.
func BenchmarkOverhead(b *testing.B) {
	var meters, closes []float64
	for _, set := range []struct {
		name    string
		wasm    []byte
		kernels []kernel
	}{{"C", kernels(b, "kernels.wasm"), cKernels}, {"SIMD", kernels(b, "kernels_simd.wasm"), cKernels}, {"Go", computeGuest(b), goKernels}} {
		plain := instantiate(b, newRuntime(b, wazero.NewRuntimeConfig()), set.wasm)
		metered := instantiate(b, newRuntime(b, wazero.NewRuntimeConfig()), rewrite(b, set.wasm))
		checked := instantiate(b, newRuntime(b, wazero.NewRuntimeConfig().WithCloseOnContextDone(true)), set.wasm)
		for _, k := range set.kernels {
			b.Run(set.name+"/"+k.name, func(b *testing.B) {
				for b.Loop() {
				}
				times := fastest(b, k, plain, metered, checked)
				meters = append(meters, times[1]/times[0])
				closes = append(closes, times[2]/times[0])
				b.ReportMetric(times[0]*1e3, "ms-plain")
				b.ReportMetric(times[1]/times[0], "x-metered")
				b.ReportMetric(times[2]/times[0], "x-closeOnContextDone")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
	b.Run("geometric-mean", func(b *testing.B) {
		for b.Loop() {
		}
		b.ReportMetric(geometricMean(meters), "x-metered")
		b.ReportMetric(geometricMean(closes), "x-closeOnContextDone")
		b.ReportMetric(0, "ns/op")
	})
}

// fastest returns the shortest time of a kernel in each module, in seconds. The
// modules take turns, so that what else the machine does falls on all of them.
func fastest(b *testing.B, k kernel, modules ...api.Module) []float64 {
	times := make([]float64, len(modules))
	for i := range times {
		times[i] = math.Inf(1)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for range 15 {
		for i, m := range modules {
			ctx := new(meter.Fuel).Enter(ctx)
			begin := time.Now()
			_, err := m.ExportedFunction(k.name).Call(ctx, k.size)
			times[i] = min(times[i], time.Since(begin).Seconds())
			require.NoError(b, err)
		}
	}
	return times
}

func geometricMean(xs []float64) float64 {
	sum := 0.0
	for _, x := range xs {
		sum += math.Log(x)
	}
	return math.Exp(sum / float64(len(xs)))
}
