package trial

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf16"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// MaskRules say what a recording does not tell, for people.
var MaskRules = []string{
	"the values of environment variables, but for HOME, LANG, PATH, PWD, SHELL, TERM, TMPDIR, TZ, USER and those that begin with NOMAD_; NOMAD_TOKEN and NOMAD_META_ are masked",
	"the values of HTTP headers that carry credentials: Authorization, Proxy-Authorization, Cookie, Set-Cookie and those named like a secret",
	"the texts in a configuration, a config block, a driver's state and other bytes that are a JSON object, whose key is named like a secret",
	"private keys of TLS",
	"each of these, where it has 6 bytes or more, from then on also wherever else it stands as it is or escaped as in JSON; not where it is encoded otherwise",
}

// likeSecret is what is named like a secret.
var likeSecret = regexp.MustCompile(`(?i)passw|passphrase|secret|token|credential|private.?key|api.?key|access.?key|auth`)

// leastSecret is how long a secret is that is looked for everywhere.
const leastSecret = 6

// masker replaces secrets. The same text is replaced by the same, which is as long: what a
// plugin makes of it in a replay it is recorded to have made.
type masker struct{ secrets []string }

func (k *masker) clone() masker { return masker{slices.Clone(k.secrets)} }

// masked is what is there in a secret's place.
func masked(secret string) string {
	const pattern = "masked-"
	return strings.Repeat(pattern, len(secret)/len(pattern)+1)[:len(secret)]
}

// hide returns what is there in the place of a secret, which is looked for from now on.
func (k *masker) hide(secret string) string {
	to := masked(secret)
	if len(secret) >= leastSecret && secret != to && !slices.Contains(k.secrets, secret) {
		k.secrets = append(k.secrets, secret)
		// One may be a part of another.
		slices.SortFunc(k.secrets, func(a, b string) int { return len(b) - len(a) })
	}
	return to
}

// text masks the secrets that are in a text.
func (k *masker) text(s string) string {
	for _, secret := range k.secrets {
		s = strings.ReplaceAll(s, secret, masked(secret))
		s = replaceEscaped(s, secret, masked(secret))
	}
	return s
}

// replaceEscaped replaces a text that is written as in a JSON string, in whichever of its forms.
func replaceEscaped(s, text, by string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	from := 0
	for at := 0; at < len(s); {
		n := escapedLen(s[at:], text)
		if n == 0 {
			at++
			continue
		}
		b.WriteString(s[from:at] + by)
		at += n
		from = at
	}
	return b.String() + s[from:]
}

// escapedLen is how much of s a text takes that s begins with, some of its characters escaped; 0: it
// does not.
func escapedLen(s, text string) (n int) {
	for _, r := range text {
		length := charLen(s[n:], r)
		if length == 0 {
			return 0
		}
		n += length
	}
	return n
}

var shortEscapes = map[rune]string{'"': `\"`, '\\': `\\`, '/': `\/`, '\b': `\b`, '\f': `\f`, '\n': `\n`, '\r': `\r`, '\t': `\t`}

// charLen is escapedLen of one character.
func charLen(s string, r rune) int {
	raw := string(r)
	if !strings.HasPrefix(s, `\`) {
		if strings.HasPrefix(s, raw) {
			return len(raw)
		}
		return 0
	}
	short, hex := shortEscapes[r], fmt.Sprintf(`\u%04x`, r)
	if high, low := utf16.EncodeRune(r); high != unicode.ReplacementChar {
		hex = fmt.Sprintf(`\u%04x\u%04x`, high, low)
	}
	switch {
	case short != "" && strings.HasPrefix(s, short):
		return len(short)
	case len(s) >= len(hex) && strings.EqualFold(s[:len(hex)], hex):
		return len(hex)
	case raw == `\`:
		return 1
	}
	return 0
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
			m.Set(f, protoreflect.ValueOfBytes([]byte(k.hide(string(v.Bytes())))))
		case f.Kind() == protoreflect.BytesKind:
			m.Set(f, protoreflect.ValueOfBytes(k.object(v.Bytes())))
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
		return name != "NOMAD_TOKEN" && !strings.HasPrefix(name, "NOMAD_META_")
	}
	return slices.Contains(harmless, name)
}

func (k *masker) environment(env protoreflect.Map) {
	env.Range(func(name protoreflect.MapKey, v protoreflect.Value) bool {
		if !told(name.String()) {
			env.Set(name, protoreflect.ValueOfString(k.hide(v.String())))
		}
		return true
	})
}

// variables masks those of a list of NAME=VALUE.
func (k *masker) variables(list protoreflect.List) {
	for i := range list.Len() {
		if name, value, ok := strings.Cut(list.Get(i).String(), "="); ok && !told(name) {
			list.Set(i, protoreflect.ValueOfString(name+"="+k.hide(value)))
		}
	}
}

// header masks the value of a header that has credentials.
func (k *masker) header(m protoreflect.Message) {
	fields := m.Descriptor().Fields()
	name, value := m.Get(fields.ByName("name")).String(), fields.ByName("value")
	if strings.HasSuffix(strings.ToLower(name), "cookie") || likeSecret.MatchString(name) {
		m.Set(value, protoreflect.ValueOfString(k.hide(m.Get(value).String())))
	}
}

// object masks the texts of bytes that are a JSON object, below keys that are named like a
// secret. All else stays as it is, byte for byte.
func (k *masker) object(b []byte) []byte {
	if !isObject(b) {
		return b
	}
	w := &keyWalk{decoder: json.NewDecoder(bytes.NewReader(b)), text: b}
	w.value(false)
	var out []byte
	done := 0
	for _, s := range w.secrets {
		var secret string
		_ = json.Unmarshal(b[s.begin:s.end], &secret) // it was a string
		quoted, _ := json.Marshal(k.hide(secret))     // a text can be encoded
		out = append(append(out, b[done:s.begin]...), quoted...)
		done = s.end
	}
	return append(out, b[done:]...)
}

// keyWalk finds the texts below keys that are named like a secret, in JSON that is valid.
type keyWalk struct {
	decoder *json.Decoder
	text    []byte
	secrets []span
}

// value goes through the value that comes next, and reports whether there was one.
func (w *keyWalk) value(secret bool) bool {
	before := int(w.decoder.InputOffset())
	token, err := w.decoder.Token()
	if err != nil {
		return false
	}
	switch token {
	case json.Delim('{'):
		for w.decoder.More() {
			name, _ := w.decoder.Token() // of valid JSON
			text, _ := name.(string)
			if !w.value(secret || likeSecret.MatchString(text)) {
				return false
			}
		}
	case json.Delim('['):
		for w.decoder.More() && w.value(secret) {
		}
	default:
		if _, is := token.(string); is && secret {
			w.secrets = append(w.secrets, span{before + bytes.IndexByte(w.text[before:], '"'), int(w.decoder.InputOffset())})
		}
		return true
	}
	_, err = w.decoder.Token()
	return err == nil
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
		return protoreflect.ValueOfString(k.text(v.String())), true
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte(k.text(string(v.Bytes())))), true
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
