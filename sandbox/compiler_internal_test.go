package sandbox

import (
	"errors"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/internal/apart"
	"github.com/wasmnode/wasmnode/sandbox/scan"
	"github.com/wasmnode/wasmnode/sandbox/wasmbin/wasmtest"
	"github.com/wasmnode/wasmnode/sdk/go/drivertest/guestbuild"
)

// branches is a module that takes the engine time, and little memory.
func branches(n int) []byte {
	reads := each(n, func(i int) string { return get(i) + drop })
	return wasmtest.Build(wasmtest.Program{Funcs: []wasmtest.Func{{
		Params: "\x7f", Locals: []string{wasmtest.U32(4999) + "\x7f"},
		Code: opBlock + void + wasmtest.Repeat(brIf(0), n) + end + reads,
	}}})
}

func TestCompilingIsBoundedInTime(t *testing.T) {
	began := time.Now()
	_, err := compileApart(t.Context(), branches(3000), t.TempDir(), apart.Bounds{Bytes: 256 << 20, Time: time.Second, Answer: maxReport})
	require.ErrorIs(t, err, ErrCompileLimit)
	require.ErrorContains(t, err, "it takes more than 1 s of a processor")
	t.Logf("after %v", time.Since(began))
}

func TestWhatTheCompilerSaysIsToldApart(t *testing.T) {
	_, err := compileApart(t.Context(), []byte("no module"), t.TempDir(), boundsFor(nil))
	require.ErrorContains(t, err, "invalid magic number")
	_, err = compileApart(t.Context(), nil, t.TempDir(), apart.Bounds{Time: time.Second})
	require.ErrorIs(t, err, ErrCompileLimit)
	report, err := compileApart(t.Context(), branches(1), "/proc/no-such-directory", boundsFor(nil))
	require.NoError(t, err)
	require.NotEmpty(t, report.Unkept)
	var p *PanicError
	require.ErrorAs(t, (&compileReport{Panic: "p", Stack: "s"}).err(), &p)
	require.Equal(t, &PanicError{Value: "p", Stack: "s"}, p)
}

func TestALargeModuleMayTakeMore(t *testing.T) {
	require.EqualValues(t, 256<<20, boundsFor(make([]byte, 117<<10)).Bytes)
	require.EqualValues(t, 24*(20<<20), boundsFor(make([]byte, 20<<20)).Bytes)
}

func TestARefusalIsRememberedForAWhile(t *testing.T) {
	var r refusals
	now := time.Unix(1_000_000, 0)
	require.NoError(t, r.of("a", now))
	r.add("a", ErrCompileLimit, now)
	require.NoError(t, r.of("b", now))
	require.ErrorIs(t, r.of("a", now.Add(refusedFor-time.Second)), ErrCompileLimit)
	require.EqualError(t, r.of("a", now.Add(refusedFor-time.Second)), "the module is too costly to compile; it is tried again in 1s")
	require.NoError(t, r.of("a", now.Add(refusedFor)))
	for i := range 3 * maxRefused {
		r.add(strconv.Itoa(i), errors.New("no"), now)
		require.LessOrEqual(t, len(r.by), maxRefused)
		require.Error(t, r.of(strconv.Itoa(i), now))
	}
	r.add("z", ErrCompileLimit, now.Add(refusedFor))
	require.Len(t, r.by, 1)
}

// BenchmarkColdLoad loads a Go plugin whose code is not in the cache, with its compiling
// here and in a process of its own in turn, and tells what that costs: the difference of the
// medians.
func BenchmarkColdLoad(b *testing.B) {
	scanned, err := scan.Read(scan.NewSource(guestbuild.Plugin(b, "guest-examples/drivers/mock")), scan.DefaultLimits())
	require.NoError(b, err)
	defer func(was bool) { entered = was }(entered)
	took := map[bool][]float64{} // by whether it was apart, in milliseconds
	for b.Loop() {
		for _, entered = range []bool{false, true} {
			runtime.GC() // what the other one left is not this one's
			began := time.Now()
			e, err := Open(Config{CacheDir: b.TempDir()})
			require.NoError(b, err)
			m, err := e.Compile(b.Context(), scanned, Options{MemoryMaxBytes: 64 << 20, Template: true})
			require.NoError(b, err)
			took[entered] = append(took[entered], time.Since(began).Seconds()*1e3)
			require.NoError(b, m.Close(b.Context()))
			require.NoError(b, e.Close(b.Context()))
		}
	}
	median := func(list []float64) float64 {
		slices.Sort(list)
		return list[len(list)/2]
	}
	b.ReportMetric(median(took[false]), "here-ms")
	b.ReportMetric(median(took[true]), "apart-ms")
	b.ReportMetric(median(took[true])-median(took[false]), "extra-ms")
}
