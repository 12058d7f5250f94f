// Package protowire is what the generated messages need at run time: varints, sizes,
// and how to skip a field. It takes the place of the generator's own runtime, which
// pulls in fmt and makes every plugin half a megabyte larger.
package protowire

import (
	"errors"
	"io"
	"math/bits"
	"strconv"
)

// ErrInvalidLength is a length that is negative or does not fit into an int.
var ErrInvalidLength = errors.New("proto: invalid length")

var errOverflow = errors.New("proto: integer overflow")

// CloneMessage is what a message's clone is to code that does not know its type.
type CloneMessage interface{ CloneMessageVT() CloneMessage }

// Errorf knows the one verb that generated code uses, %d, and no other.
func Errorf(format string, args ...any) error {
	var text []byte
	for i := 0; i < len(format); i++ {
		if format[i] == '%' && i+1 < len(format) && format[i+1] == 'd' && len(args) > 0 {
			text = appendNumber(text, args[0])
			args = args[1:]
			i++
			continue
		}
		text = append(text, format[i])
	}
	return errors.New(string(text))
}

func appendNumber(b []byte, n any) []byte {
	switch n := n.(type) {
	case int:
		return strconv.AppendInt(b, int64(n), 10)
	case int32:
		return strconv.AppendInt(b, int64(n), 10)
	case uint64:
		return strconv.AppendUint(b, n, 10)
	default:
		return append(b, '?')
	}
}

// DecodeVarint reads a varint of at most ten bytes at b[i:] and returns where it ends.
func DecodeVarint(b []byte, i int) (v uint64, end int, err error) {
	for shift := uint(0); shift < 70; shift += 7 {
		if i < 0 || i >= len(b) {
			return 0, i, io.ErrUnexpectedEOF
		}
		c := b[i]
		i++
		if shift == 63 && c > 1 {
			break
		}
		v |= uint64(c&0x7f) << shift
		if c < 0x80 {
			return v, i, nil
		}
	}
	return 0, i, errOverflow
}

// DecodeVarintInt32 is [DecodeVarint] cut to its lower half.
func DecodeVarintInt32(b []byte, i int) (int32, int, error) {
	v, end, err := DecodeVarint(b, i)
	return int32(v), end, err
}

// DecodeVarintUint32 is [DecodeVarint] cut to its lower half.
func DecodeVarintUint32(b []byte, i int) (uint32, int, error) {
	v, end, err := DecodeVarint(b, i)
	return uint32(v), end, err
}

// DecodeVarintInt64 is [DecodeVarint] as a signed number.
func DecodeVarintInt64(b []byte, i int) (int64, int, error) {
	v, end, err := DecodeVarint(b, i)
	return int64(v), end, err
}

// DecodeFixed64 reads eight bytes at b[i:], the lowest first.
func DecodeFixed64(b []byte, i int) (v uint64, end int, err error) {
	if i < 0 || len(b)-i < 8 {
		return 0, i, io.ErrUnexpectedEOF
	}
	for k := 7; k >= 0; k-- {
		v = v<<8 | uint64(b[i+k])
	}
	return v, i + 8, nil
}

// SizeOfVarint is the number of bytes of v as a varint.
func SizeOfVarint(v uint64) int { return (bits.Len64(v|1) + 6) / 7 }

// EncodeVarint writes v so that it ends before b[offset] and returns where it begins.
func EncodeVarint(b []byte, offset int, v uint64) int {
	offset -= SizeOfVarint(v)
	i := offset
	for ; v >= 0x80; v >>= 7 {
		b[i] = byte(v) | 0x80
		i++
	}
	b[i] = byte(v)
	return offset
}

// maxGroups bounds how deep deprecated groups may lie in each other.
const maxGroups = 100

// Skip returns the length of the field that b begins with.
func Skip(b []byte) (n int, err error) {
	i := 0
	for depth := 0; ; {
		tag, end, err := DecodeVarint(b, i)
		if err != nil {
			return 0, err
		}
		i = end
		switch tag & 7 {
		case 0:
			if _, i, err = DecodeVarint(b, i); err != nil {
				return 0, err
			}
		case 1:
			i += 8
		case 2:
			size, end, err := DecodeVarint(b, i)
			if err != nil {
				return 0, err
			}
			if size > uint64(len(b)-end) {
				return 0, io.ErrUnexpectedEOF
			}
			i = end + int(size)
		case 3:
			if depth++; depth > maxGroups {
				return 0, errors.New("proto: groups nested too deep")
			}
		case 4:
			if depth--; depth < 0 {
				return 0, errors.New("proto: unexpected end of group")
			}
		case 5:
			i += 4
		default:
			return 0, Errorf("proto: illegal wireType %d", int(tag&7))
		}
		if i > len(b) {
			return 0, io.ErrUnexpectedEOF
		}
		if depth == 0 {
			return i, nil
		}
	}
}
