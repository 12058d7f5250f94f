package meter

import "github.com/wasmnode/wasmnode/sandbox/wasmbin"

const (
	// bulkShift is how many bytes of a memory instruction cost one unit: 256.
	bulkShift = 8

	// elementShift is the same for the elements of a table, of eight bytes each.
	elementShift = 5

	// pieceBytes is how much of a fill or copy is done between two charges. The
	// engine moves it in some microseconds; a whole memory would take a second.
	pieceBytes = 1 << 16

	// pageShift is that of a page's size.
	pageShift = 16
)

// bulk writes an instruction whose time depends on the number on top of the stack.
func (p *pass) bulk(op wasmbin.Op, raw []byte) {
	c := &p.code
	c.index(wasmbin.OpLocalTee, p.tmp)
	switch op {
	case wasmbin.OpMemoryFill, wasmbin.OpMemoryCopy:
		p.inPieces(op, raw)
		return
	case wasmbin.OpMemoryGrow:
		// A new page costs what filling it costs. The mask keeps the charge
		// positive: more pages than it lets through cannot be had.
		c.index(wasmbin.OpGlobalGet, p.fuel)
		c.locals(p.tmp)
		c.i32(1<<pageShift - 1)
		c.op(wasmbin.OpI32And)
		c.i32(pageShift - bulkShift)
		c.op(wasmbin.OpI32Shl)
		p.take(c)
	case wasmbin.OpMemoryInit:
		p.chargeLength(bulkShift)
	default:
		p.chargeLength(elementShift)
	}
	c.raw(raw)
}

// chargeLength charges the length in the added local, divided by 2^shift.
func (p *pass) chargeLength(shift int32) {
	c := &p.code
	c.index(wasmbin.OpGlobalGet, p.fuel)
	c.locals(p.tmp)
	c.i32(shift)
	c.op(wasmbin.OpI32ShrU)
	p.take(c)
}

// inPieces writes a fill or a copy: what is no longer than a piece where it is,
// and anything longer as a call of the function that does it in pieces.
func (p *pass) inPieces(op wasmbin.Op, raw []byte) {
	if p.pieces == nil {
		p.pieces = newPieces(p)
	}
	c := &p.code
	c.locals(p.tmp)
	c.i32(pieceBytes)
	c.op(wasmbin.OpI32GtU)
	c.index(wasmbin.OpIf, p.pieces.typ)
	c.index(wasmbin.OpCall, p.pieces.function(op))
	c.op(wasmbin.OpElse)
	p.chargeLength(bulkShift)
	c.raw(raw)
	c.op(wasmbin.OpEnd)
}

// pieces are the added functions that fill and copy in pieces. They do the same as
// the instructions, which do nothing at all when any part is out of bounds.
type pieces struct {
	p    *pass
	typ  uint32 // (i32, i32, i32) -> ()
	fill uint32 // 0 until needed; it cannot be the first function
	copy uint32
}

func newPieces(p *pass) *pieces {
	i := wasmbin.I32
	return &pieces{p: p, typ: p.edit.AddType(wasmbin.FuncType{Params: []wasmbin.ValType{i, i, i}})}
}

func (s *pieces) function(op wasmbin.Op) uint32 {
	if op == wasmbin.OpMemoryFill {
		if s.fill == 0 {
			s.fill = s.p.edit.AddFunc("memory.fill", s.typ, s.fillBody())
		}
		return s.fill
	}
	if s.copy == 0 {
		s.copy = s.p.edit.AddFunc("memory.copy", s.typ, s.copyBody())
	}
	return s.copy
}

// The parameters of both functions: destination, value or source, length.
const (
	dst = iota
	src
	length
)

var (
	memoryFill = []byte{0xfc, 11, 0}
	memoryCopy = []byte{0xfc, 10, 0, 0}
)

func (s *pieces) fillBody() []byte {
	c := &code{b: []byte{0}}
	s.trapIfOutside(c, dst, memoryFill)
	s.loop(c, func() {
		c.locals(dst, src)
		c.i32(pieceBytes)
		c.raw(memoryFill)
		step(c, wasmbin.OpI32Add, dst)
		step(c, wasmbin.OpI32Sub, length)
	})
	c.locals(dst, src, length)
	c.raw(memoryFill)
	c.op(wasmbin.OpEnd)
	return c.b
}

// copyBody copies upwards or downwards, so that no piece is overwritten before it
// has been read.
func (s *pieces) copyBody() []byte {
	c := &code{b: []byte{0}}
	s.trapIfOutside(c, dst, memoryCopy)
	s.trapIfOutside(c, src, memoryCopy)
	c.locals(dst, src)
	c.op(wasmbin.OpI32LeU, wasmbin.OpIf, blockEmpty)
	s.loop(c, func() {
		c.locals(dst, src)
		c.i32(pieceBytes)
		c.raw(memoryCopy)
		step(c, wasmbin.OpI32Add, dst)
		step(c, wasmbin.OpI32Add, src)
		step(c, wasmbin.OpI32Sub, length)
	})
	c.op(wasmbin.OpElse)
	s.loop(c, func() {
		step(c, wasmbin.OpI32Sub, length)
		c.locals(dst, length)
		c.op(wasmbin.OpI32Add)
		c.locals(src, length)
		c.op(wasmbin.OpI32Add)
		c.i32(pieceBytes)
		c.raw(memoryCopy)
	})
	c.op(wasmbin.OpEnd)
	c.locals(dst, src, length)
	c.raw(memoryCopy)
	c.op(wasmbin.OpEnd)
	return c.b
}

// step adds the size of a piece to a local, or subtracts it.
func step(c *code, op wasmbin.Op, local uint32) {
	c.locals(local)
	c.i32(pieceBytes)
	c.op(op)
	c.index(wasmbin.OpLocalSet, local)
}

// loop repeats body, which does one piece, while more than one is left.
func (s *pieces) loop(c *code, body func()) {
	c.op(wasmbin.OpLoop, blockEmpty)
	s.p.chargeIn(c, pieceBytes>>bulkShift)
	c.locals(length)
	c.i32(pieceBytes)
	c.op(wasmbin.OpI32GtU, wasmbin.OpIf, blockEmpty)
	body()
	c.index(wasmbin.OpBr, 1)
	c.op(wasmbin.OpEnd, wasmbin.OpEnd)
}

// trapIfOutside does the instruction at once, for it to trap, when the range at
// the given local ends beyond the memory.
func (s *pieces) trapIfOutside(c *code, at uint32, instruction []byte) {
	c.locals(at)
	c.op(wasmbin.OpI64ExtendI32U)
	c.locals(length)
	c.op(wasmbin.OpI64ExtendI32U, wasmbin.OpI64Add)
	c.raw([]byte{byte(wasmbin.OpMemorySize), 0})
	c.op(wasmbin.OpI64ExtendI32U)
	c.b = wasmbin.AppendSigned(append(c.b, byte(wasmbin.OpI64Const)), pageShift)
	c.op(wasmbin.OpI64Shl, wasmbin.OpI64GtU, wasmbin.OpIf, blockEmpty)
	c.locals(dst, src, length)
	c.raw(instruction)
	c.op(wasmbin.OpEnd)
}
