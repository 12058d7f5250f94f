package config

import (
	"errors"
	"math"
	"strconv"
	"time"
)

// Kind is the type of a JSON value.
type Kind uint8

// The kinds. A value that is not there is Missing, which is not Null.
const (
	Missing Kind = iota
	Null
	Bool
	Number
	String
	List
	Object
)

// Value is one JSON value. Its zero value is a missing one, which answers every
// question with zero; so does a value that is asked for another type than it has.
// Values are immutable and may be used concurrently.
type Value struct {
	kind   Kind
	text   string // of a String, a Number as it was written, a Bool as "true" or ""
	items  []Value
	fields []Field
}

// Field is one member of an object.
type Field struct {
	Name  string
	Value Value
}

// Kind returns the value's type.
func (v Value) Kind() Kind { return v.kind }

// IsSet reports whether the value is there and not null.
func (v Value) IsSet() bool { return v.kind != Missing && v.kind != Null }

// Get returns the member that path leads to, name by name. Of members with the same
// name the last one counts.
func (v Value) Get(path ...string) Value {
	for _, name := range path {
		v = v.member(name)
	}
	return v
}

func (v Value) member(name string) Value {
	for i := len(v.fields) - 1; i >= 0; i-- {
		if v.fields[i].Name == name {
			return v.fields[i].Value
		}
	}
	return Value{}
}

// Fields returns the members of an object in the order in which they were written.
func (v Value) Fields() []Field { return v.fields }

// Items returns the elements of a list.
func (v Value) Items() []Value { return v.items }

// Text returns a string's content.
func (v Value) Text() string {
	if v.kind == String {
		return v.text
	}
	return ""
}

// Texts returns the strings of a list.
func (v Value) Texts() []string {
	texts := make([]string, len(v.items))
	for i, item := range v.items {
		texts[i] = item.Text()
	}
	return texts
}

// Map returns the members of an object that are strings.
func (v Value) Map() map[string]string {
	m := make(map[string]string, len(v.fields))
	for _, f := range v.fields {
		if f.Value.kind == String {
			m[f.Name] = f.Value.text
		}
	}
	return m
}

// Bool returns a truth value.
func (v Value) Bool() bool { return v.kind == Bool && v.text != "" }

// Float returns a number, infinite when it is too large for a float64.
func (v Value) Float() float64 {
	if v.kind != Number {
		return 0
	}
	f, _ := strconv.ParseFloat(v.text, 64)
	return f
}

// Int returns a number cut to a whole one, and at the ends of the range of an int64.
func (v Value) Int() int64 {
	if v.kind != Number {
		return 0
	}
	if n, err := strconv.ParseInt(v.text, 10, 64); err == nil {
		return n
	}
	switch f := v.Float(); {
	case f >= math.MaxInt64:
		return math.MaxInt64
	case f <= math.MinInt64:
		return math.MinInt64
	default:
		return int64(f)
	}
}

// Duration returns a duration written as a string such as "1m30s" or as a number of
// nanoseconds; of a missing value 0.
//
// # Errors
//
// A string that is no duration, or a value of another type.
func (v Value) Duration() (time.Duration, error) {
	switch v.kind {
	case Missing, Null:
		return 0, nil
	case Number:
		return time.Duration(v.Int()), nil
	case String:
		return time.ParseDuration(v.text)
	default:
		return 0, errors.New(`not a duration: want a string such as "5s" or a number of nanoseconds`)
	}
}
