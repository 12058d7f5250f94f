package meter_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/sandbox/scan"
	w "github.com/wasmnode/wasmnode/sandbox/wasmbin/wasmtest"
)

const (
	opEnd   = "\x0b"
	opDrop  = "\x1a"
	opBlock = "\x02\x40"
	opLoop  = "\x03\x40"
	opIf    = "\x04\x40"
	opAdd   = "\x6a"
)

func get(i int) string  { return "\x20" + w.U32(i) }
func set(i int) string  { return "\x21" + w.U32(i) }
func brIf(l int) string { return get(0) + "\x0d" + w.U32(l) }

// each returns the n strings that f gives, one after the other.
func each(n int, f func(i int) string) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(f(i))
	}
	return b.String()
}

// function returns a module of one function (i32) -> i32 with so many locals.
func function(locals int, code string) w.Program {
	return w.Program{Pages: 1, Funcs: []w.Func{{
		Params: "\x7f", Results: "\x7f", Export: "f",
		Locals: []string{w.U32(locals) + "\x7f"}, Code: code + get(0),
	}}}
}

// withBlockType adds the type of index 1, of 128 parameters and results.
func withBlockType(p w.Program) w.Program {
	p.Types = []string{w.FuncType(w.Repeat("\x7f", 128), w.Repeat("\x7f", 128))}
	return p
}

// worstShapes are functions of about n bytes that are hard on the engine's compiler
// in every way that we could think of and measure.
func worstShapes(n int) map[string]w.Program {
	reads := each(n/8, func(i int) string { return get(i%4999) + opDrop })
	params := w.Repeat(get(0), 128)
	drops := w.Repeat(opDrop, 128)
	return map[string]w.Program{
		"nested blocks":        function(0, w.Repeat(opBlock, n/3)+w.Repeat(opEnd, n/3)),
		"nested blocks left":   function(0, w.Repeat(opBlock, n/8)+each(n/8, brIf)+w.Repeat(opEnd, n/8)),
		"loops":                function(0, w.Repeat(opLoop+brIf(0)+opEnd, n/7)),
		"loops without branch": function(0, w.Repeat(opLoop+opEnd, n/3)),
		"nested loops":         function(0, w.Repeat(opLoop, n/7)+w.Repeat(brIf(0)+opEnd, n/7)),
		"ifs":                  function(0, w.Repeat(get(0)+opIf+opEnd, n/5)),
		"ifs and locals":       function(4999, w.Repeat(get(0)+opIf+opEnd, n/10)+reads),
		"branches and locals":  function(4999, opBlock+w.Repeat(brIf(0), n/8)+opEnd+reads),
		"blocks and locals":    function(4999, w.Repeat(opBlock+brIf(0)+opEnd, n/14)+reads),
		"loops and locals":     function(4999, each(n/14, func(i int) string { return opLoop + get(0) + set(1+i%4999) + brIf(0) + opEnd })),
		"one br_table":         function(0, opBlock+get(0)+"\x0e"+w.U32(n)+w.Repeat("\x00", n+1)+opEnd),
		"br_tables": function(0, w.Repeat(opBlock, 100)+w.Repeat(opBlock+get(0)+"\x0e"+w.U32(100)+each(101, w.U32)+opEnd, n/106)+
			w.Repeat(opEnd, 100)),
		"loads":               function(0, get(0)+w.Repeat("\x28\x02\x00", n/3)+opDrop),
		"divisions":           function(0, get(0)+w.Repeat(get(0)+"\x6d", n/3)+opDrop),
		"conversions":         function(0, w.Repeat("\x44"+w.Repeat("\x01", 8)+"\xaa"+opDrop, n/11)),
		"fills":               function(0, w.Repeat(get(0)+get(0)+get(0)+"\xfc\x0b\x00", n/9)),
		"calls":               function(0, w.Repeat(get(0)+"\x10\x00"+opDrop, n/5)),
		"deep stack":          function(0, w.Repeat(get(0)+"\x10\x00", n/5)+w.Repeat(opDrop, n/5)),
		"blocks of 128":       withBlockType(function(0, params+w.Repeat("\x02\x01"+opEnd, n/3)+drops)),
		"loops of 128":        withBlockType(function(0, params+w.Repeat("\x03\x01"+brIf(0)+opEnd, n/7)+drops)),
		"ifs of 128":          withBlockType(function(0, params+w.Repeat(get(0)+"\x04\x01"+opEnd, n/5)+drops)),
		"functions of no use": {Funcs: make([]w.Func, n/4)},
	}
}

// What the scan refuses would keep the compiler busy for minutes or hours.
func TestTheScanRefusesWhatCannotBeCompiledInTime(t *testing.T) {
	for _, name := range []string{"branches and locals", "ifs and locals", "ifs", "loops"} {
		t.Run(name, func(t *testing.T) {
			_, err := scan.Read(scan.NewSource(w.Build(worstShapes(250_000)[name])), scan.Limits{})
			require.ErrorIs(t, err, scan.ErrLimit)
			require.Contains(t, err.Error(), "compiling")
		})
	}
}
