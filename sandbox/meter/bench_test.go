package meter_test

import (
	"context"
	"math"
	"runtime"
	"runtime/debug"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/wasmnode/wasmnode/sandbox/meter"
	w "github.com/wasmnode/wasmnode/sandbox/wasmbin/wasmtest"
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

// BenchmarkInterrupt measures, while a guest spins, how long the garbage collector
// stops everything, and how late after its deadline the guest ends: with the meter, with the
// engine's own checks, and with neither, where it ends by itself after a while.
func BenchmarkInterrupt(b *testing.B) {
	// f counts its parameter down to zero.
	p := function(0, "\x03\x40"+get(0)+w.I32Const(1)+"\x6b\x22\x00\x0d\x00\x0b")
	const forLong, forever = 500_000_000, 0 // zero wraps round
	for _, c := range []struct {
		name   string
		cfg    wazero.RuntimeConfig
		wasm   []byte
		rounds uint64
	}{
		{"metered", wazero.NewRuntimeConfig(), rewrite(b, w.Build(p)), forever},
		{"closeOnContextDone", wazero.NewRuntimeConfig().WithCloseOnContextDone(true), w.Build(p), forever},
		{"neither", wazero.NewRuntimeConfig(), w.Build(p), forLong},
	} {
		b.Run(c.name, func(b *testing.B) {
			r := newRuntime(b, c.cfg)
			compiled, err := compile(r, c.wasm)
			require.NoError(b, err)
			var late, pauses []float64
			for b.Loop() {
				for range 20 {
					l, p := interrupt(b, r, compiled, c.rounds)
					late, pauses = append(late, l), append(pauses, p)
				}
			}
			slices.Sort(late)
			slices.Sort(pauses)
			b.ReportMetric(late[len(late)/2], "ms-late-p50")
			b.ReportMetric(late[len(late)-1], "ms-late-max")
			b.ReportMetric(pauses[len(pauses)/2], "ms-pause-p50")
			b.ReportMetric(pauses[len(pauses)-1], "ms-pause-max")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// interrupt runs the guest for 20 ms and collects garbage in the middle. It returns
// how late it ended and the longest pause of all goroutines, in milliseconds.
func interrupt(b *testing.B, r wazero.Runtime, c wazero.CompiledModule, rounds uint64) (late, pause float64) {
	m, err := r.InstantiateModule(context.Background(), c, wazero.NewModuleConfig().WithName(""))
	require.NoError(b, err)
	const limit = 20 * time.Millisecond
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	begin := time.Now()
	ended := make(chan time.Duration)
	go func() {
		_, _ = m.ExportedFunction("f").Call(new(meter.Fuel).Enter(ctx), rounds)
		ended <- time.Since(begin)
	}()
	time.Sleep(limit / 4) // until it spins
	var before, after debug.GCStats
	debug.ReadGCStats(&before)
	runtime.GC()
	debug.ReadGCStats(&after)
	pauses := after.Pause[:min(int(after.NumGC-before.NumGC), len(after.Pause))]
	pause = slices.Max(pauses).Seconds() * 1e3
	late = (<-ended - limit).Seconds() * 1e3
	_ = m.Close(context.Background())
	return late, pause
}
