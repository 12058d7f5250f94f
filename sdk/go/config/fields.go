package config

import (
	"math"
	"strconv"
	"time"
)

// Fields are those of a block, which a function declares one after the other: each with the
// variable that it is read into, its name in the job file, and what it is for in a sentence. What a
// declaration returns says more of the field. They belong to one call of that function.
type Fields struct {
	schema bool // the schema is made; else a block is read
	from   Value
	list   []*field
	fault  *FieldError // the first that is wrong with what is read
}

// String declares name = "…".
func (f *Fields) String(into *string, name, doc string) *Declaration[string] {
	x := f.add(into, name, doc, kindText)
	x.read(String, func(v Value) { *into = v.text })
	return &Declaration[string]{x, into, AppendText}
}

// Bool declares name = true.
func (f *Fields) Bool(into *bool, name, doc string) *Declaration[bool] {
	x := f.add(into, name, doc, kindTruth)
	x.read(Bool, func(v Value) { *into = v.Bool() })
	return &Declaration[bool]{x, into, strconv.AppendBool}
}

// Int declares a whole number. A schema has no bounds for those of 64 bits: that one is out of range
// is said by [Struct.Decode].
func (f *Fields) Int(into *int64, name, doc string) *Declaration[int64] {
	x := f.add(into, name, doc, kindWhole)
	x.read(Number, func(v Value) {
		n, fault := v.whole()
		*into = n
		x.fail(fault)
	})
	return &Declaration[int64]{x, into, func(text []byte, n int64) []byte { return strconv.AppendInt(text, n, 10) }}
}

// Float declares a number.
func (f *Fields) Float(into *float64, name, doc string) *Declaration[float64] {
	x := f.add(into, name, doc, kindNumber)
	x.read(Number, func(v Value) { *into = v.Float() })
	return &Declaration[float64]{x, into, appendNumber}
}

// Duration declares a text such as "1m30s", or a number of nanoseconds; neither can be negative.
func (f *Fields) Duration(into *time.Duration, name, doc string) *Declaration[time.Duration] {
	x := f.add(into, name, doc, kindDuration)
	if x.value.IsSet() {
		d, err := x.value.Duration()
		if err != nil || d < 0 {
			x.fail(wrong(x.value, kindDuration.words))
		}
		*into = d
	}
	return &Declaration[time.Duration]{x, into, func(text []byte, d time.Duration) []byte { return AppendText(text, d.String()) }}
}

// Strings declares a list of strings. One that is given is not nil.
func (f *Fields) Strings(into *[]string, name, doc string) *Declaration[[]string] {
	x := f.add(into, name, doc, kindTexts)
	x.read(List, func(v Value) {
		*into = v.Texts()
		for i, item := range v.items {
			if item.kind != String {
				x.fail(wrong(item, kindText.words).item(i))
			}
		}
	})
	return &Declaration[[]string]{x, into, appendTexts}
}

// Map declares a map of strings: name = { key = "…" }. One that is given is not nil.
func (f *Fields) Map(into *map[string]string, name, doc string) *Declaration[map[string]string] {
	x := f.add(into, name, doc, kindMap)
	x.read(Object, func(v Value) {
		*into = v.Map()
		for _, member := range v.fields {
			if member.Value.kind != String {
				x.fail(wrong(member.Value, kindText.words).member(member.Name))
			}
		}
	})
	return &Declaration[map[string]string]{x, into, appendMap}
}

// Any declares a field that takes anything, which the driver looks at.
func (f *Fields) Any(into *Value, name, doc string) *Declaration[Value] {
	x := f.add(into, name, doc, kindAny)
	*into = x.value
	return &Declaration[Value]{x, into, func(text []byte, v Value) []byte { return v.appendJSON(text) }}
}

// Block declares name { … }, at most once. When it is left out, its fields have their defaults; it is
// required when one of them is.
func Block[T any](f *Fields, into *T, name, doc string, declare func(*T, *Fields)) {
	x := f.add(into, name, doc, kindBlock)
	if inner := describe(f, declare); inner != nil {
		x.own = inner.object(x.own)
		if x.required = inner.needs(); !x.required {
			x.say(`"default":`, []byte("{}"))
		}
		return
	}
	v := x.value
	if !v.IsSet() {
		v = Value{kind: Object}
	}
	x.fail(read(v, into, declare))
}

// OptionalBlock declares name { … }, at most once; nil when it is left out.
func OptionalBlock[T any](f *Fields, into **T, name, doc string, declare func(*T, *Fields)) *Declaration[*T] {
	x := f.add(into, name, doc, kindBlock)
	if inner := describe(f, declare); inner != nil {
		x.own = inner.object(x.own)
	} else if x.value.IsSet() {
		*into = new(T)
		x.fail(read(x.value, *into, declare))
	}
	return &Declaration[*T]{x, into, nil}
}

// Blocks declares name { … }, any number of times.
func Blocks[T any](f *Fields, into *[]T, name, doc string, declare func(*T, *Fields)) *Declaration[[]T] {
	x := f.add(into, name, doc, kindBlocks)
	if inner := describe(f, declare); inner != nil {
		x.inner = inner.object(nil)
	}
	x.read(List, func(v Value) {
		*into = make([]T, len(v.items))
		for i, item := range v.items {
			if fault := read(item, &(*into)[i], declare); fault != nil {
				x.fail(fault.item(i))
			}
		}
	})
	return &Declaration[[]T]{x, into, nil}
}

// LabelledBlocks declares name "label" { … }, any number of times.
func LabelledBlocks[T any](f *Fields, into *map[string]T, name, doc string, declare func(*T, *Fields)) *Declaration[map[string]T] {
	x := f.add(into, name, doc, kindLabelled)
	if inner := describe(f, declare); inner != nil {
		x.inner = inner.object(nil)
	}
	x.read(Object, func(v Value) {
		*into = make(map[string]T, len(v.fields))
		for _, labelled := range v.fields {
			var block T
			if fault := read(labelled.Value, &block, declare); fault != nil {
				x.fail(fault.member(labelled.Name))
			}
			(*into)[labelled.Name] = block
		}
	})
	return &Declaration[map[string]T]{x, into, nil}
}

// describe has a block of a schema declare its fields; nil when none is made.
func describe[T any](f *Fields, declare func(*T, *Fields)) *Fields {
	if !f.schema {
		return nil
	}
	inner := &Fields{schema: true}
	run(inner, new(T), declare)
	return inner
}

// whole is a number without a fraction. One with an exponent or a point has to be exact.
func (v Value) whole() (int64, *FieldError) {
	n, err := strconv.ParseInt(v.text, 10, 64)
	if err == nil {
		return n, nil
	}
	const exact = 1 << 53 // up to there a float64 has every whole number
	switch f := v.Float(); {
	case f != math.Trunc(f):
		return 0, wrong(v, kindWhole.words)
	case math.Abs(f) > exact:
		return 0, &FieldError{Problem: "the number is out of range"}
	default:
		return int64(f), nil
	}
}
