package meter_test

import (
	"context"
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/wasmnode/wasmnode/sandbox/meter"
	w "github.com/wasmnode/wasmnode/sandbox/wasmbin/wasmtest"
)

const i32Const0 = "\x41\x00"

// Shapes of programs that do not end in any time that matters. Each exports f.
func endless() map[string]w.Program {
	endlessFunc := func(code string) w.Program {
		return w.Program{Pages: 1, Funcs: []w.Func{{Code: code, Export: "f", Locals: []string{"\x02\x7f"}}}}
	}
	fills := func(code string) w.Program {
		p := endlessFunc("\x03\x40" + code + "\x0c\x00\x0b")
		p.Pages = 4096
		return p
	}
	all := w.I32Const(4096 << 16)
	half, most := w.I32Const(2048<<16), w.I32Const(2048<<16-1)
	// tree returns functions of which the i-th calls the next one twice.
	tree := func(call func(i int) string) []w.Func {
		fs := make([]w.Func, 45)
		for i := range fs[:len(fs)-1] {
			fs[i].Code = call(i+1) + call(i+1)
		}
		fs[0].Export = "f"
		return fs
	}
	calls := w.Program{Funcs: tree(func(i int) string { return "\x10" + w.U32(i) })}
	indirect := w.Program{
		Funcs:    tree(func(i int) string { return w.I32Const(int32(i)) + "\x11\x00\x00" }),
		Tables:   []string{"\x70\x00" + w.U32(45)},
		Elements: []string{"\x00\x41\x00\x0b" + w.U32(45) + each(45, w.U32)},
	}
	mutual := w.Program{Funcs: []w.Func{
		{Params: "\x7f", Code: get(0) + "\x45\x04\x40\x0f\x0b" + get(0) + "\x41\x01\x6b\x10\x01" + get(0) + "\x41\x01\x6b\x10\x01"},
		{Params: "\x7f", Code: get(0) + "\x45\x04\x40\x0f\x0b" + get(0) + "\x41\x01\x6b\x10\x00" + get(0) + "\x41\x01\x6b\x10\x00"},
		{Code: w.I32Const(60) + "\x10\x00", Export: "f"},
	}}
	tail := w.Program{Funcs: []w.Func{{Code: "\x12\x00", Export: "f"}}}
	tables := endlessFunc("\x03\x40" + i32Const0 + "\xd0\x70" + w.I32Const(1<<20) + "\xfc\x11\x00\x0c\x00\x0b")
	tables.Tables = []string{"\x70\x00" + w.U32(1<<20)}
	return map[string]w.Program{
		"a loop":            endlessFunc("\x03\x40\x0c\x00\x0b"),
		"nested loops":      endlessFunc(w.Repeat("\x03\x40", 50) + "\x0c\x31" + w.Repeat("\x0b", 50)),
		"a br_table loop":   endlessFunc("\x03\x40" + get(0) + "\x0e\x01\x00\x00\x0b"),
		"a br_if loop":      endlessFunc("\x03\x40\x41\x01\x0d\x00\x0b"),
		"a loop by if":      endlessFunc("\x03\x40\x41\x01\x04\x40\x0c\x01\x0b\x0b"),
		"a loop by catch":   withTag(endlessFunc("\x03\x40\x1f\x40\x01\x00\x00\x00\x08\x00\x0b\x0b")),
		"a call tree":       calls,
		"an indirect tree":  indirect,
		"mutual recursion":  mutual,
		"tail recursion":    tail,
		"fills of 256 MiB":  fills(i32Const0 + i32Const0 + all + "\xfc\x0b\x00"),
		"copies of 128 MiB": fills(i32Const0 + half + most + "\xfc\x0a\x00\x00" + half + i32Const0 + most + "\xfc\x0a\x00\x00"),
		"fills of a table":  tables,
		"growth of nothing": endlessFunc("\x03\x40" + i32Const0 + "\x40\x00\x1a\x0c\x00\x0b"),
	}
}

// withTag adds a tag without parameters, of the function's type.
func withTag(p w.Program) w.Program {
	p.Tags = []string{"\x00\x00"}
	return p
}

// killSlack is how much later than its deadline a call may return here: what is not
// stopped runs for good, and the machine may do other work at the same time. How late
// calls really are is measured by BenchmarkKill.
const killSlack = 10 * time.Second

func TestNothingRunsPastItsDeadline(t *testing.T) {
	for name, p := range endless() {
		t.Run(name, func(t *testing.T) {
			m := instantiate(t, newRuntime(t, wazero.NewRuntimeConfigCompiler()), rewrite(t, w.Build(p)))
			ctx := &timed{Context: context.Background(), time: 30 * time.Millisecond}
			var fuel meter.Fuel
			_, err := m.ExportedFunction("f").Call(fuel.Enter(ctx))
			late := time.Since(ctx.deadline)
			used := fuel.Leave()
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.Less(t, late, killSlack)
			require.Positive(t, used.Yields)
			t.Logf("%v late, %d yields, longest gap %v", late, used.Yields, used.LongestGap)
		})
	}
}

// timed is a context whose time begins when the guest yields first: on a busy machine, a
// deadline could pass before the guest runs.
type timed struct {
	context.Context
	time     time.Duration
	deadline time.Time
}

func (t *timed) Err() error {
	now := time.Now()
	if t.deadline.IsZero() {
		t.deadline = now.Add(t.time)
	}
	if now.Before(t.deadline) {
		return nil
	}
	return context.DeadlineExceeded
}

func TestGuestsDoNotDelayTheGarbageCollector(t *testing.T) {
	m := instantiate(t, newRuntime(t, wazero.NewRuntimeConfigCompiler()), rewrite(t, w.Build(endless()["a call tree"])))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- call(ctx, m) }()
	for range 10 {
		var stats debug.GCStats
		runtime.GC()
		debug.ReadGCStats(&stats)
		// What the guest can hold is the world's stop; the sweep shares its processor.
		require.Less(t, stats.Pause[0], killSlack)
	}
	cancel()
	require.ErrorIs(t, <-done, context.Canceled)
}

func call(ctx context.Context, m api.Module) error {
	_, err := m.ExportedFunction("f").Call(new(meter.Fuel).Enter(ctx))
	return err
}

func TestAStartFunctionIsMetered(t *testing.T) {
	b := rewrite(t, w.Build(w.Program{Funcs: []w.Func{{}, {Code: "\x03\x40\x0c\x00\x0b"}}, Start: 1}))
	r := newRuntime(t, wazero.NewRuntimeConfigCompiler())
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	_, err := r.Instantiate(new(meter.Fuel).Enter(ctx), b)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

// A call that is cancelled before it begins does not begin: the counter starts
// empty.
func TestACancelledCallDoesNotBegin(t *testing.T) {
	m := instantiate(t, newRuntime(t, wazero.NewRuntimeConfigCompiler()), rewrite(t, w.Build(endless()["a loop"])))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.ErrorIs(t, call(ctx, m), context.Canceled)
}

// BenchmarkKill reports how late calls return, in milliseconds after the deadline.
func BenchmarkKill(b *testing.B) {
	for name, p := range endless() {
		b.Run(name, func(b *testing.B) {
			m := instantiate(b, newRuntime(b, wazero.NewRuntimeConfigCompiler()), rewrite(b, w.Build(p)))
			var worst time.Duration
			var fuel meter.Fuel
			f := m.ExportedFunction("f")
			for b.Loop() {
				ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
				start := time.Now()
				_, err := f.Call(fuel.Enter(ctx))
				worst = max(worst, time.Since(start)-10*time.Millisecond)
				fuel.Leave()
				cancel()
				require.ErrorIs(b, err, context.DeadlineExceeded)
			}
			b.ReportMetric(float64(worst.Microseconds())/1e3, "ms-late-max")
			b.ReportMetric(float64(fuel.Total().LongestGap.Microseconds())/1e3, "ms-gap-max")
		})
	}
}
