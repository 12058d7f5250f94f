package sandbox

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/internal/racetest"
	"github.com/wasmnode/wasmnode/sandbox/meter"
	"github.com/wasmnode/wasmnode/sandbox/scan"
	w "github.com/wasmnode/wasmnode/sandbox/wasmbin/wasmtest"
	"github.com/wasmnode/wasmnode/sdk/go/drivertest/guestbuild"
)

// measured is what compiling a module was estimated to take, and has taken.
type measured struct {
	estimate, took time.Duration
	bytes, peak    uint64
}

// What the compiler's process takes for the empty module.
const (
	emptyTime  = 8 * time.Millisecond
	emptyBytes = 10 << 20
)

// slower and larger return how many times the estimate is exceeded, what is empty left out.
func (m measured) slower() float64 { return float64(m.took-emptyTime) / float64(m.estimate) }
func (m measured) larger() float64 {
	return (float64(m.peak) - emptyBytes) / float64(m.bytes)
}

// measure compiles a module that the scan accepts, in a process with the bounds of every
// other.
func measure(t testing.TB, wasm []byte) (m measured, accepted bool) {
	t.Helper()
	scanned, err := scan.Read(scan.NewSource(wasm), scan.DefaultLimits())
	if err != nil {
		require.ErrorIs(t, err, scan.ErrLimit)
		return m, false
	}
	metered, _, err := meter.Rewrite(scanned.Binary, meter.Options{Template: true})
	require.NoError(t, err)
	report, err := compileApart(t.Context(), metered, "", boundsFor(metered))
	code := scanned.Code
	require.NoError(t, err, "%d bytes, estimated %v and %d MB", len(wasm), time.Duration(code.CompileWork), code.CompileBytes>>20)
	return measured{time.Duration(code.CompileWork), report.CPU, code.CompileBytes, report.PeakBytes}, true
}

// within requires of the estimate that it is not far too low: of 3,000 modules, the worst
// took 5.1 times the time and 2.1 times the memory. A busy machine makes the
// same work take more of a processor.
func (m measured) within(t testing.TB) {
	t.Helper()
	require.Less(t, m.took, 12*m.estimate+200*time.Millisecond, "estimated %v", m.estimate)
	require.Less(t, m.peak, 2*m.bytes+40<<20, "estimated %d MB", m.bytes>>20)
}

// Shapes are as large as the estimate lets pass, or as a function may be.
func TestTheEstimateHoldsForTheWorstShapes(t *testing.T) {
	if racetest.On || testing.Short() {
		t.Skip("measures the compiler")
	}
	for _, name := range slices.Sorted(maps.Keys(shapes)) {
		t.Run(name, func(t *testing.T) {
			for _, held := range []int{0, 1500} {
				size := 4000
				if m, ok := measure(t, w.Build(shapes[name](size, held))); ok {
					t.Logf("held %4d: estimated %8v and %4d MB, took %8v and %4d MB, %.1f and %.1f times", held,
						m.estimate.Round(time.Millisecond), m.bytes>>20, m.took.Round(time.Millisecond), m.peak>>20, m.slower(), m.larger())
					m.within(t)
				}
			}
		})
	}
}

// What compilers emit is compiled, and the estimate tells how large it is.
func TestTheEstimateIsCloseForAGoProgram(t *testing.T) {
	if racetest.On {
		t.Skip("measures the compiler")
	}
	m, ok := measure(t, guestbuild.Plugin(t, "guest-examples/drivers/mock"))
	require.True(t, ok)
	m.within(t)
	require.Less(t, m.bytes, 4*m.peak)
	require.Less(t, m.estimate, 10*time.Second)
}

// random is a module of random pieces of all shapes, within and after each other.
func random(seed uint64) []byte {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 1))}
	locals := g.upTo(4900)
	g.locals = locals
	p := function(locals, g.code(g.upTo(20_000)))
	for range g.upTo(4) - 1 {
		p.Funcs = append(p.Funcs, w.Func{Params: "\x7f", Results: "\x7f", Locals: []string{w.U32(locals) + "\x7f"}, Code: g.code(g.upTo(10_000)) + get(0)})
	}
	return w.Build(p)
}

type generator struct {
	*rand.Rand
	locals int
	depth  int
}

// upTo returns a number from 1 to n, each magnitude as likely as any other.
func (g *generator) upTo(n int) int { return int(math.Exp(g.Float64() * math.Log(float64(n)))) }

// code returns code of some size that leaves the operand stack as it is.
func (g *generator) code(size int) string {
	var b strings.Builder
	g.depth++
	defer func() { g.depth-- }()
	for b.Len() < size {
		left := size - b.Len()
		inner := func() string {
			if g.depth > 6 {
				return ""
			}
			return g.code(g.upTo(left))
		}
		switch g.IntN(8) {
		case 0, 1:
			unit := units[g.IntN(len(units))]
			b.WriteString(w.Repeat(unit, 1+g.upTo(left)/len(unit)))
		case 2:
			p := pairs[g.IntN(len(pairs))]
			k := min(1+g.upTo(left)/(len(p[0])+len(p[1])), 300)
			b.WriteString(w.Repeat(p[0], k) + inner() + w.Repeat(p[1], k))
		case 3:
			b.WriteString(holding(g.upTo(left), inner()))
		case 4:
			unit := units128[g.IntN(len(units128))]
			b.WriteString(with128(w.Repeat(unit, 1+g.upTo(left)/len(unit))))
		case 5:
			b.WriteString(each(g.upTo(min(g.locals, left)), func(i int) string { return get(0) + load + "\x21" + w.U32(1+i) }) + inner() +
				each(g.upTo(min(g.locals, left)), func(i int) string { return get(1+i) + get(0) + add + "\x21\x00" }))
		case 6:
			change := g.change()
			b.WriteString(each(1+g.upTo(left)/16, change))
		case 7:
			p := pairs128[g.IntN(len(pairs128))]
			k := min(1+g.upTo(left)/(len(p[0])+len(p[1])), 300)
			b.WriteString(with128(w.Repeat(p[0], k) + inner() + w.Repeat(p[1], k)))
		}
	}
	return b.String()
}

// change returns pieces that change one local after another in a block.
func (g *generator) change() func(i int) string {
	set := func(i int) string { return get(1+i%g.locals) + get(0) + add + "\x21" + w.U32(1+i%g.locals) }
	switch g.IntN(4) {
	case 0:
		return func(i int) string { return opLoop + void + set(i) + brIf(0) + end }
	case 1:
		return func(i int) string { return get(0) + opIf + void + set(i) + end }
	case 2:
		return func(i int) string { return opBlock + void + set(i) + brIf(0) + set(i+1) + end }
	}
	return set
}

// TestTheEstimateHoldsForRandomModules is a campaign: WASMNODE_COMPILE is how many modules
// there are, and the worst of them are told at its end.
func TestTheEstimateHoldsForRandomModules(t *testing.T) {
	if racetest.On {
		t.Skip("measures the compiler")
	}
	rounds := 100
	if testing.Short() {
		rounds = 10
	}
	if text := os.Getenv("WASMNODE_COMPILE"); text != "" {
		var err error
		rounds, err = strconv.Atoi(text)
		require.NoError(t, err)
	}
	first := uint64(0)
	if rounds > 100 {
		first = rand.Uint64()
	}
	var refused int
	var slowest, largest, longest, most string
	var slower, larger float64
	var took time.Duration
	var peak uint64
	for i := range uint64(rounds) {
		m, ok := measure(t, random(first+i))
		if !ok {
			refused++
			continue
		}
		at := fmt.Sprintf("seed %d: %+v", first+i, m)
		if s := m.slower(); s > slower && m.took > 50*time.Millisecond {
			slower, slowest = s, at
		}
		if l := m.larger(); l > larger && m.peak > 32<<20 {
			larger, largest = l, at
		}
		if m.took > took {
			took, longest = m.took, at
		}
		if m.peak > peak {
			peak, most = m.peak, at
		}
		m.within(t)
	}
	t.Logf("%d modules, %d refused\nmost times the estimated time: %.2f, %s\nmost times the estimated memory: %.2f, %s\nlongest: %s\nmost memory: %s",
		rounds, refused, slower, slowest, larger, largest, longest, most)
}

// FuzzTheEstimateHolds looks for seeds of modules that take more than was estimated. Large
// modules are the campaign's: the fuzzer holds what needs ten seconds for a deadlock, and a
// busy machine needs that for a module that takes two on a quiet one.
func FuzzTheEstimateHolds(f *testing.F) {
	f.Add(uint64(1))
	f.Fuzz(func(t *testing.T, seed uint64) {
		wasm := random(seed)
		scanned, err := scan.Read(scan.NewSource(wasm), scan.DefaultLimits())
		if err != nil || time.Duration(scanned.Code.CompileWork) > 500*time.Millisecond {
			t.Skip()
		}
		m, ok := measure(t, wasm)
		require.True(t, ok)
		m.within(t)
	})
}
