package wasmbin

import (
	"fmt"
	"strings"
)

// ValType is a value type: its byte in the binary format, and for a typed
// reference the heap type above it.
type ValType uint32

// The value types that have a byte of their own.
const (
	I32       ValType = 0x7f
	I64       ValType = 0x7e
	F32       ValType = 0x7d
	F64       ValType = 0x7c
	V128      ValType = 0x7b
	FuncRef   ValType = 0x70
	ExternRef ValType = 0x6f
	ExnRef    ValType = 0x69

	refNull ValType = 0x63
	refOf   ValType = 0x64
)

// heapOffset makes heap types, which are type indices or small negative numbers,
// positive in the upper bytes of a ValType.
const heapOffset = 64

var valTypeNames = map[ValType]string{
	I32: "i32", I64: "i64", F32: "f32", F64: "f64", V128: "v128",
	FuncRef: "funcref", ExternRef: "externref", ExnRef: "exnref",
}

// String returns the type's name in the text format.
func (t ValType) String() string {
	if s, ok := valTypeNames[t]; ok {
		return s
	}
	null := ""
	if t&0xff == refNull {
		null = "null "
	}
	switch h := t.heap(); h {
	case heapFunc:
		return "(ref " + null + "func)"
	case heapExtern:
		return "(ref " + null + "extern)"
	case heapExn:
		return "(ref " + null + "exn)"
	default:
		return fmt.Sprintf("(ref %s%d)", null, h)
	}
}

// Numeric reports whether a value of the type is a number of at most 64 bits.
func (t ValType) Numeric() bool { return t >= F64 && t <= I32 }

func (t ValType) heap() int64 { return int64(t>>8) - heapOffset }

func (t ValType) append(w []byte) []byte {
	w = append(w, byte(t))
	if c := t & 0xff; c == refNull || c == refOf {
		w = AppendSigned(w, t.heap())
	}
	return w
}

// FuncType is the type of a function.
type FuncType struct {
	Params  []ValType
	Results []ValType
}

// String returns the type in the form "(i32, i64) -> i32".
func (t FuncType) String() string {
	s := "(" + joinTypes(t.Params) + ") -> "
	if len(t.Results) == 1 {
		return s + t.Results[0].String()
	}
	return s + "(" + joinTypes(t.Results) + ")"
}

func joinTypes(ts []ValType) string {
	s := make([]string, len(ts))
	for i, t := range ts {
		s[i] = t.String()
	}
	return strings.Join(s, ", ")
}

// Kind is what an import or export is.
type Kind uint8

// The kinds, as they are in the binary format.
const (
	KindFunc Kind = iota
	KindTable
	KindMemory
	KindGlobal
	KindTag
)

// String returns the kind's name in the text format.
func (k Kind) String() string {
	switch k {
	case KindFunc:
		return "func"
	case KindTable:
		return "table"
	case KindMemory:
		return "memory"
	case KindGlobal:
		return "global"
	case KindTag:
		return "tag"
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// Range is the size of a memory, in pages of 64 KiB, or of a table, in elements.
type Range struct {
	Min    uint32
	Max    uint32 // meaningful when HasMax
	HasMax bool
	Shared bool // a memory of the threads proposal
}

func (l Range) append(w []byte) []byte {
	var flags byte
	if l.HasMax {
		flags |= 1
	}
	if l.Shared {
		flags |= 2
	}
	w = AppendUnsigned(append(w, flags), l.Min)
	if l.HasMax {
		w = AppendUnsigned(w, l.Max)
	}
	return w
}

// Table is a table's type.
type Table struct {
	Elem ValType
	Range
	init span // its initial value, where it has one
}

// Global is a global's type.
type Global struct {
	Type    ValType
	Mutable bool
	init    int // offset of its initial value, for one that is not imported
}

// Import is one import. Of Func, Table, Memory and Global the one that belongs to
// its kind is set; for a tag Func is.
type Import struct {
	Module string
	Name   string
	Kind   Kind
	Func   *FuncType
	Table  *Table
	Memory *Range
	Global *Global

	index uint32 // of its type, for functions and tags
}

// Export is one export.
type Export struct {
	Name  string
	Kind  Kind
	Index uint32    // in the index space of its kind
	Func  *FuncType // set for functions
}

// Custom is one custom section, by name.
type Custom struct {
	Name string
	Size int // of its content, in bytes, without the name

	content span
}

// span is a part of the module.
type span struct{ from, to int }

func (s span) len() int { return s.to - s.from }
