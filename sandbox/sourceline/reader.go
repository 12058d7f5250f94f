package sourceline

import "encoding/binary"

// reader reads what a guest wrote. After the first part that is not there all else is zero, and
// bad is set.
type reader struct {
	b   []byte
	pos int
	bad bool
}

func (r *reader) bytes(n uint64) []byte {
	if r.bad || n > uint64(len(r.b)-r.pos) {
		r.bad = true
		return nil
	}
	from := r.pos
	r.pos += int(n)
	return r.b[from:r.pos]
}

// more reports whether there is anything left.
func (r *reader) more() bool { return !r.bad && r.pos < len(r.b) }

func (r *reader) u8() byte {
	if b := r.bytes(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) u16() uint16 {
	if b := r.bytes(2); b != nil {
		return binary.LittleEndian.Uint16(b)
	}
	return 0
}

func (r *reader) u32() uint32 {
	if b := r.bytes(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (r *reader) u64() uint64 {
	if b := r.bytes(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

// offset reads a number of 8 bytes in the wide form, else of 4.
func (r *reader) offset(wide bool) uint64 {
	if wide {
		return r.u64()
	}
	return uint64(r.u32())
}

// unsigned reads a LEB128; bits beyond 64 are dropped.
func (r *reader) unsigned() uint64 {
	n, shift := uint64(0), 0
	for {
		b := r.u8()
		if shift < 64 {
			n |= uint64(b&0x7f) << shift
		}
		if shift += 7; b < 0x80 {
			return n
		}
	}
}

// signed reads a signed LEB128; bits beyond 64 are dropped.
func (r *reader) signed() int64 {
	n, shift := int64(0), 0
	for {
		b := r.u8()
		if shift < 64 {
			n |= int64(b&0x7f) << shift
		}
		if shift += 7; b < 0x80 {
			if shift < 64 && b&0x40 != 0 {
				n |= -1 << shift
			}
			return n
		}
	}
}

// text reads a text that a zero byte ends.
func (r *reader) text() []byte {
	from := r.pos
	for r.u8() != 0 {
	}
	if r.bad {
		return nil
	}
	return r.b[from : r.pos-1]
}
