package wasmbin

// effect is how many operands an instruction takes and leaves.
type effect struct{ pop, push int8 }

// stackEffect returns it for an instruction that is neither a call nor a block's. Where the
// table has none, it takes as many as it leaves.
func stackEffect(op Op) (pop, push int) {
	e := effects[op>>8&3][op&0xff]
	return int(e.pop), int(e.push)
}

// effects are by prefix (none, 0xfc, 0xfd and the others) and by number.
var effects = func() (t [4][256]effect) {
	set := func(from, to Op, pop, push int8) {
		for op := from; op <= to; op++ {
			t[op>>8&3][op&0xff] = effect{pop, push}
		}
	}
	for _, prefix := range []Op{0, 0xfc00, 0xfd00, 0xfe00} {
		set(prefix, prefix|0xff, 1, 1)
	}
	set(OpUnreachable, 0x01, 0, 0) // and nop
	set(OpBr, OpBr, 0, 0)
	set(OpBrIf, OpBrTable, 1, 0)
	set(OpReturn, OpReturn, 0, 0)
	set(0x1a, 0x1a, 1, 0) // drop
	set(0x1b, 0x1c, 3, 1) // select
	set(OpLocalGet, OpLocalGet, 0, 1)
	set(OpLocalSet, OpLocalSet, 1, 0)
	set(OpGlobalGet, OpGlobalGet, 0, 1)
	set(OpGlobalSet, OpGlobalSet, 1, 0)
	set(OpTableSet, OpTableSet, 2, 0)
	set(0x36, 0x3e, 2, 0) // stores
	set(OpMemorySize, OpMemorySize, 0, 1)
	set(OpI32Const, 0x44, 0, 1) // constants
	for _, binary := range [][2]Op{
		{0x46, 0x4f}, {0x51, 0x66}, // comparisons
		{0x6a, 0x78}, {0x7c, 0x8a}, {0x92, 0x98}, {0xa0, 0xa6}, // arithmetic
	} {
		set(binary[0], binary[1], 2, 1)
	}
	set(0xd0, 0xd0, 0, 1) // ref.null
	set(0xd2, 0xd2, 0, 1) // ref.func
	set(OpMemoryInit, OpTableFill, 3, 0)
	set(OpDataDrop, OpDataDrop, 0, 0)
	set(0xfc0d, 0xfc0d, 0, 0) // elem.drop
	set(OpTableGrow, OpTableGrow, 2, 1)
	set(0xfc10, 0xfc10, 0, 1) // table.size
	set(0xfd0b, 0xfd0b, 2, 0) // v128.store
	set(0xfd0c, 0xfd0c, 0, 1) // v128.const
	for _, binary := range [][2]Op{
		{0xfd0d, 0xfd0e}, {0xfd17, 0xfd17}, {0xfd1a, 0xfd1a}, {0xfd1c, 0xfd1c}, {0xfd1e, 0xfd1e}, {0xfd20, 0xfd20}, // shuffles, replaced lanes
		{0xfd22, 0xfd4c}, {0xfd4e, 0xfd51}, {0xfd54, 0xfd57}, // comparisons, logic, loaded lanes
		{0xfd65, 0xfd66}, {0xfd6b, 0xfd73}, {0xfd76, 0xfd79}, {0xfd7b, 0xfd7b}, // of bytes
		{0xfd82, 0xfd82}, {0xfd85, 0xfd86}, {0xfd8b, 0xfd93}, {0xfd95, 0xfd9f}, // of 16 bits
		{0xfdab, 0xfdbf}, {0xfdcb, 0xfddf}, {0xfde4, 0xfdeb}, {0xfdf0, 0xfdf7}, // of 32 and 64 bits
	} {
		set(binary[0], binary[1], 2, 1)
	}
	set(0xfd52, 0xfd52, 3, 1) // v128.bitselect
	set(0xfd58, 0xfd5b, 2, 0) // stored lanes
	return t
}()
