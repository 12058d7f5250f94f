package trial

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"sync"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/wasmnode/wasmnode/abi/descriptor"
)

// schema is that of the contract's messages.
var schema = sync.OnceValue(func() *protoregistry.Files {
	var set descriptorpb.FileDescriptorSet
	if err := proto.Unmarshal(descriptor.Set, &set); err != nil {
		panic(fmt.Sprintf("the schema of the contract: %v", err))
	}
	files, err := protodesc.NewFiles(&set)
	if err != nil {
		panic(fmt.Sprintf("the schema of the contract: %v", err))
	}
	return files
})

// message returns an empty message of an operation: of its Request or its Response.
func message(op, kind string) (*dynamicpb.Message, error) {
	m, err := NewMessage(OperationMessage(op, kind))
	if err != nil {
		return nil, fmt.Errorf("%s: no such operation", op)
	}
	return m, nil
}

// PositionError is a fault of a text.
type PositionError struct {
	Line, Column int
	Problem      string
}

// Error returns one line, which begins with the line and column.
func (e *PositionError) Error() string {
	return fmt.Sprintf("%d:%d: %s", e.Line, e.Column, e.Problem)
}

// readRequest reads a request of an operation that is written as [Trial.Prepare] says.
func readRequest(op string, text []byte) (*dynamicpb.Message, error) {
	m, err := message(op, "Request")
	if err != nil {
		return nil, err
	}
	return m, decodeJSON(text, m)
}

// Decode is the JSON of an operation's encoded answer, with the names of the schema. Bytes that
// are a JSON object are written as one.
func Decode(op string, answer []byte) (json.RawMessage, error) {
	m, err := message(op, "Response")
	if err != nil {
		return nil, err
	}
	if err := proto.Unmarshal(answer, m); err != nil {
		return nil, fmt.Errorf("the answer is not a %s message", m.Descriptor().Name())
	}
	return encodeJSON(m, isObject)
}

// encodeJSON is the JSON of a message, with the names of the schema. Bytes that are shown are
// written as they are, and not in base64.
func encodeJSON(m *dynamicpb.Message, shown func([]byte) bool) (json.RawMessage, error) {
	text, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(m)
	if err != nil {
		return nil, err
	}
	var value map[string]any
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&value); err != nil {
		return nil, err
	}
	showObjects(value, m.Descriptor(), shown)
	return json.Marshal(value)
}

func showObjects(value map[string]any, d protoreflect.MessageDescriptor, shown func([]byte) bool) {
	for name, v := range value {
		f := d.Fields().ByName(protoreflect.Name(name))
		if f == nil || f.IsList() || f.IsMap() {
			continue
		}
		switch v := v.(type) {
		case string:
			if b, err := base64.StdEncoding.DecodeString(v); f.Kind() == protoreflect.BytesKind && err == nil && shown(b) {
				value[name] = json.RawMessage(b)
			}
		case map[string]any:
			if f.Kind() == protoreflect.MessageKind {
				showObjects(v, f.Message(), shown)
			}
		}
	}
}

func isObject(b []byte) bool { return bytes.HasPrefix(b, []byte("{")) && json.Valid(b) }

// decodeJSON reads a message. The positions of its faults are those in the text.
func decodeJSON(text []byte, m *dynamicpb.Message) error {
	if err := checkSyntax(text); err != nil {
		return err
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	objects, err := findObjects(decoder, m.Descriptor())
	if err != nil {
		return err
	}
	plain := bytes.Clone(text) // an empty string and blanks in the place of each object
	var encoded []byte
	done := 0
	for _, o := range objects {
		blank(plain[o.begin:o.end])
		encoded = append(encoded, text[done:o.begin]...)
		encoded = append(encoded, `"`+base64.StdEncoding.EncodeToString(text[o.begin:o.end])+`"`...)
		done = o.end
	}
	if err := protojson.Unmarshal(plain, proto.Clone(m)); err != nil {
		return plainError(err)
	}
	return plainError(protojson.Unmarshal(append(encoded, text[done:]...), m))
}

// blank makes an empty string of an object that is as long and has as many lines.
func blank(object []byte) {
	quotes := 0
	for i := range len(object) - 1 {
		if object[i] != '\n' && object[i+1] != '\n' {
			quotes = i
			break
		}
	}
	for i, c := range object {
		if c != '\n' {
			object[i] = ' '
		}
	}
	object[quotes], object[quotes+1] = '"', '"'
}

// protojsonError is a message of the library's, which varies the space in it.
var protojsonError = regexp.MustCompile(`^proto:[\s\x{a0}]+(?:syntax error )?\(line (\d+):(\d+)\): (.*)$`)

func plainError(err error) error {
	if err == nil {
		return nil
	}
	m := protojsonError.FindStringSubmatch(err.Error())
	if m == nil {
		return err
	}
	line, _ := strconv.Atoi(m[1]) // they are digits
	column, _ := strconv.Atoi(m[2])
	return &PositionError{line, column, m[3]}
}

// checkSyntax says where a text is not one JSON object.
func checkSyntax(text []byte) error {
	var value map[string]json.RawMessage
	err := json.Unmarshal(text, &value)
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		return at(text, syntax.Offset, err.Error())
	case errors.As(err, &kind), err == nil && value == nil:
		return &PositionError{1, 1, "a message is a JSON object, such as {}"}
	}
	return err
}

// at is a problem with the byte before an offset.
func at(text []byte, offset int64, problem string) error {
	before := text[:min(max(offset-1, 0), int64(len(text)))]
	return &PositionError{bytes.Count(before, []byte("\n")) + 1, len(before) - bytes.LastIndexByte(before, '\n'), problem}
}

// span is a part of a text.
type span struct{ begin, end int }

// findObjects finds the JSON objects that stand where a message has bytes.
func findObjects(decoder *json.Decoder, d protoreflect.MessageDescriptor) (out []span, err error) {
	return out, walk(decoder, d, func(s span) { out = append(out, s) })
}

// walk goes through the members of the object that comes next.
func walk(decoder *json.Decoder, d protoreflect.MessageDescriptor, found func(span)) error {
	if _, err := decoder.Token(); err != nil {
		return err
	}
	for decoder.More() {
		key, err := decoder.Token()
		if err != nil {
			return err
		}
		if err := member(decoder, field(d, fmt.Sprint(key)), found); err != nil {
			return err
		}
	}
	_, err := decoder.Token()
	return err
}

// field is the field of that name; nil: there is none.
func field(d protoreflect.MessageDescriptor, name string) protoreflect.FieldDescriptor {
	if f := d.Fields().ByJSONName(name); f != nil {
		return f
	}
	return d.Fields().ByTextName(name)
}

// member goes through a member's value.
func member(decoder *json.Decoder, f protoreflect.FieldDescriptor, found func(span)) error {
	var raw json.RawMessage
	if err := decoder.Decode(&raw); err != nil {
		return err
	}
	end := int(decoder.InputOffset())
	at := span{end - len(raw), end}
	if f == nil || raw[0] != '{' || f.IsList() || f.IsMap() {
		return nil
	}
	switch f.Kind() {
	case protoreflect.BytesKind:
		found(at)
	case protoreflect.MessageKind:
		return walk(json.NewDecoder(bytes.NewReader(raw)), f.Message(), func(s span) {
			found(span{at.begin + s.begin, at.begin + s.end})
		})
	}
	return nil
}
