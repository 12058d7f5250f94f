package meter

import (
	"encoding/binary"
	"slices"

	"github.com/wasmnode/wasmnode/sandbox/wasmbin"
)

// Origins says where the code of a rewritten module is from. It keeps the module that was
// rewritten, and nothing else of its size: a function is rewritten again to answer. It is safe for
// concurrent use.
type Origins struct {
	m      *wasmbin.Module
	starts []uint32 // of the rewritten bodies
}

// origin is where an instruction begins in the rewritten body, and in the code section that was.
type origin struct{ now, was uint32 }

// Of returns the place of the instruction that a place in the rewritten code section belongs to, in
// the section as it was. Both are counted from the section's content on. What the meter added
// belongs to the instruction before it; it is false for what belongs to none.
func (o *Origins) Of(offset uint32) (was uint32, ok bool) {
	i, exact := slices.BinarySearch(o.starts, offset)
	if !exact {
		i--
	}
	if i < 0 {
		return 0, false
	}
	p := newPass(o.m)
	p.origins = make([]origin, 0, 64)
	if err := p.function(i); err != nil {
		return 0, false
	}
	within := offset - o.starts[i]
	if within >= uint32(len(p.code.b)) {
		return 0, false
	}
	n, exact := slices.BinarySearchFunc(p.origins, within, func(x origin, at uint32) int { return int(x.now) - int(at) })
	if !exact {
		n--
	}
	if n < 0 {
		return 0, false
	}
	return p.origins[n].was, true
}

// OffsetPrefix and OffsetSuffix are what a line of the engine's stack begins and ends with that
// tells where the function above it was: between them is the place, in hexadecimal.
const (
	OffsetPrefix = "0x"
	OffsetSuffix = ": " + tellerFile + ":1"
)

const tellerFile = "code"

// tellOffsets adds debug information of one line for all code. The engine tells a line of a stack
// with the place that it is of: that is what it is for. That of the module itself is of other code, and
// is not given to the engine.
func (p *pass) tellOffsets() {
	const first, size = 1, 0x7ffffff0
	p.edit.AddCustom(".debug_abbrev", []byte{
		1, 0x11, 0, // 1: a compilation unit without children
		0x10, 0x17, // its lines: an offset
		0x11, 0x01, // its first address
		0x12, 0x06, // how many there are, in four bytes
		0, 0, 0,
	})
	le := binary.LittleEndian
	info := le.AppendUint16(nil, 4) // the version
	info = le.AppendUint32(info, 0) // the abbreviations
	info = append(info, 4, 1)       // an address has four bytes; the unit
	info = le.AppendUint32(info, 0)
	info = le.AppendUint32(info, first)
	info = le.AppendUint32(info, size)
	p.edit.AddCustom(".debug_info", append(le.AppendUint32(nil, uint32(len(info))), info...))

	header := []byte{1, 1, 1, 0, 1, 10, 0, 1, 1, 1, 1, 0, 0, 0, 1, 0} // no directories
	header = append(append(header, tellerFile...), 0, 0, 0, 0, 0)
	program := le.AppendUint32([]byte{0, 5, 2}, first) // the address is the first
	program = append(program, 1)                       // a row: file 1, line 1
	program = le.AppendUint32(append(program, 0, 5, 2), first+size)
	program = append(program, 0, 1, 1) // the end
	line := le.AppendUint16(nil, 4)
	line = append(le.AppendUint32(line, uint32(len(header))), header...)
	line = append(line, program...)
	p.edit.AddCustom(".debug_line", append(le.AppendUint32(nil, uint32(len(line))), line...))
}
