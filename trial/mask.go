package trial

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
)

// maskRules say what a recording does not tell, for people.
var maskRules = []string{
	"the values of environment variables, but for HOME, LANG, PATH, PWD, SHELL, TERM, TMPDIR, TZ, USER and those that begin with NOMAD_; NOMAD_TOKEN, NOMAD_TOKEN_ and NOMAD_META_ are masked",
	"the values of HTTP headers that carry credentials: Authorization, Proxy-Authorization, Cookie, Set-Cookie and those named like a secret",
	"the texts in a configuration, a config block, a driver's state and other bytes that are a JSON object, whose key is named like a secret, or is one of a secret by the plugin's schemas (writeOnly)",
	"private keys of TLS",
	"each of these, where it has 6 bytes or more, from then on also wherever else it stands as it is or escaped as in JSON; not where it is encoded otherwise",
}

// likeSecret is what is named like a secret.
var likeSecret = regexp.MustCompile(`(?i)passw|passphrase|secret|token|credential|private.?key|api.?key|access.?key|auth`)

// leastSecret is how long a secret is that is looked for everywhere.
const leastSecret = 6

// The bounds of the secrets that are looked for everywhere.
const (
	maxSecrets     = 1024
	maxSecretBytes = 1 << 20
)

// masker replaces secrets. The same text is replaced by the same, which is as long: what a
// plugin makes of it in a replay it is recorded to have made.
type masker struct {
	// finders look for the secrets, each for more bytes than the next one: so adding a secret
	// makes few of them anew.
	finders []*finder
	secrets int
	bytes   int // of them
	// names are those that secrets have besides, sorted.
	names []string
	// over is that there was a secret beyond the bounds, which is not looked for: what is masked
	// from then on may have it.
	over bool
}

// errOver is why nothing is recorded any more by a masker that is over its bounds.
var errOver = fmt.Errorf("there are more secrets than are masked: %d, of %d bytes together", maxSecrets, maxSecretBytes)

func (k *masker) clone() masker {
	out := *k
	out.finders = slices.Clone(k.finders)
	return out
}

// masked is what is there in the place of a secret of so many bytes.
func masked(bytes int) string {
	const pattern = "masked-"
	return strings.Repeat(pattern, bytes/len(pattern)+1)[:bytes]
}

// hide returns what is there in the place of a secret, which is looked for from now on.
func (k *masker) hide(secret string) string {
	to := masked(len(secret))
	if len(secret) < leastSecret || secret == to || slices.ContainsFunc(k.finders, func(f *finder) bool { return f.has(secret) }) {
		return to
	}
	if k.secrets == maxSecrets || k.bytes+len(secret) > maxSecretBytes {
		k.over = true
		return to
	}
	k.secrets, k.bytes = k.secrets+1, k.bytes+len(secret)
	texts, size := []string{secret}, len(secret)
	for n := len(k.finders) - 1; n >= 0 && k.finders[n].size <= size; n-- {
		texts, size = append(texts, k.finders[n].texts...), size+k.finders[n].size
		k.finders = k.finders[:n]
	}
	k.finders = append(k.finders, newFinder(texts))
	return to
}

// text masks the secrets that are in a text: as they are, and written as in a JSON string, in whichever
// form.
func (k *masker) text(s string) string {
	if len(k.finders) == 0 {
		return s
	}
	s = k.cover(s, s, func(i int) int { return i })
	if !strings.Contains(s, `\`) {
		return s
	}
	plain, at := unescape(s)
	return k.cover(s, plain, func(i int) int { return at[i] })
}

// cover masks the secrets of a text that stand in plain, each byte of which is one of s, or more.
func (k *masker) cover(s, plain string, at func(int) int) string {
	var found []span
	for _, f := range k.finders {
		found = f.find(found, plain)
	}
	if len(found) == 0 {
		return s
	}
	var b strings.Builder
	done := 0
	for _, p := range parts(found) {
		b.WriteString(s[at(done):at(p.begin)])
		b.WriteString(masked(p.end - p.begin))
		done = p.end
	}
	b.WriteString(s[at(done):])
	return b.String()
}

// parts are what to mask of the places of secrets, in their order: of places that overlap the first one,
// the longest of these, and what of the others stands beside it.
func parts(found []span) (out []span) {
	slices.SortFunc(found, func(a, b span) int { return cmp.Or(a.begin-b.begin, b.end-a.end) })
	done, reach := 0, 0 // where the last part ends, and what it overlaps
	rest := func(before int) {
		if end := min(reach, before); end > done {
			out = append(out, span{done, end})
		}
	}
	for _, f := range found {
		if f.begin >= done {
			rest(f.begin)
			out = append(out, f)
			done = f.end
		}
		reach = max(reach, f.end)
	}
	rest(reach)
	return out
}

// unescape is a text with the escapes of JSON in it decoded, and where in the text each of its
// bytes begins, and its end.
func unescape(s string) (plain string, at []int) {
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := escaped(s[i:])
		if n == 0 {
			b.WriteByte(s[i])
			n = 1
		} else {
			b.WriteRune(r)
		}
		for len(at) < b.Len() {
			at = append(at, i)
		}
		i += n
	}
	return b.String(), append(at, len(s))
}

var shortEscapes = map[byte]rune{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// escaped is the character whose escape s begins with, and how long that is; 0: it begins with none.
func escaped(s string) (r rune, n int) {
	if len(s) < 2 || s[0] != '\\' {
		return 0, 0
	}
	if r, is := shortEscapes[s[1]]; is {
		return r, 2
	}
	r = hexEscape(s)
	if utf16.IsSurrogate(r) {
		if r = utf16.DecodeRune(r, hexEscape(s[6:])); r != unicode.ReplacementChar {
			return r, 12
		}
		return 0, 0
	}
	if r < 0 {
		return 0, 0
	}
	return r, 6
}

// hexEscape is the number of the \uXXXX that s begins with; below 0: it does not.
func hexEscape(s string) rune {
	if len(s) < 6 || s[:2] != `\u` {
		return -1
	}
	n, err := strconv.ParseUint(s[2:6], 16, 16)
	if err != nil {
		return -1
	}
	return rune(n)
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
		return !strings.HasPrefix(name, "NOMAD_TOKEN") && !strings.HasPrefix(name, "NOMAD_META_")
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
	w := &keyWalk{decoder: json.NewDecoder(bytes.NewReader(b)), text: b, names: k.names}
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
	names   []string // as of the masker
	secrets []span
}

func (w *keyWalk) named(key string) bool {
	_, declared := slices.BinarySearch(w.names, key)
	return declared || likeSecret.MatchString(key)
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
			if !w.value(secret || w.named(text)) {
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

// secretNames are the names that the schemas of a plugin say secrets have, sorted: of properties
// that are writeOnly.
func secretNames(d *wasmnodev1.DriverDescribeResponse) (names []string) {
	for _, text := range []string{d.GetPluginConfigSchema(), d.GetTaskConfigSchema()} {
		if schema, err := decodeValue([]byte(text)); err == nil {
			names = writeOnly(schema, names)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// writeOnly adds the names of such properties in a schema, which a host has bounded.
func writeOnly(schema any, names []string) []string {
	switch s := schema.(type) {
	case map[string]any:
		properties, _ := s["properties"].(map[string]any)
		for name, p := range properties {
			if p, _ := p.(map[string]any); p["writeOnly"] == true {
				names = append(names, name)
			}
		}
		for _, part := range s {
			names = writeOnly(part, names)
		}
	case []any:
		for _, part := range s {
			names = writeOnly(part, names)
		}
	}
	return names
}
