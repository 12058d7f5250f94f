package wire

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
)

// The bounds of one msgpack value that a peer sends. What exceeds them is garbage.
const (
	// MaxMessage is the most bytes of a response's body: a few thousand allocations with
	// their jobs.
	MaxMessage = 32 << 20
	// MaxAsk is the most bytes of what a server asks, and of each value that it sends in a
	// streaming request.
	MaxAsk = 4 << 20
	// maxHeader is the most bytes of a header: a method's name, or an error's text.
	maxHeader = 64 << 10
	// maxDepth is how deep values are nested: what is deeper servers do not read themselves, so
	// that nobody's job has it, whatever its configuration.
	maxDepth = 1024
	// perValue is how many bytes of its bound each value within one has at least: a value costs
	// memory that its own bytes do not tell of.
	perValue = 16
)

// readValue reads the bytes of one value, of at most limit. It reads no further. What is
// announced is only kept room for as it comes.
func readValue(r *bufio.Reader, limit int) ([]byte, error) { return readInto(nil, r, limit) }

// readInto reads a value as readValue does, of which each byte has a place in a room. What is
// returned has its places until it is given back, an error has none.
func readInto(in *room, r *bufio.Reader, limit int) ([]byte, error) {
	v := valueReader{r: r, limit: limit, in: in}
	if err := v.read(); err != nil {
		in.give(v.taken)
		if len(v.raw) > 0 && err == io.EOF { //nolint:errorlint // of io.ReadFull, as it is
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	in.give(v.taken - len(v.raw))
	return v.raw, nil
}

// measure returns where the value ends that raw starts with.
func measure(raw []byte, limit int) (end int, err error) {
	value, err := readValue(bufio.NewReader(bytes.NewReader(raw)), limit)
	return len(value), err
}

type valueReader struct {
	r     *bufio.Reader
	limit int
	raw   []byte
	in    *room
	taken int // of the room
}

// read reads a value with all that is in it. A container on the stack has its number of
// values that are still to come.
func (v *valueReader) read() error {
	var stack []uint64
	for seen := 1; ; seen++ {
		if seen > v.limit/perValue {
			return fmt.Errorf("%w: more than %d values in one", ErrGarbage, v.limit/perValue)
		}
		within, err := v.one()
		if err != nil {
			return err
		}
		if within > 0 {
			if len(stack) == maxDepth {
				return fmt.Errorf("%w: values are nested more than %d deep", ErrGarbage, maxDepth)
			}
			stack = append(stack, within)
			continue
		}
		for len(stack) > 0 {
			if stack[len(stack)-1]--; stack[len(stack)-1] > 0 {
				break
			}
			stack = stack[:len(stack)-1]
		}
		if len(stack) == 0 {
			return nil
		}
	}
}

// one reads a value without those within, and returns how many they are.
func (v *valueReader) one() (within uint64, err error) {
	b, err := v.take(1)
	if err != nil {
		return 0, err
	}
	c := b[0]
	switch {
	case c <= 0x7f, c >= 0xe0, c == 0xc0, c == 0xc2, c == 0xc3:
		return 0, nil
	case c <= 0x8f:
		return 2 * uint64(c&0x0f), nil
	case c <= 0x9f:
		return uint64(c & 0x0f), nil
	case c <= 0xbf:
		_, err := v.take(uint64(c & 0x1f))
		return 0, err
	case c == 0xc1:
		return 0, fmt.Errorf("%w: a byte 0xc1, which no value starts with", ErrGarbage)
	}
	f := forms[c-0xc4]
	n := uint64(f.fixed)
	if f.length > 0 {
		size, err := v.take(uint64(f.length))
		if err != nil {
			return 0, err
		}
		var wide [8]byte
		copy(wide[8-len(size):], size)
		if f.within > 0 {
			return uint64(f.within) * binary.BigEndian.Uint64(wide[:]), nil
		}
		n += binary.BigEndian.Uint64(wide[:])
	}
	_, err = v.take(n)
	return 0, err
}

// A form is how a value goes on after its first byte: a length of so many bytes, which
// counts the values within for containers and else bytes, and so many bytes in any case.
type form struct{ length, fixed, within int }

// forms are those of the first bytes from 0xc4 to 0xdf.
var forms = [...]form{
	{length: 1}, {length: 2}, {length: 4}, // bytes
	{length: 1, fixed: 1}, {length: 2, fixed: 1}, {length: 4, fixed: 1}, // extensions
	{fixed: 4}, {fixed: 8}, // floats
	{fixed: 1}, {fixed: 2}, {fixed: 4}, {fixed: 8}, // unsigned
	{fixed: 1}, {fixed: 2}, {fixed: 4}, {fixed: 8}, // signed
	{fixed: 2}, {fixed: 3}, {fixed: 5}, {fixed: 9}, {fixed: 17}, // extensions of fixed sizes
	{length: 1}, {length: 2}, {length: 4}, // strings
	{length: 2, within: 1}, {length: 4, within: 1}, // lists
	{length: 2, within: 2}, {length: 4, within: 2}, // maps
}

// step is how much room is made before what fills it has come.
const step = 64 << 10

// take reads the next n bytes and returns them, valid until the next take.
func (v *valueReader) take(n uint64) ([]byte, error) {
	if n > uint64(v.limit-len(v.raw)) {
		return nil, fmt.Errorf("%w: a value of more than %d bytes", ErrGarbage, v.limit)
	}
	start := len(v.raw)
	for left := int(n); left > 0; {
		part := min(left, step)
		if !v.in.take(part) {
			return nil, errNoRoom
		}
		v.taken += part
		at := len(v.raw)
		v.raw = append(v.raw, make([]byte, part)...)
		if got, err := io.ReadFull(v.r, v.raw[at:]); err != nil {
			v.raw = v.raw[:at+got]
			return nil, err
		}
		left -= part
	}
	return v.raw[start:], nil
}
