package sourceline

// unit is a line table: a header, which names files, and a program, which makes rows.
type unit struct {
	at, end int // in the section
	version uint16
	wide    bool   // offsets have 8 bytes
	files   []byte // the part of the header that names directories and files
	program []byte

	least             byte // how many bytes an instruction has at least
	lineBase          int8
	lineRange, opBase byte
	operands          []byte // how many each standard opcode has, from opcode 1 on
}

// readUnit reads the header of the table that is at a place, but for its files.
func readUnit(section []byte, at int) (u unit, ok bool) {
	r := reader{b: section, pos: at}
	u.at = at
	size := uint64(r.u32())
	if size == 0xffffffff {
		size, u.wide = r.u64(), true
	}
	if r.bad || size > uint64(len(section)-r.pos) {
		return u, false
	}
	u.end = r.pos + int(size)
	r.b = section[:u.end]
	if u.version = r.u16(); u.version == 5 {
		r.u16() // the sizes of an address and of a segment
	}
	length := r.offset(u.wide)
	if r.bad || u.version < 2 || u.version > 5 || length > uint64(len(r.b)-r.pos) {
		return u, false
	}
	u.program = r.b[r.pos+int(length):]
	r.b = r.b[:r.pos+int(length)]
	u.least = r.u8()
	if u.version >= 4 {
		r.u8() // how many operations an instruction has: one
	}
	r.u8() // whether a row begins a statement
	u.lineBase, u.lineRange, u.opBase = int8(r.u8()), r.u8(), r.u8()
	if r.bad || u.opBase == 0 || u.lineRange == 0 {
		return u, false
	}
	u.operands = r.bytes(uint64(u.opBase) - 1)
	u.files = r.b[r.pos:]
	return u, !r.bad
}

// state is what a program has made so far of its next row.
type state struct{ address, file, line uint64 }

// The opcodes that are of use here.
const (
	opExtended = iota
	opCopy
	opAdvancePC
	opAdvanceLine
	opSetFile
	opSetColumn
	opNegateStatement
	opBasicBlock
	opConstAddPC
	opFixedAdvancePC

	extendedEnd     = 1
	extendedAddress = 2
)

// run makes the rows of a table, and notes those that hold an address.
func (u *unit) run(addresses []uint32, places []place) {
	r := reader{b: u.program}
	s, row := state{file: 1, line: 1}, state{}
	emit := func() {
		note(addresses, places, &row, &s, u.at)
		row = s
	}
	for r.more() {
		op := r.u8()
		switch {
		case op >= u.opBase:
			op -= u.opBase
			s.address += uint64(op/u.lineRange) * uint64(u.least)
			s.line += uint64(int64(u.lineBase) + int64(op%u.lineRange))
			emit()
		case op == opExtended:
			if u.extended(&r, &s, emit) {
				s, row = state{file: 1, line: 1}, state{}
			}
		case op == opCopy:
			emit()
		case op == opAdvancePC:
			s.address += r.unsigned() * uint64(u.least)
		case op == opAdvanceLine:
			s.line += uint64(r.signed())
		case op == opSetFile:
			s.file = r.unsigned()
		case op == opConstAddPC:
			s.address += uint64((255-u.opBase)/u.lineRange) * uint64(u.least)
		case op == opFixedAdvancePC:
			s.address += uint64(r.u16())
		default: // also those of a later version
			for range u.operands[op-1] {
				r.unsigned()
			}
		}
	}
}

// extended does an opcode that tells its length, and reports whether it ended a sequence of rows.
func (u *unit) extended(r *reader, s *state, emit func()) bool {
	body := reader{b: r.bytes(r.unsigned())}
	switch body.u8() {
	case extendedEnd:
		emit()
		return true
	case extendedAddress:
		switch len(body.b) - body.pos {
		case 4:
			s.address = uint64(body.u32())
		case 8:
			s.address = body.u64()
		}
	}
	return false
}
