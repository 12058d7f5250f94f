package template

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
)

const (
	// maxParts bounds the parts of the values that a function is given, counted as often as they
	// can be come by: a list of ten lists of ten has 111.
	maxParts = 1 << 20
	// maxDepth bounds how deep values are nested, as in encoding/json: who goes through them, does
	// so on the stack.
	maxDepth = 10_000
)

var (
	errParts = fmt.Errorf("a value has more than %d parts", maxParts)
	errDepth = fmt.Errorf("a value is nested more than %d deep", maxDepth)
	errCycle = errors.New("a map cannot be put into itself")
)

// size is how large values are.
type size struct {
	bytes int // of all texts
	parts int
}

// printed is about how long they are when they are printed.
func (s size) printed() int { return s.bytes + partText*s.parts }

// partText is how long a part is at most when it is printed that is no text, with what is
// between it and the next.
const partText = 32

// sizer goes through values.
type sizer struct {
	size
	// not is a map that must not be met; 0: none.
	not uintptr
	// layout is what is counted for who writes the values in lines; nil: nothing is.
	layout *layout
}

// layout is how values are nested.
type layout struct {
	deepest int
	breaks  int // where texts can be broken into lines
	path    int // of the keys that the part is in, in bytes
	paths   int // of those of all maps
}

// sizeOf is how large values are together.
func sizeOf(values ...any) (size, error) {
	s := &sizer{}
	for _, v := range values {
		if err := s.add(reflect.ValueOf(v), 0); err != nil {
			return s.size, err
		}
	}
	return s.size, nil
}

// withoutCycle refuses to put a value into a map that is in it.
func withoutCycle(m map[string]any, value any) error {
	return (&sizer{not: reflect.ValueOf(m).Pointer()}).add(reflect.ValueOf(value), 0)
}

func (s *sizer) add(v reflect.Value, depth int) error {
	if s.parts++; s.parts > maxParts {
		return errParts
	}
	if depth > maxDepth {
		return errDepth
	}
	if s.layout != nil {
		s.layout.add(v, depth)
	}
	switch v.Kind() {
	case reflect.String:
		s.bytes += v.Len()
	case reflect.Interface:
		s.parts-- // what is in it is the part
		return s.add(v.Elem(), depth)
	case reflect.Pointer:
		if !v.IsNil() {
			return s.add(v.Elem(), depth+1)
		}
	case reflect.Slice, reflect.Array:
		return s.addList(v, depth)
	case reflect.Map:
		return s.addMap(v, depth)
	case reflect.Struct:
		return s.addStruct(v, depth)
	}
	return nil
}

// add counts a part.
func (l *layout) add(v reflect.Value, depth int) {
	l.deepest = max(l.deepest, depth+1) // what is in it is not always added
	switch v.Kind() {
	case reflect.String:
		l.breaks += strings.Count(v.String(), "\n") + strings.Count(v.String(), " ")
	case reflect.Map, reflect.Struct:
		l.paths += l.path
	}
}

// enter counts the key that the next part is in; it returns how to leave that.
func (l *layout) enter(key reflect.Value) (leave func()) {
	if l == nil {
		return func() {}
	}
	n := partText
	if key = inside(key); key.Kind() == reflect.String {
		n += marshalled * key.Len()
	}
	l.path += n
	return func() { l.path -= n }
}

func (s *sizer) addList(v reflect.Value, depth int) error {
	switch v.Type().Elem().Kind() {
	case reflect.Interface, reflect.Pointer, reflect.String, reflect.Slice, reflect.Array, reflect.Map, reflect.Struct:
	default:
		if s.parts += v.Len(); s.parts > maxParts {
			return errParts
		}
		return nil
	}
	for i := range v.Len() {
		if err := s.add(v.Index(i), depth+1); err != nil {
			return err
		}
	}
	return nil
}

func (s *sizer) addMap(v reflect.Value, depth int) error {
	if s.not != 0 && v.Pointer() == s.not {
		return errCycle
	}
	for entries := v.MapRange(); entries.Next(); {
		if err := s.add(entries.Key(), depth+1); err != nil {
			return err
		}
		leave := s.layout.enter(entries.Key())
		if err := s.add(entries.Value(), depth+1); err != nil {
			return err
		}
		leave()
	}
	return nil
}

// addStruct does not follow what a package keeps for itself: nobody prints that.
func (s *sizer) addStruct(v reflect.Value, depth int) error {
	for i := range v.NumField() {
		field := v.Field(i)
		if !v.Type().Field(i).IsExported() && field.Kind() != reflect.String {
			s.parts++
			continue
		}
		if err := s.add(field, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// copied is a value whose maps and lists are its own. How deep it is has been looked at.
func copied(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, value := range v {
			out[key] = copied(value)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, value := range v {
			out[i] = copied(value)
		}
		return out
	case [][]any: // as sprig's chunk makes them
		out := make([][]any, len(v))
		for i, value := range v {
			out[i] = copied(value).([]any)
		}
		return out
	}
	return v
}

// shown is a value in an error, a long text shortened. Of what has parts it is the type: nobody has
// looked at them.
func shown(v any) string {
	switch of := reflect.ValueOf(v); {
	case of.Kind() == reflect.String:
		return fmt.Sprintf("%.80s", of.String())
	case class(of) != reflect.Invalid:
		return fmt.Sprint(v)
	}
	return fmt.Sprintf("%T", v)
}
