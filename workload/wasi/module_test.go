package wasi_test

import (
	"slices"
)

// tiny is a hand-made program: one function, _start, which may call functions of WASI.
// Its memory is exported, as WASI asks.
type tiny struct {
	imports []tinyImport
	pages   byte   // of memory, at the beginning
	body    []byte // of _start, without the end
	data    []byte // at address 0
	start   bool   // _start is the module's start function, too
	name    string // of the export, instead of _start
}

type tinyImport struct {
	module, name string
	params       int // i32s; the result is an i32
}

// bytes encodes the module. All lengths are below 128, so that one byte holds each.
func (m tiny) bytes() []byte {
	section := func(id byte, content ...byte) []byte { return append([]byte{id, byte(len(content))}, content...) }
	text := func(s string) []byte { return append([]byte{byte(len(s))}, s...) }
	types := []byte{byte(len(m.imports) + 1), 0x60, 0, 0}
	imports := []byte{byte(len(m.imports))}
	for i, f := range m.imports {
		types = append(types, 0x60, byte(f.params))
		types = append(types, slices.Repeat([]byte{0x7f}, f.params)...)
		types = append(types, 1, 0x7f)
		imports = append(imports, slices.Concat(text(f.module), text(f.name), []byte{0, byte(i + 1)})...)
	}
	index := byte(len(m.imports))
	name := m.name
	if name == "" {
		name = "_start"
	}
	exports := slices.Concat([]byte{2}, text(name), []byte{0, index}, text("memory"), []byte{2, 0})
	body := slices.Concat([]byte{0}, m.body, []byte{0x0b})
	out := slices.Concat([]byte("\x00asm\x01\x00\x00\x00"),
		section(1, types...), section(2, imports...), section(3, 1, 0), section(5, 1, 0, m.pages), section(7, exports...))
	if m.start {
		out = append(out, section(8, index)...)
	}
	out = append(out, section(10, append([]byte{1, byte(len(body))}, body...)...)...)
	if m.data != nil {
		out = append(out, section(11, slices.Concat([]byte{1, 0, 0x41, 0, 0x0b, byte(len(m.data))}, m.data)...)...)
	}
	return out
}

// What bodies are made of.
var (
	unreachable = []byte{0x00}
	drop        = []byte{0x1a}
	growMemory  = []byte{0x40, 0x00}
	forever     = []byte{0x03, 0x40, 0x0c, 0x00, 0x0b}
)

func code(parts ...[]byte) []byte { return slices.Concat(parts...) }

func call(index byte) []byte { return []byte{0x10, index} }

func loop(body []byte) []byte {
	return slices.Concat([]byte{0x03, 0x40}, body, []byte{0x0c, 0x00, 0x0b})
}

// i32 is an i32.const.
func i32(v int32) []byte {
	out := []byte{0x41}
	for {
		b := byte(v & 0x7f)
		v >>= 7
		if v == 0 && b&0x40 == 0 || v == -1 && b&0x40 != 0 {
			return append(out, b)
		}
		out = append(out, b|0x80)
	}
}

func wasiImport(name string, params int) tinyImport {
	return tinyImport{"wasi_snapshot_preview1", name, params}
}
