package host

import (
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"sync"
)

// maxDecodedBytes bounds the memory that a decoded message of a guest's takes, by a
// count that errs upwards: the figures of 4,096 devices take half of it.
const maxDecodedBytes = 32 << 20

// decode decodes a message that a guest wrote. An element of two bytes can take a
// hundred once it is decoded, so that the memory is counted before any is taken.
func decode(wire []byte, m Message) error {
	budget := maxDecodedBytes
	if err := layoutOf(reflect.TypeOf(m).Elem()).spend(wire, &budget); err != nil {
		return err
	}
	return m.UnmarshalVT(wire)
}

var (
	errNoMessage = errors.New("not a message")
	errEntry     = errors.New("not a message: a map's entry has a field of another type")
	errTooMuch   = fmt.Errorf("it would take more than %d MiB of memory", maxDecodedBytes>>20)
)

// layout is what a message of the contract takes as a Go value.
type layout struct {
	fields map[uint32]element // by number
	// entry: it is that of a map. The decoder takes the fields of those for what they should
	// be, whatever their tags say.
	entry bool
}

// element is one occurrence of a field.
type element struct {
	bytes   int     // that it takes for itself
	perByte int     // and for each byte that it has on the wire
	message *layout // nil: it is not a message
	// wireType is that of a map's key or value. The contract has none of fixed size.
	wireType uint64
}

// unnumbered is an occurrence of a field without a number of its own in a struct: the
// case of a oneof, which is boxed, or one that the contract does not have, which is kept.
var unnumbered = element{bytes: 32, perByte: growth}

var (
	layoutsMu sync.Mutex
	layouts   = map[reflect.Type]*layout{}
)

// layoutOf returns the layout of a generated struct.
func layoutOf(t reflect.Type) *layout {
	layoutsMu.Lock()
	defer layoutsMu.Unlock()
	return describeLayout(t)
}

// describeLayout reads the numbers of the fields from the tags of the generated struct.
// Cases of a oneof have none there, and are not messages in this contract. The caller
// holds layoutsMu.
func describeLayout(t reflect.Type) *layout {
	if l := layouts[t]; l != nil {
		return l
	}
	l := &layout{fields: map[uint32]element{}}
	layouts[t] = l
	for i := range t.NumField() {
		f := t.Field(i)
		if number, ok := fieldNumber(f.Tag.Get("protobuf")); ok {
			l.fields[number] = describeField(f.Type)
		}
	}
	return l
}

// fieldNumber is the second part of a tag such as "bytes,2,rep,name=devices,proto3".
func fieldNumber(tag string) (uint32, bool) {
	parts := strings.Split(tag, ",")
	if len(parts) < 2 {
		return 0, false
	}
	number, err := strconv.ParseUint(parts[1], 10, 32)
	return uint32(number), err == nil
}

// A list grows by copying, so that its places count twice; a map has room for twice its
// entries, and a byte of bookkeeping for each.
const (
	growth     = 2
	allocation = 16 // at most so much is lost to rounding up, below 128 bytes
)

func describeField(t reflect.Type) element {
	switch {
	case t.Kind() == reflect.Map:
		return describeMap(t)
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8:
		return element{bytes: allocation, perByte: 1, wireType: lengthDelimited}
	case t.Kind() == reflect.Slice:
		e := describeField(t.Elem())
		if t.Elem().Kind() != reflect.Pointer && t.Elem().Kind() != reflect.String {
			e.perByte = growth * int(t.Elem().Size()) // packed: each byte may be a number
		}
		e.bytes += growth * int(t.Elem().Size())
		return e
	case t.Kind() == reflect.Pointer && t.Elem().Kind() == reflect.Struct:
		return element{bytes: int(t.Elem().Size()) + allocation, message: describeLayout(t.Elem()), wireType: lengthDelimited}
	case t.Kind() == reflect.String:
		return element{bytes: allocation, perByte: 1, wireType: lengthDelimited}
	}
	return element{wireType: varint}
}

// describeMap describes an entry, which is a message on the wire: the key is its field
// 1, the value its field 2.
func describeMap(t reflect.Type) element {
	key, value := describeField(t.Key()), describeField(t.Elem())
	place := growth * int(t.Key().Size()+t.Elem().Size()+1)
	if value.message != nil {
		place += value.bytes // an entry without a value gets an empty one
	}
	return element{bytes: place, message: &layout{fields: map[uint32]element{1: key, 2: value}, entry: true}}
}

// spend takes what an encoded message would need off the budget.
func (l *layout) spend(wire []byte, budget *int) error {
	for len(wire) > 0 {
		tag, n := binary.Uvarint(wire)
		if n <= 0 {
			return errNoMessage
		}
		e, known := l.fields[uint32(tag>>3)] // as the decoder cuts it
		switch {
		case !known:
			e = unnumbered
		case l.entry && tag&7 != e.wireType:
			return errEntry
		}
		whole, content, err := occurrence(wire[n:], tag&7)
		if err != nil {
			return err
		}
		wire = wire[n+whole:]
		if *budget -= e.bytes + e.perByte*(n+whole); *budget < 0 {
			return errTooMuch
		}
		if e.message != nil {
			if err := e.message.spend(content, budget); err != nil {
				return err
			}
		}
	}
	return nil
}

// The wire types of numbers, and of what has its length before it.
const (
	varint          = 0
	lengthDelimited = 2
)

// occurrence returns how long a field's content is, with its length if it has one, and
// the content of one that has.
func occurrence(wire []byte, wireType uint64) (whole int, content []byte, err error) {
	switch wireType {
	case varint:
		_, whole = binary.Uvarint(wire)
	case 1:
		whole = 8
	case 5:
		whole = 4
	case lengthDelimited:
		length, n := binary.Uvarint(wire)
		if n <= 0 || length > uint64(len(wire)-n) {
			return 0, nil, errNoMessage
		}
		return n + int(length), wire[n : n+int(length)], nil
	}
	if whole <= 0 || whole > len(wire) {
		return 0, nil, errNoMessage
	}
	return whole, nil, nil
}
