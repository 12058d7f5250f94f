package meter_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tetratelabs/wazero"

	"github.com/wasmnode/wasmnode/sandbox/meter"
	"github.com/wasmnode/wasmnode/sandbox/scan"
	"github.com/wasmnode/wasmnode/sandbox/wasmbin"
	w "github.com/wasmnode/wasmnode/sandbox/wasmbin/wasmtest"
)

func TestAMeteredModuleAsksForNothingButFuel(t *testing.T) {
	plain := w.Build(w.Program{
		Imports: []string{w.Bytes("env") + w.Bytes("f") + "\x00\x00"}, Imported: 1,
		Funcs: []w.Func{{Code: "\x10\x00", Export: "g"}},
	})
	b, _, err := rewriteWithin(plain, wasmbin.Limits{}, meter.Options{})
	require.NoError(t, err)
	spec, err := scan.Read(scan.NewSource(b), scan.Limits{})
	require.NoError(t, err)
	require.Equal(t, []string{"env", meter.ImportModule}, spec.ImportedModules())
	require.Equal(t, meter.ImportFunc, spec.Imports[1].Name)
	require.Equal(t, "() -> i32", spec.Imports[1].Func.String())
	require.Equal(t, 1, spec.Globals)
	require.Len(t, spec.Exports, 1)
	require.Equal(t, uint32(2), spec.Exports[0].Index)
	require.Equal(t, 1, bytes.Count(b, []byte{0x10, 1}), "one call of yield, at the function's entry")
}

func TestAModuleCannotClaimToBeMetered(t *testing.T) {
	imports := w.Build(w.Program{Types: []string{w.FuncType("", "\x7f")},
		Imports: []string{w.Bytes(meter.ImportModule) + w.Bytes("anything") + "\x00\x00"}, Imported: 1})
	for _, b := range [][]byte{imports, rewrite(t, w.Build(w.Program{}))} {
		_, _, err := rewriteWithin(b, wasmbin.Limits{}, meter.Options{})
		require.ErrorIs(t, err, meter.ErrImportsMeter)
	}
}

// The indices after the last ones that a module has are what the meter adds. That
// they would be valid afterwards is what a guest could try to use.
func TestAGuestCannotNameWhatTheMeterAdds(t *testing.T) {
	fill := i32Const0 + i32Const0 + i32Const0 + "\xfc\x0b\x00"
	for name, p := range map[string]w.Program{
		"the counter":            function(0, w.I32Const(1<<30)+"\x24\x00"),
		"the counter, exported":  {Customs: []string{w.Section(w.Export, w.Vec(w.Bytes("fuel")+"\x03\x00"))}},
		"the counter, as a base": {Pages: 1, Data: []string{"\x00\x23\x00\x0b\x00"}},
		"the added local":        function(0, fill+get(1)+"\x1a"),
		"yield":                  function(0, "\x10\x01"),
		"the type of yield":      function(0, "\x02\x01\x41\x00\x0b\x1a"),
		"the fill in pieces":     function(0, fill+i32Const0+i32Const0+i32Const0+"\x10\x02"),
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := rewriteWithin(w.Build(p), wasmbin.Limits{}, meter.Options{})
			require.ErrorIs(t, err, wasmbin.ErrMalformed)
		})
	}
}

// A vector instruction's number may be written in more than one way, which readers
// disagree about: to one of them a loop could hide in the other's constant. What is
// written has one form only.
func TestAnEncodedModuleIsCanonical(t *testing.T) {
	long := "\xfd\x8c\x00" + w.Repeat("\x00", 16) + "\x1a" // v128.const, its number in two bytes
	short := "\xfd\x0c" + w.Repeat("\x00", 16) + "\x1a"
	require.Equal(t, rewrite(t, w.Build(function(0, short))), rewrite(t, w.Build(function(0, long))))
	require.Equal(t, rewrite(t, w.Build(function(0, "\x41\x7f\x1a"))), rewrite(t, w.Build(function(0, "\x41\xff\xff\xff\xff\x7f\x1a"))))
	require.Equal(t, rewrite(t, w.Build(function(0, get(0)+"\x1a"))), rewrite(t, w.Build(function(0, "\x20\x80\x80\x00\x1a"))))
}

func TestFunctionNamesMoveWithTheFunctions(t *testing.T) {
	names := w.Vec("\x00"+w.Bytes("env.f"), "\x01"+w.Bytes("outer"), "\x02"+w.Bytes("inner"))
	p := w.Program{
		Imports: []string{w.Bytes("env") + w.Bytes("f") + "\x00\x00"}, Imported: 1,
		Funcs: []w.Func{{Code: "\x10\x02", Export: "g"}, {Code: "\x00"}},
		Customs: []string{
			w.Section(w.Custom, w.Bytes(".debug_info")+"xyz"),
			w.Section(w.Custom, w.Bytes("name")+"\x01"+w.Bytes(names)),
		},
	}
	r := newRuntime(t, wazero.NewRuntimeConfig())
	_, err := r.NewHostModuleBuilder("env").NewFunctionBuilder().WithFunc(func() {}).Export("f").Instantiate(context.Background())
	require.NoError(t, err)
	b := rewrite(t, w.Build(p))
	m := instantiate(t, r, b)
	_, err = m.ExportedFunction("g").Call(context.Background())
	require.ErrorContains(t, err, "inner()")
	require.ErrorContains(t, err, "outer()")
	require.NotContains(t, string(b), ".debug_info")

	p.Customs = []string{w.Section(w.Custom, w.Bytes("name")+"\x01\x7f")}
	instantiate(t, r, rewrite(t, w.Build(p))) // a broken one is no reason to refuse
}

// The engine writes the names of the functions on the stack into the error of a trap.
func TestAFunctionsNameIsBounded(t *testing.T) {
	for name, want := range map[string]string{
		w.Repeat("n", 512):                w.Repeat("n", 512),
		w.Repeat("n", 513):                w.Repeat("n", 512),
		w.Repeat("n", 511) + "ä":          w.Repeat("n", 511),
		w.Repeat("n", 510) + "ä" + "more": w.Repeat("n", 510) + "ä",
		w.Repeat("n", 1<<20):              w.Repeat("n", 512),
	} {
		p := w.Program{Funcs: []w.Func{{Code: "\x00", Export: "g"}},
			Customs: []string{w.Section(w.Custom, w.Bytes("name")+"\x01"+w.Bytes(w.Vec("\x00"+w.Bytes(name))))}}
		m := instantiate(t, newRuntime(t, wazero.NewRuntimeConfig()), rewrite(t, w.Build(p)))
		_, err := m.ExportedFunction("g").Call(context.Background())
		require.ErrorContains(t, err, "."+want+"()")
	}
}

func TestAStartFunctionMovesWithTheFunctions(t *testing.T) {
	b := rewrite(t, w.Build(w.Program{
		Funcs: []w.Func{{Code: "\x00"}, {Code: w.I32Const(7) + "\x24\x00"}}, Start: 1,
		Globals: []string{"\x7f\x01\x41\x00\x0b"},
		Customs: nil,
	}))
	instantiate(t, newRuntime(t, wazero.NewRuntimeConfig()), b)
}

func segment(at int32, s string) string { return "\x00" + w.I32Const(at) + "\x0b" + w.Bytes(s) }

func TestDataSegmentsThatAreCloseAreJoined(t *testing.T) {
	cases := []struct {
		name string
		data []string
		code string
		want int
	}{
		{"neighbours", []string{segment(0, "abc"), segment(3, "def"), segment(70, "x")}, "", 1},
		{"in another order", []string{segment(70, "x"), segment(3, "def"), segment(0, "abc")}, "", 1},
		{"far apart", []string{segment(0, "abc"), segment(68, "x")}, "", 2},
		{"just close enough", []string{segment(0, "abc"), segment(67, "x")}, "", 1},
		{"an empty one", []string{segment(0, "abc"), segment(9, "")}, "", 1},
		{"overlapping", []string{segment(0, "abc"), segment(2, "def")}, "", 2},
		{"beyond the memory", []string{segment(0, "abc"), segment(3, "d"), segment(1<<16-1, "xy")}, "", 3},
		{"a passive one", []string{segment(0, "abc"), segment(3, "d"), "\x01" + w.Bytes("p")}, "", 3},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			p := function(0, c.code)
			p.Data = c.data
			plain := w.Build(p)
			b, info, err := rewriteWithin(plain, wasmbin.Limits{}, meter.Options{})
			require.NoError(t, err)
			require.Equal(t, c.want, info.Segments)
			require.Equal(t, memoryOf(t, plain), memoryOf(t, b))
		})
	}
}

func TestDataSegmentsThatAreNamedAreNotJoined(t *testing.T) {
	typ, fn := w.Section(w.Type, w.Vec(w.FuncType("", ""))), w.Section(w.Function, "\x01\x00")
	code := w.Section(w.Code, w.Vec(w.Bytes("\x00\xfc\x09\x01\x0b"))) // data.drop 1
	b := w.Module(typ, fn, w.Section(w.Memory, "\x01\x00\x01"), w.Section(w.DataCount, "\x02"), code,
		w.Section(w.Data, w.Vec(segment(0, "abc"), segment(3, "def"))))
	_, info, err := rewriteWithin(b, wasmbin.Limits{}, meter.Options{})
	require.NoError(t, err)
	require.Equal(t, 2, info.Segments)
}

// memoryOf returns the first page after instantiation, or the error.
func memoryOf(t *testing.T, b []byte) string {
	t.Helper()
	r := newRuntime(t, wazero.NewRuntimeConfigInterpreter())
	m, err := r.Instantiate(context.Background(), b)
	if err != nil {
		return fmt.Sprint(err)
	}
	s, ok := m.Memory().Read(0, 1<<16)
	require.True(t, ok)
	return string(s)
}

// A table may grow without a bound of its own, eight bytes of the host's memory for
// each element; the limit on elements becomes its maximum.
func TestATableCannotGrowBeyondTheLimit(t *testing.T) {
	p := function(0, "\xd0\x70"+get(0)+"\xfc\x0f\x00"+"\x0f")
	p.Tables = []string{"\x70\x00\x05"}
	b, _, err := rewriteWithin(w.Build(p), wasmbin.Limits{TableElements: 10}, meter.Options{})
	require.NoError(t, err)
	f := instantiate(t, newRuntime(t, wazero.NewRuntimeConfig()), b).ExportedFunction("f")
	for _, c := range []struct{ by, want uint64 }{{6, 1<<32 - 1}, {5, 5}, {1, 1<<32 - 1}} {
		got, err := f.Call(context.Background(), c.by)
		require.NoError(t, err)
		require.Equal(t, c.want, got[0])
	}
}

func TestTheVersionAndNamesAreOnesThatCachesMayRelyOn(t *testing.T) {
	require.Equal(t, "2", meter.Version)
	require.Equal(t, "wasmnode:meter/v1 yield", meter.ImportModule+" "+meter.ImportFunc)
}
