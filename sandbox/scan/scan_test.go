package scan_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/sandbox/scan"
	w "github.com/wasmnode/wasmnode/sandbox/wasmbin/wasmtest"
)

// A module with some of everything that a spec tells.
func sample() []byte {
	return w.Build(w.Program{
		Imports: []string{
			w.Bytes("wasmnode:log/v1") + w.Bytes("write") + "\x00\x00",
			w.Bytes("env") + w.Bytes("g") + "\x03\x7e\x00",
		},
		Imported: 1,
		Funcs: []w.Func{
			{Params: "\x7f\x7e", Results: "\x7c", Code: "\x44" + w.Repeat("\x00", 8), Export: "f"},
			{Export: "_initialize"},
		},
		Tables:   []string{"\x70\x01\x05\x0a"},
		Pages:    2,
		Globals:  []string{"\x7f\x01\x41\x07\x0b"},
		Elements: []string{"\x00\x41\x00\x0b\x01\x01"},
		Data:     []string{"\x00\x41\x00\x0b" + w.Bytes("hello")},
		Customs: []string{
			w.Section(w.Custom, w.Bytes("producers")+w.Vec(w.Bytes("language")+w.Vec(w.Bytes("C")+w.Bytes("11")))),
			w.Section(w.Custom, w.Bytes("note")+"abc"),
		},
	})
}

func TestASpecDescribesTheFile(t *testing.T) {
	b := sample()
	s, err := scan.Read(scan.NewSource(b), scan.Limits{})
	require.NoError(t, err)

	sum := sha256.Sum256(b)
	require.Equal(t, hex.EncodeToString(sum[:]), s.Digest)
	require.Equal(t, len(b), s.Size)
	require.Equal(t, scan.LayerCore, s.Layer)
	require.Equal(t, "(i32, i64) -> f64", s.Types[0].String())
	require.Equal(t, []string{"wasmnode:log/v1", "env"}, s.ImportedModules())
	require.Equal(t, scan.KindFunc, s.Imports[0].Kind)
	require.Equal(t, &s.Types[0], s.Imports[0].Func)
	require.Equal(t, scan.I64, s.Imports[1].Global.Type)
	require.Equal(t, &s.Types[0], s.Export(scan.KindFunc, "f").Func)
	require.Nil(t, s.Export(scan.KindFunc, "memory"))
	require.Equal(t, uint32(2), s.Memory.Min)
	require.False(t, s.Memory.HasMax)
	require.True(t, s.Memory.Exported)
	require.Equal(t, uint32(10), s.Tables[0].Max)
	require.Equal(t, 2, s.Globals)
	require.Equal(t, -1, s.Start)
	require.Equal(t, 2, s.Code.Functions)
	require.Equal(t, 3, s.Code.Instructions)
	require.Equal(t, 1, s.ElementSegments)
	require.Equal(t, 1, s.DataSegments)
	require.Equal(t, 5, s.DataBytes)
	require.True(t, s.IsReactor)
	require.False(t, s.IsCommand)
	require.Equal(t, []scan.Producer{{Field: "language", Name: "C", Version: "11"}}, s.Producers)
	require.Equal(t, "note", s.Customs[1].Name)
	require.Equal(t, 3, s.Customs[1].Size)
}

// A command that has its memory and a table from the host, and code of some depth.
func TestASpecDescribesWhatIsImportedAndItsCode(t *testing.T) {
	block, end := "\x02\x40", "\x0b"
	b := w.Build(w.Program{
		Imports: []string{
			w.Bytes("env") + w.Bytes("memory") + "\x02\x01\x03\x09",
			w.Bytes("env") + w.Bytes("table") + "\x01\x70\x00\x05",
			w.Bytes("other") + w.Bytes("global") + "\x03\x7e\x00",
		},
		Funcs: []w.Func{
			{Export: "_start", Code: block + block + end + end},
			{Export: "_started", Code: block + end},
		},
	})
	s, err := scan.Read(scan.NewSource(b), scan.Limits{})
	require.NoError(t, err)
	require.True(t, s.IsCommand)
	require.False(t, s.IsReactor)
	require.Equal(t, []string{"env", "other"}, s.ImportedModules(), "each once")
	require.True(t, s.Memory.Imported)
	require.False(t, s.Memory.Exported)
	require.Equal(t, []uint32{3, 9}, []uint32{s.Memory.Min, s.Memory.Max})
	require.Len(t, s.Tables, 1)
	require.True(t, s.Tables[0].Imported)
	require.Equal(t, uint32(5), s.Tables[0].Min)
	require.Equal(t, 2, s.Code.Functions)
	require.Equal(t, 8, s.Code.Instructions)
	require.Greater(t, s.Code.Bytes, s.Code.Largest)
	require.Less(t, s.Code.Bytes, 2*s.Code.Largest)
	flat, err := scan.Read(scan.NewSource(body(block+end)), scan.Limits{})
	require.NoError(t, err)
	require.Equal(t, flat.Code.Nesting+1, s.Code.Nesting)
	require.Equal(t, s.Code.Bytes-s.Code.Largest, flat.Code.Largest, "the same code")
}

func TestASpecKeepsNothingOfTheFile(t *testing.T) {
	b := sample()
	m, err := scan.Read(scan.NewSource(b), scan.Limits{})
	require.NoError(t, err)
	s := m.Spec
	clear(b)
	require.Equal(t, "wasmnode:log/v1", s.Imports[0].Module)
	require.Equal(t, "f", s.Exports[0].Name)
	require.Equal(t, "C", s.Producers[0].Name)
}

// body returns a module of one function () -> () with this code.
func body(code string) []byte {
	return w.Build(w.Program{Funcs: []w.Func{{Code: code}}, Pages: 1})
}

func TestARefusalNamesThePositionAndTheReason(t *testing.T) {
	cases := []struct {
		name string
		b    []byte
		kind error
		text string
	}{
		{"an empty file", nil, scan.ErrTruncated, "offset 0x0: truncated: the file ends within the header"},
		{"an ELF file", []byte("\x7fELF...."), scan.ErrNotWasm, `offset 0x0: not a WebAssembly module: it begins with "\x7fELF"`},
		{"half a header", []byte("\x00asm\x01"), scan.ErrTruncated, "offset 0x5: truncated: the file ends within the header"},
		{"a component", []byte("\x00asm\x0d\x00\x01\x00"), scan.ErrComponent, "offset 0x4: this is a component, and only core modules run here: build for WASI preview 1 instead (GOOS=wasip1, or the target wasm32-wasip1)"},
		{"another version", []byte("\x00asm\x02\x00\x00\x00"), scan.ErrUnsupported, "offset 0x4: version 02000000 of the binary format is not supported"},
		{"a copy in progress", sample()[:40], scan.ErrTruncated, "offset 0x16: import section of 34 bytes exceeds the 18 bytes that remain"},
		{"an import count that cannot be", w.Module("\x02\x05\xff\xff\xff\xff\x0f"), scan.ErrMalformed, "offset 0xa: import section: count 4294967295 exceeds the 0 bytes that remain"},
		{"a local count that cannot be", w.Build(w.Program{Funcs: []w.Func{{Locals: []string{"\xff\xff\xff\xff\x0f\x7f"}}}}), scan.ErrLimit, "offset 0x17: function 0: 4294967295 locals, at most 5000 are allowed"},
		{"an export count that cannot be", w.Module("\x07\x04\x80\xe1\xeb\x17"), scan.ErrMalformed, "offset 0xa: export section: count 50000000 exceeds the 0 bytes that remain"},
		{"a function of a type that is not there", w.Module(w.Section(w.Type, w.Vec(w.FuncType("", ""))), w.Section(w.Function, "\x02\x00\x7f")), scan.ErrMalformed, "offset 0x12: function section: type index 127 of 1"},
		{"sections out of order", w.Module(w.Section(w.Code, "\x00"), w.Section(w.Type, "\x00")), scan.ErrMalformed, "offset 0xb: type section is out of order, or there twice"},
		{"an unknown section", w.Module("\x20\x00"), scan.ErrMalformed, "offset 0x8: section 32 is unknown"},
		{"functions without bodies", w.Module(w.Section(w.Type, w.Vec(w.FuncType("", ""))), w.Section(w.Function, "\x01\x00")), scan.ErrMalformed, "offset 0x12: code section: 0 bodies for 1 functions"},
		{"a name that is not UTF-8", w.Module(w.Section(w.Custom, "\x01\xff")), scan.ErrMalformed, "offset 0xa: custom section: name is not UTF-8"},
		{"a number of six bytes", w.Module("\x01\x80\x80\x80\x80\x80\x00"), scan.ErrMalformed, "offset 0x9: number does not fit 32 bits"},
		{"code after a function's end", body("\x0b\x01"), scan.ErrMalformed, "offset 0x29: function 0: 2 bytes left over"},
		{"a function without an end", body("\x02\x40"), scan.ErrMalformed, "offset 0x2b: function 0: unexpected end"},
		{"threads", body("\xfe\x03\x00"), scan.ErrUnsupported, "offset 0x28: function 0: the threads proposal (shared memory and atomics) is not supported"},
		{"shared memory", w.Module(w.Section(w.Memory, "\x01\x03\x01\x02")), scan.ErrUnsupported, "offset 0xb: memory section: the threads proposal (shared memory and atomics) is not supported"},
		{"two memories", w.Module(w.Section(w.Memory, "\x02\x00\x01\x00\x01")), scan.ErrUnsupported, "offset 0xd: memory section: the multi-memory proposal is not supported"},
		{"a 64-bit memory", w.Module(w.Section(w.Memory, "\x01\x04\x01")), scan.ErrUnsupported, "offset 0xb: memory section: the memory64 proposal is not supported"},
		{"garbage collection", w.Module(w.Section(w.Type, w.Vec("\x5f\x00\x00"))), scan.ErrUnsupported, "offset 0xb: type section: the garbage-collection proposal is not supported"},
		{"old exceptions", body("\x06\x40\x0b"), scan.ErrUnsupported, "offset 0x28: function 0: the legacy exception-handling proposal (compile with -mllvm -wasm-use-legacy-eh=false for try_table) is not supported"},
		{"relaxed SIMD", body("\xfd\x80\x02"), scan.ErrUnsupported, "offset 0x28: function 0: the relaxed-simd proposal is not supported"},
		{"typed references", body("\xd4"), scan.ErrUnsupported, "offset 0x28: function 0: the typed-function-references proposal is not supported"},
		{"stack switching", body("\xe0\x00"), scan.ErrUnsupported, "offset 0x28: function 0: the stack-switching proposal is not supported"},
		{"wide arithmetic", body("\xfc\x13"), scan.ErrUnsupported, "offset 0x28: function 0: the wide-arithmetic proposal is not supported"},
		{"an unknown instruction", body("\xff"), scan.ErrMalformed, "offset 0x28: function 0: instruction 0xff is unknown"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s, err := scan.Read(scan.NewSource(c.b), scan.Limits{})
			require.Nil(t, s)
			require.EqualError(t, err, c.text)
			require.ErrorIs(t, err, c.kind)
			var typed *scan.Error
			require.True(t, errors.As(err, &typed))
		})
	}
}

func TestIndicesAreCheckedAgainstWhatIsThere(t *testing.T) {
	for name, code := range map[string]string{
		"call": "\x10\x01", "call_indirect, type": "\x11\x01\x00", "call_indirect, table": "\x11\x00\x00",
		"local.get": "\x20\x00", "global.set": "\x24\x00", "table.get": "\x25\x00", "ref.func": "\xd2\x01",
		"memory.init": "\xfc\x08\x00\x00", "data.drop": "\xfc\x09\x00", "elem.drop": "\xfc\x0d\x00",
		"table.init": "\xfc\x0c\x00\x00", "table.copy": "\xfc\x0e\x00\x00", "table.size": "\xfc\x10\x00",
		"br": "\x0c\x01", "br_table": "\x0e\x00\x01", "throw": "\x08\x00", "block type": "\x02\x01\x0b", "return_call": "\x12\x01",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := scan.Read(scan.NewSource(body(code)), scan.Limits{})
			require.ErrorIs(t, err, scan.ErrMalformed)
			require.Regexp(t, `index \d+ of \d+|block type 1 of 1`, err.Error())
		})
	}
}

// A module at a limit is accepted, and one that is a step beyond is not.
func TestEachLimitHoldsAtItsEdge(t *testing.T) {
	strs := func(n int, s string) []string {
		out := make([]string, n)
		for i := range out {
			out[i] = s
		}
		return out
	}
	cases := []struct {
		name  string
		limit func(l *scan.Limits, n int)
		build func(n int) []byte
	}{
		{"types", func(l *scan.Limits, n int) { l.Types = uint32(n) }, func(n int) []byte { return w.Build(w.Program{Types: strs(n, w.FuncType("", ""))}) }},
		{"parameters", func(l *scan.Limits, n int) { l.Params = uint32(n) }, func(n int) []byte {
			return w.Build(w.Program{Types: []string{w.FuncType(w.Repeat("\x7f", n), "")}})
		}},
		{"results", func(l *scan.Limits, n int) { l.Params = uint32(n) }, func(n int) []byte {
			return w.Build(w.Program{Types: []string{w.FuncType("", w.Repeat("\x7f", n))}})
		}},
		{"imports", func(l *scan.Limits, n int) { l.Imports = uint32(n) }, func(n int) []byte {
			return w.Build(w.Program{Imports: strs(n, "\x00\x00\x03\x7f\x00")})
		}},
		{"functions", func(l *scan.Limits, n int) { l.Functions = uint32(n) }, func(n int) []byte { return w.Build(w.Program{Funcs: make([]w.Func, n)}) }},
		{"function bytes", func(l *scan.Limits, n int) { l.FunctionBytes = uint32(n) }, func(n int) []byte { return body(w.Repeat("\x01", n-2)) }},
		{"locals", func(l *scan.Limits, n int) { l.Locals = uint32(n) }, func(n int) []byte {
			return w.Build(w.Program{Funcs: []w.Func{{Params: "\x7f", Locals: []string{w.U32(n-1) + "\x7f"}}}})
		}},
		{"nested blocks", func(l *scan.Limits, n int) { l.Nesting = uint32(n) }, func(n int) []byte { return body(w.Repeat("\x02\x40", n) + w.Repeat("\x0b", n)) }},
		{"branch targets", func(l *scan.Limits, n int) { l.Targets = uint32(n) }, func(n int) []byte {
			return body("\x41\x00\x0e" + w.U32(n) + w.Repeat("\x00", n+1))
		}},
		{"tables", func(l *scan.Limits, n int) { l.Tables = uint32(n) }, func(n int) []byte { return w.Build(w.Program{Tables: strs(n, "\x70\x00\x00")}) }},
		{"imported tables", func(l *scan.Limits, n int) { l.Tables = uint32(n) }, func(n int) []byte {
			return w.Build(w.Program{Imports: strs(n, "\x00\x00\x01\x70\x00\x00")})
		}},
		{"table elements", func(l *scan.Limits, n int) { l.TableElements = uint32(n) }, func(n int) []byte {
			return w.Build(w.Program{Tables: []string{"\x70\x00" + w.U32(n-1), "\x6f\x00\x01"}})
		}},
		{"memory pages", func(l *scan.Limits, n int) { l.MemoryPages = uint32(n) }, func(n int) []byte { return w.Build(w.Program{Pages: n}) }},
		{"globals", func(l *scan.Limits, n int) { l.Globals = uint32(n) }, func(n int) []byte {
			return w.Build(w.Program{Globals: strs(n, "\x7f\x00\x41\x00\x0b")})
		}},
		{"exports", func(l *scan.Limits, n int) { l.Exports = uint32(n) }, func(n int) []byte {
			return w.Build(w.Program{Funcs: make([]w.Func, 1), Pages: 0, Customs: nil})
		}},
		{"element segments", func(l *scan.Limits, n int) { l.Elements = uint32(n) }, func(n int) []byte {
			return w.Build(w.Program{Elements: strs(n, "\x01\x00\x00")})
		}},
		{"data segments", func(l *scan.Limits, n int) { l.DataSegments = uint32(n) }, func(n int) []byte {
			return w.Build(w.Program{Data: strs(n, "\x01\x00")})
		}},
		{"custom sections", func(l *scan.Limits, n int) { l.Customs = uint32(n) }, func(n int) []byte {
			return w.Build(w.Program{Customs: strs(n, w.Section(w.Custom, "\x00"))})
		}},
		{"module bytes", func(l *scan.Limits, n int) { l.ModuleBytes = n }, func(n int) []byte {
			return w.Module(w.Section(w.Custom, w.Bytes("x")+w.Repeat("\x00", n-12)))
		}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			const n = 100
			var l scan.Limits
			c.limit(&l, n)
			if c.name == "exports" {
				c.build = manyExports
			}
			_, err := scan.Read(scan.NewSource(c.build(n)), l)
			require.NoError(t, err)
			_, err = scan.Read(scan.NewSource(c.build(n+1)), l)
			require.ErrorIs(t, err, scan.ErrLimit)
		})
	}
}

func manyExports(n int) []byte {
	f := make([]w.Func, n)
	for i := range f {
		f[i].Export = "f" + w.Repeat("f", i)
	}
	return w.Build(w.Program{Funcs: f})
}

// Reading may need four bytes for each byte of the file, and 1 MiB. What is
// allocated altogether is more than what is needed at any time, and still within it.
func TestAScanNeedsLittleMemory(t *testing.T) {
	big := 300_000
	cases := map[string][]byte{
		"a sample":              sample(),
		"types":                 w.Build(w.Program{Types: repeat(5000, w.FuncType("\x7f\x7f", "\x7f"))}),
		"long types":            w.Build(w.Program{Types: repeat(5000, w.FuncType(w.Repeat("\x7f", 128), w.Repeat("\x7f", 128)))}),
		"imports":               w.Build(w.Program{Imports: repeat(1000, "\x00\x00\x03\x7f\x00")}),
		"exports":               exportsOfOne(5000),
		"functions":             w.Build(w.Program{Funcs: make([]w.Func, 200_000)}),
		"data segments":         w.Build(w.Program{Data: repeat(big, "\x01\x00")}),
		"element segments":      w.Build(w.Program{Elements: repeat(10_000, "\x01\x00\x00")}),
		"a long segment":        w.Build(w.Program{Funcs: make([]w.Func, 1), Elements: []string{"\x01\x00" + w.U32(big) + w.Repeat("\x00", big)}}),
		"globals":               w.Build(w.Program{Globals: repeat(10_000, "\x7f\x00\x41\x00\x0b")}),
		"custom sections":       w.Build(w.Program{Customs: repeat(256, w.Section(w.Custom, "\x00"))}),
		"a long function":       body(w.Repeat("\x01", 200_000)),
		"a long branch":         body("\x41\x00\x0e" + w.U32(60_000) + w.Repeat("\x00", 60_001)),
		"false counts":          w.Module("\x01\x05\xff\xff\xff\xff\x0f"),
		"a false count in much": w.Module(w.Section(w.Type, w.U32(4000)+w.Repeat("\x60\x80\x01", 4000))),
	}
	for name, b := range cases {
		t.Run(name, func(t *testing.T) {
			require.LessOrEqual(t, allocated(func() { _, _ = scan.Read(scan.NewSource(b), scan.Limits{}) }), 4*uint64(len(b))+1<<20)
		})
	}
}

func repeat(n int, s string) []string { return strings.Split(strings.Repeat(s+"|", n-1)+s, "|") }

func exportsOfOne(n int) []byte {
	return w.Module(w.Section(w.Type, w.Vec(w.FuncType("", ""))), w.Section(w.Function, "\x01\x00"),
		w.Section(w.Export, w.U32(n)+w.Repeat("\x00\x00\x00", n)), w.Section(w.Code, w.Vec("\x02\x00\x0b")))
}

// allocated returns how many bytes f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func BenchmarkRead(b *testing.B) {
	code := w.Repeat("\x41\x80\x01\x1a\x02\x40\x0b", 1000)
	module := w.Build(w.Program{Funcs: repeatFunc(500, w.Func{Code: code})})
	b.SetBytes(int64(len(module)))
	for b.Loop() {
		if _, err := scan.Read(scan.NewSource(module), scan.Limits{}); err != nil {
			b.Fatal(err)
		}
	}
}

func repeatFunc(n int, f w.Func) []w.Func {
	out := make([]w.Func, n)
	for i := range out {
		out[i] = f
	}
	return out
}
