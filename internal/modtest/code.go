package modtest

import "slices"

// Code joins instructions.
func Code(parts ...[]byte) []byte { return slices.Concat(parts...) }

// I32Const pushes a number.
func I32Const(v int32) []byte { return signed([]byte{0x41}, int64(v)) }

// I64Const pushes a number.
func I64Const(v int64) []byte { return signed([]byte{0x42}, v) }

// Call calls a function.
func Call(index uint32) []byte { return u32([]byte{0x10}, index) }

// CallIndirect calls the table's element that is on the stack.
func CallIndirect(typeIndex uint32) []byte { return append(u32([]byte{0x11}, typeIndex), 0) }

// Get pushes a local.
func Get(index uint32) []byte { return u32([]byte{0x20}, index) }

// Set pops into a local.
func Set(index uint32) []byte { return u32([]byte{0x21}, index) }

// The instructions without an immediate that tests need.
var (
	Unreachable = []byte{0x00}
	Return      = []byte{0x0f}
	Drop        = []byte{0x1a}
	Add         = []byte{0x6a}
	Wrap        = []byte{0xa7} // i64 to i32
	Grow        = []byte{0x40, 0}
	Fill        = []byte{0xfc, 0x0b, 0}
	Copy        = []byte{0xfc, 0x0a, 0, 0}
)

// Load pushes the i32 at the address on the stack.
func Load() []byte { return []byte{0x28, 2, 0} }

// Store pops an i32 and its address.
func Store() []byte { return []byte{0x36, 2, 0} }

// Loop repeats its body for ever.
func Loop(body ...[]byte) []byte {
	return Code([]byte{0x03, 0x40}, Code(body...), []byte{0x0c, 0, 0x0b})
}

// Times repeats its body that many times; it needs a local of its own.
func Times(n int32, local uint32, body ...[]byte) []byte {
	return Code(I32Const(n), Set(local), []byte{0x03, 0x40}, Code(body...),
		Get(local), I32Const(-1), Add, []byte{0x22}, u32(nil, local), []byte{0x0d, 0, 0x0b})
}

func signed(w []byte, v int64) []byte {
	for {
		b := byte(v & 0x7f)
		v >>= 7
		if v == 0 && b&0x40 == 0 || v == -1 && b&0x40 != 0 {
			return append(w, b)
		}
		w = append(w, b|0x80)
	}
}
