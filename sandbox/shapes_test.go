package sandbox

import (
	"maps"
	"slices"
	"strings"

	w "github.com/wasmnode/wasmnode/sandbox/wasmbin/wasmtest"
)

// shape is a way to write a function of about n bytes that is hard on the compiler, with
// held values on the operand stack or in locals all the while.
type shape func(n, held int) w.Program

func get(i int) string { return "\x20" + w.U32(i) }

// each returns the n strings that f gives, one after the other.
func each(n int, f func(i int) string) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(f(i))
	}
	return b.String()
}

// function is a module of a function (i32) -> i32, whose type is 0; type 1 has 128
// parameters and results, type 2 has 128 parameters, type 3 has 128 results. Function 1 is
// of type 1, function 2 of type 2.
func function(locals int, code string) w.Program {
	many := w.Repeat("\x7f", 128)
	return w.Program{
		Pages: 1, Tables: []string{"\x70\x00\x01"}, Globals: []string{"\x7f\x01\x41\x00\x0b"},
		Tags: []string{"\x00\x02"},
		Funcs: []w.Func{
			{Params: "\x7f", Results: "\x7f", Export: "f", Locals: []string{w.U32(locals) + "\x7f"}, Code: code + get(0)},
			{Params: many, Results: many, Code: each(128, get)},
			{Params: many},
			{Results: many, Code: w.Repeat("\x41\x00", 128)},
		},
	}
}

const (
	load    = "\x28\x02\x00"
	end     = "\x0b"
	drop    = "\x1a"
	add     = "\x6a"
	opBlock = "\x02"
	opLoop  = "\x03"
	opIf    = "\x04"
	void    = "\x40"
)

func brIf(l int) string { return get(0) + "\x0d" + w.U32(l) }

// holding puts values on the stack around code, which leaves it as it is, and uses them.
func holding(held int, code string) string {
	if held == 0 {
		return code
	}
	return w.Repeat(get(0)+load, held) + code + w.Repeat(add, held-1) + "\x21\x00"
}

// with128 has code run with 128 values on the stack, and uses them.
func with128(code string) string {
	return w.Repeat(get(0)+load, 128) + code + w.Repeat(add, 127) + "\x21\x00"
}

func held(unit string) shape {
	return func(n, held int) w.Program { return function(0, holding(held, w.Repeat(unit, n/len(unit)))) }
}

func nested(open, close string) shape {
	return func(n, held int) w.Program {
		k := min(n/(len(open)+len(close)), 9000)
		return function(0, holding(held, w.Repeat(open, k)+w.Repeat(close, k)))
	}
}

func nested128(open, close string) shape {
	return func(n, held int) w.Program {
		k := min(n/(len(open)+len(close)), 9000)
		return function(0, holding(held, with128(w.Repeat(open, k)+w.Repeat(close, k))))
	}
}

func plain128(unit string) shape {
	return func(n, held int) w.Program {
		return function(0, holding(held, with128(w.Repeat(unit, n/len(unit)))))
	}
}

// inLocals loads held locals, runs the units, which may change the locals, and reads them.
func inLocals(unit func(i, held int) string) shape {
	return func(n, held int) w.Program {
		held = min(max(held, 1), 4900)
		code := each(n/len(unit(0, held)), func(i int) string { return unit(i, held) })
		return function(held, each(held, func(i int) string { return get(0) + load + "\x21" + w.U32(i+1) })+code+
			each(held, func(i int) string { return get(i+1) + get(0) + add + "\x21\x00" }))
	}
}

// shapes are all that we could think of, by what they do with the compiler: those that
// repeat a piece, and others.
var shapes = func() map[string]shape {
	all := maps.Clone(wholes)
	for name, unit := range unitsByName {
		all[name] = held(unit)
	}
	for name, pair := range pairsByName {
		all[name] = nested(pair[0], pair[1])
	}
	for name, unit := range units128ByName {
		all[name] = plain128(unit)
	}
	for name, pair := range pairs128ByName {
		all[name] = nested128(pair[0], pair[1])
	}
	return all
}()

// The pieces in the order of their names, for those who draw one.
var (
	units    = inOrder(unitsByName)
	pairs    = inOrder(pairsByName)
	units128 = inOrder(units128ByName)
	pairs128 = inOrder(pairs128ByName)
)

func inOrder[T any](m map[string]T) (all []T) {
	for _, name := range slices.Sorted(maps.Keys(m)) {
		all = append(all, m[name])
	}
	return all
}

// unitsByName leave the operand stack as it is.
var unitsByName = map[string]string{
	"ifs":               get(0) + opIf + void + end,
	"loops":             opLoop + void + brIf(0) + end,
	"blocks":            opBlock + void + brIf(0) + end,
	"if else":           get(0) + opIf + void + "\x05" + end,
	"if results":        get(0) + opIf + "\x7f" + get(0) + load + "\x05" + get(0) + load + end + drop,
	"loads":             get(0) + load + drop,
	"divisions":         get(0) + get(0) + "\x6d" + drop,
	"64-bit remainders": "\x42\x01" + get(0) + "\xad" + "\x81" + "\xa7\x21\x00",
	"conversions":       "\x44" + w.Repeat("\x01", 8) + "\xaa\x21\x00",
	"saturating":        "\x44" + w.Repeat("\x01", 8) + "\xfc\x07\xa7\x21\x00",
	"float min":         "\x44" + w.Repeat("\x01", 8) + "\x44" + w.Repeat("\x01", 8) + "\xa4\x1a",
	"constants":         "\x44" + w.Repeat("\x01", 8) + "\xbd\xa7\x21\x00",
	"adds":              get(0) + get(0) + add + "\x21\x00",
	"selects":           get(0) + get(0) + get(0) + "\x1b" + "\x21\x00",
	"global sets":       get(0) + "\x24\x00",
	"global gets":       "\x23\x00\x21\x00",
	"stores":            get(0) + get(0) + "\x36\x02\x00",
	"memory.size":       "\x3f\x00\x21\x00",
	"memory.grow":       get(0) + "\x40\x00\x21\x00",
	"fills":             get(0) + get(0) + get(0) + "\xfc\x0b\x00",
	"copies":            get(0) + get(0) + get(0) + "\xfc\x0a\x00\x00",
	"table.get":         get(0) + "\x25\x00" + drop,
	"table.set":         get(0) + get(0) + "\x25\x00" + "\x26\x00",
	"table.grow":        "\xd0\x70" + get(0) + "\xfc\x0f\x00\x21\x00",
	"table.copy":        get(0) + get(0) + get(0) + "\xfc\x0e\x00\x00",
	"calls":             get(0) + "\x10\x00\x21\x00",
	"indirect calls":    get(0) + get(0) + "\x11\x00\x00\x21\x00",
	"popcnt":            get(0) + "\x69\x21\x00",
	"v128 constants":    "\xfd\x0c" + w.Repeat("\x05", 16) + "\xfd\x53\x21\x00",
	"shuffles":          get(0) + "\xfd\x0f" + get(0) + "\xfd\x0f\xfd\x0d" + w.Repeat("\x05", 16) + "\xfd\x53\x21\x00",
	"v128 multiplies":   get(0) + "\xfd\x11" + get(0) + "\xfd\x11\xfd\xd5\x01\xfd\x53\x21\x00",
	"v128 shifts":       get(0) + "\xfd\x11" + get(0) + "\xfd\x6b\xfd\x53\x21\x00",
	"v128 truncations":  get(0) + "\xfd\x11\xfd\xf9\x01\xfd\x53\x21\x00",
	"try tables":        "\x02\x40\x1f\x40\x01\x02\x00" + get(0) + "\x10\x00\x21\x00" + end + end,
	"returns":           get(0) + opIf + void + get(0) + "\x0f" + end,
	"traps":             get(0) + opIf + void + "\x00" + end,
}

// pairsByName open and close a block.
var pairsByName = map[string][2]string{
	"nested blocks":      {opBlock + void, end},
	"nested blocks left": {opBlock + void + brIf(0), end},
	"nested loops":       {opLoop + void, brIf(0) + end},
	"nested ifs":         {get(0) + opIf + void, end},
	"nested if else":     {get(0) + opIf + void, "\x05" + end},
	"nested try tables":  {"\x02\x40\x1f\x40\x01\x02\x00", end + end},
}

// units128ByName take 128 values and leave as many.
var units128ByName = map[string]string{
	"calls of 128":      "\x10\x01",
	"indirect 128":      get(0) + "\x11\x01\x00",
	"calls with 128":    "\x10\x02\x10\x03",
	"results of 128":    "\x10\x03\x10\x02",
	"blocks of 128":     "\x02\x01" + end,
	"loops of 128":      "\x03\x01" + brIf(0) + end,
	"ifs of 128":        get(0) + "\x04\x01" + end,
	"exits with 128":    "\x02\x01" + brIf(0) + brIf(0) + brIf(0) + brIf(0) + end,
	"try tables of 128": "\x02\x01\x1f\x01\x01\x00\x00\x00" + end + end,
	"br_tables of 128":  "\x02\x01" + get(0) + "\x0e" + w.U32(20) + w.Repeat("\x00", 21) + end,
}

// pairs128ByName open and close a block that takes 128 values and leaves as many.
var pairs128ByName = map[string][2]string{
	"nested blocks of 128": {"\x02\x01" + brIf(0), end},
	"nested loops of 128":  {"\x03\x01", brIf(0) + end},
	"nested ifs of 128":    {get(0) + "\x04\x01", end},
	"left loops of 128":    {"\x03\x01" + get(0) + "\x0d\x01", brIf(0) + end},
}

// wholes are shapes that are more than a piece repeated.
var wholes = map[string]shape{
	"exits of a loop": func(n, held int) w.Program {
		return function(0, holding(held, with128("\x03\x01"+w.Repeat(brIf(0), n/4)+end)))
	},
	"exits of a block": func(n, held int) w.Program {
		return function(0, holding(held, with128("\x02\x01"+w.Repeat(brIf(0), n/4)+end)))
	},
	"one br_table": func(n, held int) w.Program {
		return function(0, holding(held, opBlock+void+get(0)+"\x0e"+w.U32(min(n, 60000))+w.Repeat("\x00", min(n, 60000)+1)+end))
	},
	"br_table of 128": func(n, held int) w.Program {
		return function(0, holding(held, with128("\x02\x01"+get(0)+"\x0e"+w.U32(min(n, 60000))+w.Repeat("\x00", min(n, 60000)+1)+end)))
	},
	"br_tables": func(n, held int) w.Program {
		unit := opBlock + void + get(0) + "\x0e" + w.U32(100) + each(101, w.U32) + end
		return function(0, holding(held, w.Repeat(opBlock+void, 100)+w.Repeat(unit, n/len(unit))+w.Repeat(end, 100)))
	},
	"far br_tables": func(n, held int) w.Program {
		k := n / 20
		return function(0, holding(held, w.Repeat(opBlock+void, k)+w.Repeat(opBlock+void+get(0)+"\x0e"+w.U32(4)+each(5, func(i int) string { return w.U32(i * (k - 1) / 4) })+end, n/24)+w.Repeat(end, k)))
	},
	"locals and ifs":    inLocals(func(int, int) string { return get(0) + opIf + void + end }),
	"locals and loops":  inLocals(func(int, int) string { return opLoop + void + brIf(0) + end }),
	"locals and blocks": inLocals(func(int, int) string { return opBlock + void + brIf(0) + end }),
	"locals in loops": inLocals(func(i, held int) string {
		return opLoop + void + get(1+i%held) + get(0) + add + "\x21" + w.U32(1+i%held) + brIf(0) + end
	}),
	"locals in ifs":    inLocals(func(i, held int) string { return get(0) + opIf + void + get(0) + "\x21" + w.U32(1+i%held) + end }),
	"locals and calls": inLocals(func(int, int) string { return get(0) + "\x10\x00\x21\x00" }),
	"locals in nested loops": func(n, held int) w.Program {
		held = min(max(held, 1), 4900)
		k := min(n/20, 9000)
		return function(held, each(k, func(i int) string { return opLoop + void + get(1+i%held) + get(0) + add + "\x21" + w.U32(1+i%held) })+w.Repeat(brIf(0)+end, k))
	},
	"locals set, left": func(n, held int) w.Program {
		held = min(max(held, 1), 4900)
		return function(held, opBlock+void+each(n/10, func(i int) string { return get(0) + load + "\x21" + w.U32(1+i%held) + brIf(0) })+end+
			each(held, func(i int) string { return get(i+1) + get(0) + add + "\x21\x00" }))
	},
	"locals set, again": func(n, held int) w.Program {
		held = min(max(held, 1), 4900)
		return function(held, opLoop+void+each(n/10, func(i int) string { return get(0) + load + "\x21" + w.U32(1+i%held) + brIf(0) })+end+
			each(held, func(i int) string { return get(i+1) + get(0) + add + "\x21\x00" }))
	},
}
