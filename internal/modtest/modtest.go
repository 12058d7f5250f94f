// Package modtest builds small WebAssembly modules for tests: guests that no
// compiler would make. It checks nothing; what it writes may be as wrong as a test
// wants it.
//
// Start reading at [Module].
package modtest

import (
	"slices"
)

// The value types.
const (
	I32 byte = 0x7f
	I64 byte = 0x7e
)

// Type is a function's type.
type Type struct{ Params, Results []byte }

// Operation is the type of a plugin's operations: (i32) -> i32.
var Operation = Type{Params: []byte{I32}, Results: []byte{I32}}

// Import is an imported function.
type Import struct {
	Module, Name string
	Type         Type
}

// Func is a function of the module.
type Func struct {
	Export string // empty: not exported
	Type   Type
	Locals uint32 // of type i32, beside the parameters
	Body   []byte // without the end
}

// Data is an active data segment.
type Data struct {
	Offset uint32
	Bytes  []byte
}

// Module is a module. Functions are numbered: imports first, then Funcs.
type Module struct {
	Imports []Import
	Funcs   []Func
	// Pages and MaxPages are the memory's size; MaxPages 0: no maximum. NoMemory:
	// there is none. It is exported as "memory", unless HideMemory.
	Pages, MaxPages      uint32
	NoMemory, HideMemory bool
	Table                uint32 // elements of funcref; 0: no table
	Elements             []uint32
	Start                *uint32
	Data                 []Data
}

// Bytes returns the module in the binary format.
func (m *Module) Bytes() []byte {
	out := []byte("\x00asm\x01\x00\x00\x00")
	out = section(out, 1, m.types())
	out = section(out, 2, m.imports())
	out = section(out, 3, vector(m.Funcs, func(w []byte, f Func) []byte { return u32(w, m.typeOf(f.Type)) }))
	if m.Table > 0 {
		out = section(out, 4, u32([]byte{1, 0x70, 0}, m.Table))
	}
	if !m.NoMemory {
		out = section(out, 5, m.memory())
	}
	out = section(out, 7, m.exports())
	if m.Start != nil {
		out = text(append(out, 8), string(u32(nil, *m.Start)))
	}
	if len(m.Elements) > 0 {
		w := append([]byte{1, 0}, I32Const(0)...)
		w = append(w, 0x0b)
		w = u32(w, uint32(len(m.Elements)))
		for _, e := range m.Elements {
			w = u32(w, e)
		}
		out = section(out, 9, w)
	}
	out = section(out, 10, vector(m.Funcs, appendBody))
	return section(out, 11, vector(m.Data, appendData))
}

func (m *Module) allTypes() []Type {
	var out []Type
	for _, i := range m.Imports {
		out = append(out, i.Type)
	}
	for _, f := range m.Funcs {
		out = append(out, f.Type)
	}
	return out
}

func (m *Module) typeOf(t Type) uint32 {
	return uint32(slices.IndexFunc(m.allTypes(), func(o Type) bool {
		return slices.Equal(t.Params, o.Params) && slices.Equal(t.Results, o.Results)
	}))
}

func (m *Module) types() []byte {
	return vector(m.allTypes(), func(w []byte, t Type) []byte {
		w = append(w, 0x60)
		w = text(w, string(t.Params))
		return text(w, string(t.Results))
	})
}

func (m *Module) imports() []byte {
	return vector(m.Imports, func(w []byte, i Import) []byte {
		w = text(text(w, i.Module), i.Name)
		return u32(append(w, 0), m.typeOf(i.Type))
	})
}

func (m *Module) memory() []byte {
	if m.MaxPages == 0 {
		return u32([]byte{1, 0}, m.Pages)
	}
	return u32(u32([]byte{1, 1}, m.Pages), m.MaxPages)
}

func (m *Module) exports() []byte {
	var out []byte
	n := uint32(0)
	if !m.NoMemory && !m.HideMemory {
		out = append(text(out, "memory"), 2, 0)
		n++
	}
	for i, f := range m.Funcs {
		if f.Export != "" {
			out = u32(append(text(out, f.Export), 0), uint32(len(m.Imports)+i))
			n++
		}
	}
	return append(u32(nil, n), out...)
}

func appendBody(w []byte, f Func) []byte {
	var body []byte
	if f.Locals == 0 {
		body = append(body, 0)
	} else {
		body = append(u32([]byte{1}, f.Locals), I32)
	}
	body = append(append(body, f.Body...), 0x0b)
	return text(w, string(body))
}

func appendData(w []byte, d Data) []byte {
	w = append(append(append(w, 0), I32Const(int32(d.Offset))...), 0x0b)
	return text(w, string(d.Bytes))
}

func vector[T any](items []T, add func([]byte, T) []byte) []byte {
	w := u32(nil, uint32(len(items)))
	for _, i := range items {
		w = add(w, i)
	}
	return w
}

func section(out []byte, id byte, content []byte) []byte {
	if len(content) == 0 || len(content) == 1 && content[0] == 0 {
		return out
	}
	return text(append(out, id), string(content))
}

func text(w []byte, s string) []byte { return append(u32(w, uint32(len(s))), s...) }

// u32 appends an unsigned number.
func u32(w []byte, v uint32) []byte {
	for ; v > 0x7f; v >>= 7 {
		w = append(w, byte(v)|0x80)
	}
	return append(w, byte(v))
}
