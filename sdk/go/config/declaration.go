package config

import "math"

// Declaration is a declared field, of which its methods say more. They panic, while the schema is made,
// where a field of that type cannot have what they say.
type Declaration[T any] struct {
	*field
	into   *T
	append func([]byte, T) []byte // as JSON; nil: it has no default
}

// Required says that it has to be given.
func (x *Declaration[T]) Required() *Declaration[T] {
	x.required = true
	if !x.within.schema && !x.value.IsSet() {
		x.fail(&FieldError{Problem: "missing"})
	}
	return x
}

// Default says what it is when it is left out.
func (x *Declaration[T]) Default(value T) *Declaration[T] {
	x.need("Default", x.append != nil)
	if x.within.schema {
		x.say(`"default":`, x.append(nil, value))
	} else if !x.value.IsSet() {
		*x.into = value
	}
	return x
}

// Given has a variable say whether the job file gives it, where that makes a difference.
func (x *Declaration[T]) Given(given *bool) *Declaration[T] {
	x.given = given
	*given = x.value.IsSet()
	return x
}

// NotEmpty says that a text, or each text of a list or a map, has at least one character.
func (x *Declaration[T]) NotEmpty() *Declaration[T] {
	x.ofText("NotEmpty", `"minLength":`, []byte("1"))
	return x
}

// OneOf says which are the only values of a text, or of each text of a list or a map.
func (x *Declaration[T]) OneOf(values ...string) *Declaration[T] {
	x.ofText("OneOf", `"enum":`, appendTexts(nil, values))
	return x
}

// Pattern says which regular expression matches a text, or each text of a list or a map.
func (x *Declaration[T]) Pattern(expression string) *Declaration[T] {
	x.ofText("Pattern", `"pattern":`, AppendText(nil, expression))
	return x
}

// AtLeast is the least of a number, of a text's characters, or of how many a list has.
func (x *Declaration[T]) AtLeast(n float64) *Declaration[T] {
	x.bound("AtLeast", x.kind.least, n)
	return x
}

// AtMost is the most of the same.
func (x *Declaration[T]) AtMost(n float64) *Declaration[T] {
	x.bound("AtMost", x.kind.most, n)
	return x
}

// Unique says that nothing is in a list twice.
func (x *Declaration[T]) Unique() *Declaration[T] {
	x.need("Unique", x.kind.items == "items")
	x.say(`"uniqueItems":`, []byte("true"))
	return x
}

// Deprecated has the documentation say so.
func (x *Declaration[T]) Deprecated() *Declaration[T] {
	x.say(`"deprecated":`, []byte("true"))
	return x
}

// Secret says that what it holds is not to be shown: recordings of calls mask it.
func (x *Declaration[T]) Secret() *Declaration[T] {
	x.say(`"writeOnly":`, []byte("true"))
	return x
}

// field is what is known of a field whatever its type.
type field struct {
	within   *Fields
	kind     *kindOf
	name     string
	into     any   // where it is read into
	given    *bool // nil: nobody asks
	value    Value // what is read
	required bool

	own   []byte // the members of its schema
	inner []byte // those of the schema of what is in it
}

// add begins a field.
func (f *Fields) add(into any, name, doc string, kind *kindOf) *field {
	x := &field{within: f, kind: kind, name: name, into: into}
	if !f.schema {
		x.value = f.from.member(name)
		f.list = append(f.list, x)
		return x
	}
	if !isName(name) {
		panic("config: \"" + name + "\" is no name in HCL")
	}
	for _, other := range f.list {
		if other.name == name {
			panic("config: two fields are called " + name)
		}
	}
	f.list = append(f.list, x)
	x.own = append(x.own, kind.schema...)
	x.inner = append(x.inner, kind.inner...)
	if doc != "" {
		x.say(`"description":`, AppendText(nil, doc))
	}
	return x
}

// read reads what is given, when it is of the right kind. A null is what is not given, as in HCL.
func (x *field) read(kind Kind, into func(Value)) {
	switch {
	case !x.value.IsSet():
	case x.value.kind != kind:
		x.fail(wrong(x.value, x.kind.words))
	default:
		into(x.value)
	}
}

// fail keeps the first fault, if there is one.
func (x *field) fail(fault *FieldError) {
	if fault != nil && x.within.fault == nil {
		x.within.fault = fault.member(x.name)
	}
}

// need panics unless the field can have something.
func (x *field) need(what string, can bool) {
	if !can && x.within.schema {
		panic("config: the field " + x.name + " cannot have " + what)
	}
}

// say adds a member to the schema of the field.
func (x *field) say(member string, value []byte) {
	if x.within.schema {
		x.own = append(append(comma(x.own, len(x.own)), member...), value...)
	}
}

// ofText adds a member to the schema of a text, which the field is or which is in it.
func (x *field) ofText(what, member string, value []byte) {
	switch {
	case !x.within.schema:
	case x.kind == kindText:
		x.say(member, value)
	default:
		x.need(what, x.kind == kindTexts || x.kind == kindMap)
		x.inner = append(append(append(x.inner, ','), member...), value...)
	}
}

func (x *field) bound(what, member string, n float64) {
	x.need(what, member != "" && !math.IsNaN(n) && !math.IsInf(n, 0))
	x.say(`"`+member+`":`, appendNumber(nil, n))
}

// needs reports whether one of the fields is required.
func (f *Fields) needs() bool {
	for _, x := range f.list {
		if x.required {
			return true
		}
	}
	return false
}

// unknown finds what is given and not declared.
func (f *Fields) unknown() {
next:
	for _, member := range f.from.fields {
		for _, x := range f.list {
			if x.name == member.Name {
				continue next
			}
		}
		if f.fault == nil {
			f.fault = (&FieldError{Problem: "unknown field"}).member(member.Name)
		}
	}
}
