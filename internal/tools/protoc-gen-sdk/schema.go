package main

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/compiler/protogen"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// maxFields bounds the fields of a message: the decoder in C counts them in an array.
const maxFields = 32

// schema is what the SDKs are generated from, in the order in which C can declare it: a
// message stands behind those that it holds.
type schema struct {
	enums      []*protogen.Enum
	messages   []*protogen.Message // also the entries of maps
	operations []operation
}

// operation is an export of a plugin: driver_start_task takes a DriverStartTaskRequest and
// answers a DriverStartTaskResponse.
type operation struct {
	name, message string
	doc           protogen.Comments
}

func read(files []*protogen.File) (*schema, error) {
	s := &schema{}
	seen := map[string]bool{}
	for _, file := range files {
		s.enums = append(s.enums, file.Enums...)
		for _, e := range file.Enums {
			if e.Comments.Leading == "" {
				return nil, fmt.Errorf("%s: it has no comment, which the SDKs document it by", e.Desc.Name())
			}
		}
		for _, m := range file.Messages {
			if err := s.add(m, seen); err != nil {
				return nil, err
			}
			name, request := strings.CutSuffix(nameOf(m), "Request")
			if request && (strings.HasPrefix(name, "Driver") || strings.HasPrefix(name, "Device")) {
				s.operations = append(s.operations, operation{snake(name), name, m.Comments.Leading})
			}
		}
	}
	return s, nil
}

// add appends a message and, before it, those that it holds.
func (s *schema) add(m *protogen.Message, seen map[string]bool) error {
	name := nameOf(m)
	if seen[name] {
		return nil
	}
	seen[name] = true
	if m.Comments.Leading == "" && !m.Desc.IsMapEntry() {
		return fmt.Errorf("%s: it has no comment, which the SDKs document it by", name)
	}
	if len(m.Fields) > maxFields || len(m.Enums) > 0 {
		return fmt.Errorf("%s: more than %d fields, or enums of its own", name, maxFields)
	}
	for _, f := range m.Fields {
		if err := check(f); err != nil {
			return fmt.Errorf("%s.%s: %w", name, f.Desc.Name(), err)
		}
		if f.Message != nil {
			if err := s.add(f.Message, seen); err != nil {
				return err
			}
		}
	}
	s.messages = append(s.messages, m)
	return nil
}

// check refuses what no SDK has code for.
func check(f *protogen.Field) error {
	kind := f.Desc.Kind()
	switch {
	case !slices.Contains([]protoreflect.Kind{
		protoreflect.BoolKind, protoreflect.EnumKind, protoreflect.Int32Kind, protoreflect.Uint32Kind,
		protoreflect.Int64Kind, protoreflect.Uint64Kind, protoreflect.DoubleKind,
		protoreflect.StringKind, protoreflect.BytesKind, protoreflect.MessageKind,
	}, kind):
		return fmt.Errorf("fields of kind %s are not generated", kind)
	case f.Desc.IsMap() && f.Desc.MapKey().Kind() != protoreflect.StringKind:
		return fmt.Errorf("maps with keys of kind %s are not generated", f.Desc.MapKey().Kind())
	case isChoice(f) && kind == protoreflect.MessageKind:
		return fmt.Errorf("a oneof of messages is not generated")
	case f.Desc.IsList() && !slices.Contains([]protoreflect.Kind{
		protoreflect.StringKind, protoreflect.MessageKind, protoreflect.Uint32Kind,
	}, kind):
		return fmt.Errorf("lists of kind %s are not generated", kind)
	}
	return nil
}

// nameOf returns a message's name. The entries of all maps to the same type are one:
// "StringEntry", "AttributeEntry".
func nameOf(m *protogen.Message) string {
	if !m.Desc.IsMapEntry() {
		return string(m.Desc.Name())
	}
	value := m.Fields[1]
	if value.Message != nil {
		return nameOf(value.Message) + "Entry"
	}
	kind := value.Desc.Kind().String()
	return strings.ToUpper(kind[:1]) + kind[1:] + "Entry"
}

// isChoice reports whether a field is one of a oneof, which an optional one is not.
func isChoice(f *protogen.Field) bool {
	return f.Oneof != nil && !f.Oneof.Desc.IsSynthetic()
}

// inOrder returns a message's fields as Go encodes them: by number, those of a oneof last.
func inOrder(m *protogen.Message) []*protogen.Field {
	fields := slices.Clone(m.Fields)
	slices.SortStableFunc(fields, func(a, b *protogen.Field) int {
		if isChoice(a) != isChoice(b) {
			if isChoice(a) {
				return 1
			}
			return -1
		}
		return int(a.Desc.Number() - b.Desc.Number())
	})
	return fields
}

// snake returns a name of the schema's as "driver_start_task".
func snake(name string) string {
	var b strings.Builder
	for i, r := range name {
		if r >= 'A' && r <= 'Z' {
			if i > 0 {
				b.WriteByte('_')
			}
			r += 'a' - 'A'
		}
		b.WriteRune(r)
	}
	return b.String()
}
