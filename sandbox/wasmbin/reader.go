package wasmbin

import (
	"fmt"
	"strconv"
	"unicode/utf8"
)

// Reader reads numbers and byte strings from a part of a module. The first
// failure stays: from then on every read returns zero and [Reader.Err] returns
// what happened, so that a decoder checks once for each item and not once for
// each byte. Its results share the module's memory.
type Reader struct {
	b     []byte // the module up to this part's end
	pos   int    // the next byte, from the module's start
	where string
	item  int   // the function's number, -1 where there is none
	short error // the kind of failure when the bytes do not suffice
	err   *Error
}

// NewReader reads all of b, which is called where in errors.
func NewReader(b []byte, where string) *Reader {
	r := newReader(b, 0, len(b), where)
	return &r
}

// newReader reads module[from:to]. A part that announces more than it has is
// malformed; only the module itself can be truncated.
func newReader(module []byte, from, to int, where string) Reader {
	return Reader{b: module[:to:to], pos: from, where: where, item: -1, short: ErrMalformed}
}

// Err returns the first failure, or nil.
func (r *Reader) Err() error {
	if r.err == nil {
		return nil
	}
	return r.err
}

// Remaining returns the number of bytes that are left, 0 after a failure.
func (r *Reader) Remaining() int { return len(r.b) - r.pos }

func (r *Reader) more() bool { return r.pos < len(r.b) }

// fail records a failure at the given offset, unless there is one already.
func (r *Reader) fail(at int, kind error, format string, args ...any) {
	if r.err != nil {
		return
	}
	where := r.where
	if r.item >= 0 {
		where += " " + strconv.Itoa(r.item)
	}
	r.err = &Error{Offset: at, Where: where, Kind: kind, What: fmt.Sprintf(format, args...)}
	r.pos = len(r.b)
}

func (r *Reader) malformed(at int, format string, args ...any) {
	r.fail(at, ErrMalformed, format, args...)
}

func (r *Reader) unsupported(at int, feature string) {
	r.fail(at, ErrUnsupported, "%s is not supported", feature)
}

// Byte reads one byte.
func (r *Reader) Byte() byte {
	if r.pos >= len(r.b) {
		r.fail(r.pos, r.short, "unexpected end")
		return 0
	}
	r.pos++
	return r.b[r.pos-1]
}

// Bytes reads the n bytes of what is called what.
func (r *Reader) Bytes(n uint32, what string) []byte {
	if uint64(n) > uint64(r.Remaining()) {
		r.fail(r.pos, r.short, "%s of %d bytes exceeds the %d bytes that remain", what, n, r.Remaining())
		return nil
	}
	r.pos += int(n)
	return r.b[r.pos-int(n) : r.pos : r.pos]
}

// U32 reads an unsigned LEB128 number of 32 bits.
func (r *Reader) U32() uint32 {
	if r.pos < len(r.b) && r.b[r.pos] < 0x80 {
		r.pos++
		return uint32(r.b[r.pos-1])
	}
	return r.longU32()
}

func (r *Reader) longU32() uint32 {
	const bits = 32
	at, v := r.pos, uint32(0)
	for shift := 0; ; shift += 7 {
		c := r.Byte()
		if r.err != nil {
			return 0
		}
		if rest := bits - shift; rest <= 7 {
			if c&0x80 != 0 || rest < 7 && c>>rest != 0 {
				r.malformed(at, "number does not fit %d bits", bits)
				return 0
			}
		}
		v |= uint32(c&0x7f) << shift
		if c&0x80 == 0 {
			return v
		}
	}
}

// S32 reads a signed LEB128 number of 32 bits.
func (r *Reader) S32() int64 { return r.signed(32) }

// S33 reads a signed LEB128 number of 33 bits: a block type or a heap type.
func (r *Reader) S33() int64 { return r.signed(33) }

// S64 reads a signed LEB128 number of 64 bits.
func (r *Reader) S64() int64 { return r.signed(64) }

func (r *Reader) signed(bits uint) int64 {
	at, v := r.pos, int64(0)
	for shift := uint(0); ; shift += 7 {
		c := r.Byte()
		if r.err != nil {
			return 0
		}
		if c&0x80 != 0 {
			if shift+7 >= bits {
				r.malformed(at, "number does not fit %d bits", bits)
				return 0
			}
			v |= int64(c&0x7f) << shift
			continue
		}
		last := int64(int8(c<<1) >> 1) // seven bits and their sign
		if rest := bits - shift; rest < 7 && (last < -1<<(rest-1) || last >= 1<<(rest-1)) {
			r.malformed(at, "number does not fit %d bits", bits)
			return 0
		}
		return v | last<<shift
	}
}

// Count reads the count of a vector whose items take at least itemBytes bytes
// each, and refuses one that cannot be true or is above limit.
func (r *Reader) Count(itemBytes int, limit uint32, what string) int {
	at := r.pos
	n := r.U32()
	if r.err != nil {
		return 0
	}
	if uint64(n)*uint64(itemBytes) > uint64(r.Remaining()) {
		r.fail(at, r.short, "count %d exceeds the %d bytes that remain", n, r.Remaining())
		return 0
	}
	if n > limit {
		r.fail(at, ErrLimit, "%d %s, at most %d are allowed", n, what, limit)
		return 0
	}
	return int(n)
}

// Name reads a string, which must be UTF-8.
func (r *Reader) Name() []byte {
	at := r.pos
	b := r.Bytes(r.U32(), "name")
	if !utf8.Valid(b) {
		r.malformed(at, "name is not UTF-8")
		return nil
	}
	return b
}

// end refuses what is left over.
func (r *Reader) end() {
	if r.err == nil && r.more() {
		r.malformed(r.pos, "%d bytes left over", r.Remaining())
	}
}
