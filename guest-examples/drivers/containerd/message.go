package main

import (
	"maps"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// message writes a message of Protocol Buffers, field by field, by the numbers that containerd's
// schema gives them. A field that is empty is left out.
type message struct{ b []byte }

func (m *message) raw(field protowire.Number, value []byte) {
	m.b = protowire.AppendBytes(protowire.AppendTag(m.b, field, protowire.BytesType), value)
}

func (m *message) text(field protowire.Number, value string) {
	if value != "" {
		m.raw(field, []byte(value))
	}
}

func (m *message) texts(field protowire.Number, values []string) {
	for _, v := range values {
		m.raw(field, []byte(v))
	}
}

func (m *message) texted(field protowire.Number, values map[string]string) {
	for _, k := range slices.Sorted(maps.Keys(values)) {
		var entry message
		entry.text(1, k)
		entry.text(2, values[k])
		m.raw(field, entry.b)
	}
}

func (m *message) number(field protowire.Number, value uint64) {
	if value != 0 {
		m.b = protowire.AppendVarint(protowire.AppendTag(m.b, field, protowire.VarintType), value)
	}
}

func (m *message) truth(field protowire.Number, value bool) {
	m.number(field, protowire.EncodeBool(value))
}

// any adds content of another schema, which has that name.
func (m *message) any(field protowire.Number, name string, content []byte) {
	var inside message
	inside.text(1, name)
	inside.raw(2, content)
	m.raw(field, inside.b)
}

// fields is a message that was received. What is not there, or of another type, is empty.
type fields []byte

// wellFormed reports whether a message can be read at all.
func (f fields) wellFormed() bool {
	for len(f) > 0 {
		_, _, n := protowire.ConsumeField(f)
		if n < 0 {
			return false
		}
		f = f[n:]
	}
	return true
}

// each hands over the values of one field.
func (f fields) each(field protowire.Number, kind protowire.Type, take func(value []byte)) {
	for len(f) > 0 {
		number, of, n := protowire.ConsumeTag(f)
		if n < 0 {
			return
		}
		size := protowire.ConsumeFieldValue(number, of, f[n:])
		if size < 0 {
			return
		}
		if number == field && of == kind {
			take(f[n : n+size])
		}
		f = f[n+size:]
	}
}

// all are the values of a field that there can be more of.
func (f fields) all(field protowire.Number) (values []fields) {
	f.each(field, protowire.BytesType, func(b []byte) {
		content, _ := protowire.ConsumeBytes(b)
		values = append(values, content)
	})
	return values
}

// get is a message in the message, that deep.
func (f fields) get(path ...protowire.Number) fields {
	for _, field := range path {
		found := f.all(field)
		if len(found) == 0 {
			return nil
		}
		f = found[len(found)-1]
	}
	return f
}

func (f fields) text(path ...protowire.Number) string { return string(f.get(path...)) }

// texted is a field that maps texts to texts.
func (f fields) texted(field protowire.Number) map[string]string {
	values := map[string]string{}
	for _, entry := range f.all(field) {
		values[entry.text(1)] = entry.text(2)
	}
	return values
}

// number is a number at a path.
func (f fields) number(path ...protowire.Number) (value uint64) {
	last := len(path) - 1
	f.get(path[:last]...).each(path[last], protowire.VarintType, func(b []byte) { value, _ = protowire.ConsumeVarint(b) })
	return value
}
