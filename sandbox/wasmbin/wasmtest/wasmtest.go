// Package wasmtest builds modules for tests, valid ones and others, byte by byte.
// It knows nothing but the binary format, so that tests do not check a package
// against itself.
//
// Start reading at [Build].
package wasmtest

import "strings"

// The sections.
const (
	Custom = iota
	Type
	Import
	Function
	Table
	Memory
	Global
	Export
	Start
	Element
	Code
	Data
	DataCount
	Tag
)

// The value types.
const (
	I32       = 0x7f
	I64       = 0x7e
	F64       = 0x7c
	V128      = 0x7b
	FuncRef   = 0x70
	ExternRef = 0x6f
)

// Header is how every module begins.
const Header = "\x00asm\x01\x00\x00\x00"

// U32 returns v in the shortest form.
func U32(v int) string {
	var b []byte
	for ; v >= 0x80; v >>= 7 {
		b = append(b, byte(v)|0x80)
	}
	return string(append(b, byte(v)))
}

// I32Const returns the instruction with its number.
func I32Const(v int32) string {
	b := []byte{0x41}
	for {
		c := byte(v & 0x7f)
		v >>= 7
		if v == 0 && c&0x40 == 0 || v == -1 && c&0x40 != 0 {
			return string(append(b, c))
		}
		b = append(b, c|0x80)
	}
}

// Bytes returns s after its length.
func Bytes(s string) string { return U32(len(s)) + s }

// Vec returns the items after their number.
func Vec(items ...string) string { return U32(len(items)) + strings.Join(items, "") }

// Section returns a section.
func Section(id int, content string) string { return string(rune(id)) + Bytes(content) }

// Module returns a module of the given sections.
func Module(sections ...string) []byte { return []byte(Header + strings.Join(sections, "")) }

// FuncType returns a function type.
func FuncType(params, results string) string { return "\x60" + Bytes(params) + Bytes(results) }

// Func is a function with a body.
type Func struct {
	Params, Results string   // a byte for each type
	Locals          []string // each a number of locals and their type
	Code            string   // without the last end
	Export          string   // its name, empty for none
}

// Program is a module of the common kind.
type Program struct {
	Types    []string // more types, after the different ones of Funcs
	Imports  []string // whole
	Imported int      // how many of Imports are functions
	Funcs    []Func
	Tables   []string
	Pages    int // of memory, 0 for none
	Tags     []string
	Globals  []string
	Start    int // the index of the start function, 0 for none
	Elements []string
	Data     []string
	Customs  []string
}

// Build returns the program as a module. Its memory is exported as "memory".
func Build(p Program) []byte {
	var types, funcs, bodies, exports []string
	for i, f := range p.Funcs {
		types = append(types, FuncType(f.Params, f.Results))
		funcs = append(funcs, U32(i))
		bodies = append(bodies, Bytes(Vec(f.Locals...)+f.Code+"\x0b"))
		if f.Export != "" {
			exports = append(exports, Bytes(f.Export)+"\x00"+U32(p.Imported+i))
		}
	}
	types, funcs = shareTypes(types, funcs)
	s := []string{vec(Type, append(types, p.Types...)), vec(Import, p.Imports), vec(Function, funcs), vec(Table, p.Tables)}
	if p.Pages > 0 {
		s = append(s, Section(Memory, "\x01\x00"+U32(p.Pages)))
		exports = append(exports, Bytes("memory")+"\x02\x00")
	}
	s = append(s, vec(Tag, p.Tags), vec(Global, p.Globals), vec(Export, exports))
	if p.Start > 0 {
		s = append(s, Section(Start, U32(p.Start)))
	}
	s = append(s, vec(Element, p.Elements), vec(Code, bodies), vec(Data, p.Data))
	return Module(append(s, p.Customs...)...)
}

// shareTypes keeps one of each type when there are many functions: Types of a
// Program then come after those that are left.
func shareTypes(types, funcs []string) (shared, uses []string) {
	at := map[string]string{}
	for i, t := range types {
		if at[t] == "" {
			at[t] = U32(len(shared))
			shared = append(shared, t)
		}
		funcs[i] = at[t]
	}
	return shared, funcs
}

func vec(id int, items []string) string {
	if len(items) == 0 {
		return ""
	}
	return Section(id, Vec(items...))
}

// Repeat returns s n times.
func Repeat(s string, n int) string { return strings.Repeat(s, n) }
