package trial

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/internal/secrets"
)

// maskRules say what a recording does not tell, for people.
var maskRules = []string{
	"the values of environment variables, but for HOME, LANG, PATH, PWD, SHELL, TERM, TMPDIR, TZ, USER and those that begin with NOMAD_; NOMAD_TOKEN, NOMAD_TOKEN_ and NOMAD_META_ are masked",
	"the values of HTTP headers that carry credentials: Authorization, Proxy-Authorization, Cookie, Set-Cookie and those named like a secret",
	"the texts in a configuration, a config block, a driver's state and other bytes that are a JSON object, whose key is named like a secret, or is one of a secret by the plugin's schemas (writeOnly)",
	"private keys of TLS",
	"what is read of a file, or written to it, that is in the task's secrets directory or named like a secret, line by line and of NAME=VALUE the value; of another file what has a private key, and the texts of a JSON object as above",
	"signed JSON web tokens in the text of an error or a fault, as on a node",
	"each of these, where it has 6 bytes or more, from then on also wherever else it stands as it is or escaped as in JSON; not where it is encoded otherwise",
}

// masker masks what is recorded.
type masker struct{ secrets.Masker }

// newMasker returns one of a plugin whose schemas say that secrets have these names, sorted.
func newMasker(names []string) masker { return masker{secrets.Masker{Names: names}} }

// errOver is why nothing is recorded any more by a masker that is over its bounds.
var errOver = fmt.Errorf("there are more secrets than are masked: %d, of %d bytes together", secrets.Max, secrets.MaxBytes)

func (k *masker) clone() masker { return masker{k.Clone()} }

// learn notes the secrets of a task, which a request that only names it has not.
func (k *masker) learn(task *wasmnodev1.TaskConfig) {
	if task == nil {
		return
	}
	encoded, err := task.MarshalVT()
	if err != nil {
		return
	}
	if m, err := NewMessage("TaskConfig"); err == nil && proto.Unmarshal(encoded, m) == nil {
		k.find(m)
	}
}

// message masks what is in a message.
func (k *masker) message(m protoreflect.Message) {
	k.find(m)
	k.replace(m)
}

// find masks what is a secret by its name, wherever that is in a message.
func (k *masker) find(m protoreflect.Message) {
	if m.Descriptor().Name() == "HttpHeader" {
		k.header(m)
		return
	}
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.IsMap() && isEnvironment(f) && f.MapValue().Kind() == protoreflect.StringKind:
			k.environment(v.Map())
		case f.IsList() && isEnvironment(f) && f.Kind() == protoreflect.StringKind:
			k.variables(v.List())
		case f.IsList() && f.Kind() == protoreflect.MessageKind:
			for i := range v.List().Len() {
				k.find(v.List().Get(i).Message())
			}
		case f.IsMap() && f.MapValue().Kind() == protoreflect.MessageKind:
			v.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool { k.find(v.Message()); return true })
		case f.IsList() || f.IsMap():
		case f.Kind() == protoreflect.MessageKind:
			k.find(v.Message())
		case f.Kind() == protoreflect.BytesKind && f.Name() == "key_pem":
			m.Set(f, protoreflect.ValueOfBytes([]byte(k.Hide(string(v.Bytes())))))
		case f.Kind() == protoreflect.BytesKind:
			m.Set(f, protoreflect.ValueOfBytes(k.Object(v.Bytes())))
		}
		return true
	})
}

func isEnvironment(f protoreflect.FieldDescriptor) bool {
	return f.Name() == "env" || f.Name() == "device_env"
}

// harmless are variables whose values no secret is in.
var harmless = []string{"HOME", "LANG", "PATH", "PWD", "SHELL", "TERM", "TMPDIR", "TZ", "USER"}

// told reports whether a variable's value is recorded.
func told(name string) bool {
	if strings.HasPrefix(name, "NOMAD_") {
		return !strings.HasPrefix(name, "NOMAD_TOKEN") && !strings.HasPrefix(name, "NOMAD_META_")
	}
	return slices.Contains(harmless, name)
}

func (k *masker) environment(env protoreflect.Map) {
	env.Range(func(name protoreflect.MapKey, v protoreflect.Value) bool {
		if !told(name.String()) {
			env.Set(name, protoreflect.ValueOfString(k.Hide(v.String())))
		}
		return true
	})
}

// variables masks those of a list of NAME=VALUE.
func (k *masker) variables(list protoreflect.List) {
	for i := range list.Len() {
		if name, value, ok := strings.Cut(list.Get(i).String(), "="); ok && !told(name) {
			list.Set(i, protoreflect.ValueOfString(name+"="+k.Hide(value)))
		}
	}
}

// header masks the value of a header that has credentials.
func (k *masker) header(m protoreflect.Message) {
	fields := m.Descriptor().Fields()
	name, value := m.Get(fields.ByName("name")).String(), fields.ByName("value")
	if strings.HasSuffix(strings.ToLower(name), "cookie") || secrets.LikeOne(name) {
		m.Set(value, protoreflect.ValueOfString(k.Hide(m.Get(value).String())))
	}
}

// replace masks the secrets that are known wherever a message has texts and bytes.
func (k *masker) replace(m protoreflect.Message) {
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.IsList():
			for i := range v.List().Len() {
				if out, ok := k.value(f.Kind(), v.List().Get(i)); ok {
					v.List().Set(i, out)
				}
			}
		case f.IsMap():
			v.Map().Range(func(name protoreflect.MapKey, v2 protoreflect.Value) bool {
				if out, ok := k.value(f.MapValue().Kind(), v2); ok {
					v.Map().Set(name, out)
				}
				return true
			})
		default:
			if out, ok := k.value(f.Kind(), v); ok {
				m.Set(f, out)
			}
		}
		return true
	})
}

// value masks one value, or what is in it; false: there is nothing to set.
func (k *masker) value(kind protoreflect.Kind, v protoreflect.Value) (protoreflect.Value, bool) {
	switch kind {
	case protoreflect.MessageKind:
		k.replace(v.Message())
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(k.Text(v.String())), true
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte(k.Text(string(v.Bytes())))), true
	}
	return v, false
}

// decodeValue decodes JSON, with its numbers as they are written.
func decodeValue(b []byte) (value any, err error) {
	decoder := json.NewDecoder(bytes.NewReader(b))
	decoder.UseNumber()
	err = decoder.Decode(&value)
	return value, err
}
