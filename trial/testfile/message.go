package testfile

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/wasmnode/wasmnode/internal/configschema"
	"github.com/wasmnode/wasmnode/trial"
)

// fieldsOf are the fields of a message of the contract's; nil: there is none of that name.
func fieldsOf(message string) protoreflect.MessageDescriptor {
	m, err := trial.NewMessage(message)
	if err != nil {
		return nil
	}
	return m.Descriptor()
}

// encode makes the message of values by the names of its fields. Bytes are a text, or an object
// whose JSON they are.
func encode(message string, values map[string]any) ([]byte, error) {
	m, err := trial.NewMessage(message)
	if err != nil {
		return nil, err
	}
	if err := fill(m, values); err != nil {
		return nil, err
	}
	return proto.Marshal(m)
}

// fill gives a message values.
func fill(m *dynamicpb.Message, values map[string]any) error {
	if err := checkNames(values, m.Descriptor(), ""); err != nil {
		return err
	}
	text, err := json.Marshal(withBytes(values, m.Descriptor()))
	if err != nil {
		return err
	}
	if err := protojson.Unmarshal(text, m); err != nil {
		_, problem, found := strings.Cut(err.Error(), "): ") // "proto: (line 1:2): …"
		if !found {
			problem = err.Error()
		}
		return fmt.Errorf("%s", problem)
	}
	return nil
}

// withBytes returns values with those for bytes as the JSON of messages has them, in base64.
func withBytes(values map[string]any, d protoreflect.MessageDescriptor) map[string]any {
	out := map[string]any{}
	for name, v := range values {
		f := d.Fields().ByTextName(name)
		out[name] = v
		switch inner, isMap := v.(map[string]any); {
		case f == nil || f.IsMap():
		case f.Kind() == protoreflect.BytesKind && !f.IsList():
			if text, is := v.(string); is {
				out[name] = base64.StdEncoding.EncodeToString([]byte(text))
			} else if isMap {
				text, _ := json.Marshal(inner) // it came from HCL
				out[name] = base64.StdEncoding.EncodeToString(text)
			}
		case f.Kind() != protoreflect.MessageKind:
		case isMap:
			out[name] = withBytes(inner, f.Message())
		default:
			if list, is := v.([]any); is {
				out[name] = eachWithBytes(list, f.Message())
			}
		}
	}
	return out
}

func eachWithBytes(list []any, d protoreflect.MessageDescriptor) []any {
	out := make([]any, len(list))
	for i, v := range list {
		out[i] = v
		if m, is := v.(map[string]any); is {
			out[i] = withBytes(m, d)
		}
	}
	return out
}

// decode returns the values of an encoded message of that name.
func decode(message string, encoded []byte) (map[string]any, error) {
	m, err := trial.NewMessage(message)
	if err != nil {
		return nil, err
	}
	if err := proto.Unmarshal(encoded, m); err != nil {
		return nil, fmt.Errorf("the answer is not a %s message", message)
	}
	return values(m), nil
}

// values are a message's fields by their names, those without a value too: texts, numbers as int64
// or float64, lists, maps, and nil for a message that is not there. A number of an enumeration is
// its name; bytes are a text, or in base64 where they are none.
func values(m protoreflect.Message) map[string]any {
	out := map[string]any{}
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		if f.HasPresence() && !m.Has(f) {
			out[string(f.Name())] = nil
			continue
		}
		v := m.Get(f)
		switch {
		case f.IsList():
			list := []any{}
			for j := range v.List().Len() {
				list = append(list, value(f, v.List().Get(j)))
			}
			out[string(f.Name())] = list
		case f.IsMap():
			all := map[string]any{}
			v.Map().Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
				all[k.String()] = value(f.MapValue(), v)
				return true
			})
			out[string(f.Name())] = all
		default:
			out[string(f.Name())] = value(f, v)
		}
	}
	return out
}

func value(f protoreflect.FieldDescriptor, v protoreflect.Value) any {
	switch f.Kind() {
	case protoreflect.MessageKind, protoreflect.GroupKind:
		return values(v.Message())
	case protoreflect.EnumKind:
		if known := f.Enum().Values().ByNumber(v.Enum()); known != nil {
			return string(known.Name())
		}
		return int64(v.Enum())
	case protoreflect.BytesKind:
		if utf8.Valid(v.Bytes()) {
			return string(v.Bytes())
		}
		return base64.StdEncoding.EncodeToString(v.Bytes())
	case protoreflect.BoolKind:
		return v.Bool()
	case protoreflect.StringKind:
		return v.String()
	case protoreflect.FloatKind, protoreflect.DoubleKind:
		return v.Float()
	case protoreflect.Uint32Kind, protoreflect.Uint64Kind, protoreflect.Fixed32Kind, protoreflect.Fixed64Kind:
		if v.Uint() > math.MaxInt64 {
			return float64(v.Uint())
		}
		return int64(v.Uint())
	}
	return v.Int()
}

// checkNames says which of the values that a message is to have, or is compared with, can never
// be its: it has no such field, or its enumeration no such name.
func checkNames(want any, d protoreflect.MessageDescriptor, at string) error {
	fields, is := want.(map[string]any)
	if !is || isMatcher(want) {
		return nil
	}
	known := map[string]bool{}
	for i := range d.Fields().Len() {
		known[string(d.Fields().Get(i).Name())] = true
	}
	for _, name := range sorted(fields) {
		if !known[name] {
			return unknown(at+name, name, known)
		}
		if err := checkValue(fields[name], d.Fields().ByTextName(name), at+name); err != nil {
			return err
		}
	}
	return nil
}

// unknown is an error that lists what there is, or suggests what was meant.
func unknown[T any](where, name string, known map[string]T) error {
	if meant := configschema.Suggest(name, known); meant != "" {
		return fmt.Errorf("there is no %s; did you mean %q?", where, meant)
	}
	return fmt.Errorf("there is no %s; it can be: %s", where, strings.Join(sorted(known), ", "))
}

func checkValue(want any, f protoreflect.FieldDescriptor, at string) error {
	elements := []any{want}
	if list, is := want.([]any); is {
		elements = list
	}
	for _, e := range elements {
		e = matched(e)
		switch text, isText := e.(string); {
		case f.IsMap():
		case f.Kind() == protoreflect.MessageKind:
			if err := checkNames(e, f.Message(), at+"."); err != nil {
				return err
			}
		case f.Kind() == protoreflect.EnumKind && isText && f.Enum().Values().ByName(protoreflect.Name(text)) == nil:
			known := map[string]bool{}
			for i := range f.Enum().Values().Len() {
				known[string(f.Enum().Values().Get(i).Name())] = true
			}
			return unknown(fmt.Sprintf("%s %q", at, text), text, known)
		}
	}
	return nil
}
