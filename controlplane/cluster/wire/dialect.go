package wire

import (
	"fmt"
	"reflect"

	"github.com/hashicorp/go-msgpack/v2/codec"
)

// dialect is Nomad's msgpack: no extension types, strings and bytes alike, times as Go's
// binary form. Fields go by their Go names; json tags count for nothing.
var dialect = handle("codec")

// handle is that of msgpack whose fields go by a name that one of some tags gives them, or else by
// their Go names.
func handle(tags ...string) *codec.MsgpackHandle {
	h := &codec.MsgpackHandle{}
	h.RawToString = true
	h.MapType = reflect.TypeFor[map[string]any]()
	h.TimeNotBuiltin = true
	h.TypeInfos = codec.NewTypeInfos(tags)
	h.MaxDepth = maxDepth + 1
	return h
}

// Marshal returns a value as it stands on the wire.
func Marshal(v any) (raw []byte, err error) {
	defer recovered("encode", &err)
	err = codec.NewEncoderBytes(&raw, dialect).Encode(v)
	return raw, err
}

// Unmarshal reads one value, which must be within the bounds of a message and all that raw
// has. Fields that v does not have are left out. Safe for what a hostile peer has sent.
func Unmarshal(raw []byte, v any) error {
	end, err := measure(raw, MaxMessage)
	if err != nil {
		return err
	}
	if end != len(raw) {
		return fmt.Errorf("%w: %d bytes follow a value", ErrGarbage, len(raw)-end)
	}
	return decode(raw, v)
}

// decode reads a value whose bounds were looked at.
func decode(raw []byte, v any) error {
	if r, is := v.(*Raw); is {
		*r = raw
		return nil
	}
	return decodeBy(dialect, raw, v)
}

func decodeBy(h *codec.MsgpackHandle, raw []byte, v any) (err error) {
	defer recovered("decode", &err)
	if err := codec.NewDecoderBytes(raw, h).Decode(v); err != nil {
		return fmt.Errorf("%w: %w", ErrGarbage, err)
	}
	return nil
}

// recovered makes a panic of the codec, on what it has not foreseen, an error.
func recovered(what string, err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("%w: %s: %v", ErrGarbage, what, r)
	}
}
