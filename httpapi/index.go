package httpapi

import (
	"encoding/json"
	"reflect"
	"strconv"

	nomad "github.com/hashicorp/nomad/api"
)

// Nomad's servers tell in the body of many answers at which index it was true, as "Index", and
// its client's types, which are rendered here, call that LastIndex and never read it.

// stamp gives a read's answer its index and that somebody leads, where its type has that.
func stamp(body any, index uint64) {
	if m, ok := field(body, "QueryMeta").(*nomad.QueryMeta); ok {
		m.LastIndex, m.KnownLeader = max(m.LastIndex, index), true
	}
}

// toldIndex is the index that a body has by its client's name; 0: none.
func toldIndex(body any) uint64 {
	if m, ok := field(body, "QueryMeta").(*nomad.QueryMeta); ok {
		return m.LastIndex
	}
	if m, ok := field(body, "WriteMeta").(*nomad.WriteMeta); ok {
		return m.LastIndex
	}
	return 0
}

// field points at what a struct embeds by a name; nil: nothing.
func field(body any, name string) any {
	v := reflect.ValueOf(body)
	if v.Kind() != reflect.Pointer || v.Elem().Kind() != reflect.Struct {
		return nil
	}
	f := v.Elem().FieldByName(name)
	if !f.IsValid() {
		return nil
	}
	return f.Addr().Interface()
}

// withIndex puts the index into an encoded object by its servers' name.
func withIndex(object []byte, index uint64) []byte {
	begin := strconv.AppendUint([]byte(`{"Index":`), index, 10)
	return append(append(begin, ','), object[1:]...)
}

// indexed is a write's answer with an index in its body alone: its client's type has none, or
// the header is to have none. It is an object with at least one field.
type indexed struct {
	body  any
	index uint64
}

// MarshalJSON implements [json.Marshaler].
func (i indexed) MarshalJSON() ([]byte, error) {
	b, err := json.Marshal(i.body)
	if err != nil {
		return nil, err
	}
	return withIndex(b, i.index), nil
}
