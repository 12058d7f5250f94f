package meter_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/wasmnode/wasmnode/sandbox/meter"
	"github.com/wasmnode/wasmnode/sandbox/scan"
	"github.com/wasmnode/wasmnode/sandbox/wasmbin"
	w "github.com/wasmnode/wasmnode/sandbox/wasmbin/wasmtest"
)

// fuzzLimits keep what the engine does for one input short.
func fuzzLimits() wasmbin.Limits {
	return wasmbin.Limits{ModuleBytes: 1 << 16, MemoryPages: 4, TableElements: 1000, CompileWork: 20_000_000}
}

// checkRewrite is the property: what the scan accepts is rewritten or refused
// without a panic; what the engine accepts plain it accepts metered, and the other
// way round; and exported functions give the same.
func checkRewrite(t *testing.T, b []byte) (valid bool) {
	t.Helper()
	if _, err := scan.Read(scan.NewSource(b), fuzzLimits()); err != nil {
		if _, _, err := rewriteWithin(b, fuzzLimits(), meter.Options{}); err == nil {
			require.ErrorIs(t, mustFail(scan.Read(scan.NewSource(b), fuzzLimits())), wasmbin.ErrLimit, "rewritten, and refused by the scan")
		}
		return false
	}
	out, _, err := rewriteWithin(b, fuzzLimits(), meter.Options{})
	if err != nil {
		require.ErrorIs(t, err, meter.ErrImportsMeter)
		return false
	}
	_, err = scan.Read(scan.NewSource(out), scan.Limits{Locals: scan.DefaultLimits().Locals + 2})
	require.NoError(t, err)

	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	// The interpreter checks modules as the compiler does, without its cost.
	cfg := wazero.NewRuntimeConfigInterpreter().WithCoreFeatures(meter.CoreFeatures(wasmbin.Pinned)).WithMemoryLimitPages(16)
	r := wazero.NewRuntimeWithConfig(ctx, cfg)
	defer func() { _ = r.Close(context.Background()) }()
	require.NoError(t, meter.Link(ctx, r))
	plain, plainErr := compile(r, b)
	metered, meteredErr := compile(r, out)
	if plainErr != nil && strings.Contains(plainErr.Error(), "panics") {
		return false // on what the scan does not look at; the engine is entered under recover
	}
	if plainErr != nil && strings.Contains(plainErr.Error(), "custom") {
		return false // metering drops them
	}
	if (plainErr == nil) != (meteredErr == nil) {
		// The engine reads the opcodes of SIMD as single bytes: where one is written
		// longer, it takes the rest for something else, and what is meant shows when
		// the module is written anew without a meter.
		m, err := wasmbin.Decode(b, fuzzLimits())
		require.NoError(t, err)
		canonical, err := m.Edit().Encode()
		require.NoError(t, err)
		_, canonicalErr := compile(r, canonical)
		require.Equal(t, canonicalErr == nil, meteredErr == nil, "plain: %v, canonical: %v, metered: %v", plainErr, canonicalErr, meteredErr)
		return false
	}
	if plainErr != nil {
		return false
	}
	// What ends metered ends plain; the other way round, a call tree without a loop
	// runs for good.
	if got, ended := behaviour(ctx, r, metered); ended {
		want, _ := behaviour(context.Background(), r, plain)
		require.Equal(t, want, got)
	}
	return true
}

func mustFail(_ *scan.Module, err error) error { return err }

// behaviour instantiates a module and calls what it exports with zeros. It returns
// false when something did not end.
func behaviour(ctx context.Context, r wazero.Runtime, c wazero.CompiledModule) (out string, ended bool) {
	ctx, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	defer func() {
		if ctx.Err() != nil {
			ended = false
		}
	}()
	m, err := r.InstantiateModule(new(meter.Fuel).Enter(ctx), c, wazero.NewModuleConfig().WithName("").WithStartFunctions())
	if err != nil {
		return "", true // an import that is not there, or a trap: the texts name functions
	}
	defer func() { _ = m.Close(context.Background()) }()
	for i := range 8 {
		f := m.ExportedFunction(fmt.Sprintf("f%d", i))
		if i == 0 {
			f = m.ExportedFunction("f")
		}
		if f == nil {
			continue
		}
		out += callWithZeros(ctx, f)
	}
	if len(c.ExportedMemories()) > 0 {
		b, _ := m.Memory().Read(0, min(m.Memory().Size(), 4096))
		out += string(b)
	}
	return out, true
}

func callWithZeros(ctx context.Context, f api.Function) string {
	def := f.Definition()
	args := 0
	for _, p := range def.ParamTypes() {
		if args++; p == 0x7b { // v128 takes two
			args++
		}
	}
	results, err := f.Call(new(meter.Fuel).Enter(ctx), make([]uint64, args)...)
	if err != nil {
		first, _, _ := strings.Cut(err.Error(), "\n")
		return first + "\n"
	}
	for i, t := range def.ResultTypes() {
		if t == api.ValueTypeExternref || t == 0x70 {
			return fmt.Sprintf("%d references\n", i)
		}
	}
	return fmt.Sprintln(results)
}

func fuzzSeeds() [][]byte {
	p := function(2, get(0)+opIf+opLoop+get(1)+w.I32Const(1)+"\x6a"+"\x22\x01"+w.I32Const(10)+"\x48\x0d\x00\x0b\x0b"+i32Const0+w.I32Const(7)+w.I32Const(70)+"\xfc\x0b\x00")
	p.Data = []string{segment(0, "abc"), segment(5, "x")}
	p.Tables = []string{"\x70\x00\x02"}
	p.Elements = []string{"\x00\x41\x00\x0b\x01\x00"}
	p.Globals = []string{"\x7f\x01\x41\x00\x0b"}
	seeds := [][]byte{w.Build(p), bulkGuest()}
	for _, p := range endless() {
		seeds = append(seeds, w.Build(p))
	}
	for _, p := range worstShapes(40) {
		seeds = append(seeds, w.Build(p))
	}
	return seeds
}

func FuzzRewrite(f *testing.F) {
	for _, b := range fuzzSeeds() {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) { checkRewrite(t, b) })
}

// The specification's small modules, mutated: a corpus that reaches every
// instruction without being kept in this repository.
func TestMutatedModulesAreRewrittenOrRefused(t *testing.T) {
	rounds, seed := 4000, uint64(1) // the same mutants each time, but in a soak
	if testing.Short() {
		rounds = 400
	}
	if os.Getenv("WASMNODE_SOAK") != "" {
		rounds, seed = 5_000_000, uint64(time.Now().UnixNano())
	}
	var corpus [][]byte
	for _, d := range []string{"v2", "tail-call", "exception-handling", "extended-const"} {
		files, err := filepath.Glob(filepath.Join(specDir(t), d, "testdata", "*.wasm"))
		require.NoError(t, err)
		for _, f := range files {
			if b, err := os.ReadFile(f); err == nil && len(b) < 2000 {
				corpus = append(corpus, b)
			}
		}
	}
	g := rand.New(rand.NewPCG(1, seed))
	valid := 0
	var last []byte
	defer func() {
		if t.Failed() {
			t.Logf("seed %d, module %x", seed, last)
		}
	}()
	for range rounds {
		b := w.Mutate(g, corpus[g.IntN(len(corpus))])
		last = b
		if checkRewrite(t, b) {
			valid++
		}
	}
	t.Logf("%d mutants, %d valid", rounds, valid)
}
