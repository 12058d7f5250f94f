// Package secrets masks secrets in texts: those that are named like one, and what it is told to hide.
// Start reading at [Masker].
package secrets

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
)

// Least is how many bytes a secret has at least that is looked for everywhere.
const Least = 6

// The bounds of the secrets that are looked for everywhere.
const (
	Max      = 1024
	MaxBytes = 1 << 20 // of them together
)

// Masker replaces secrets. The same text is replaced by the same, which is as long: what a
// plugin makes of it in a replay it is recorded to have made. One goroutine at a time uses it; when
// it is [Masker.Ready] and nothing more is hidden, any number may have it mask texts.
type Masker struct {
	// finders look for the secrets, each for more bytes than the next one: so adding a secret
	// makes few of them anew. What is hidden before a text is masked has one of them.
	finders []*finder
	added   map[string]bool // and not yet in a finder
	secrets int
	bytes   int // of them
	// Names are those that secrets have besides, sorted.
	Names []string
	// Lines is that each line of a secret is looked for by itself as well.
	Lines bool
	// Over is that there was a secret beyond the bounds, which is not looked for: what is masked
	// from then on may have it.
	Over bool
}

// Clone returns one that knows the same secrets, and learns others by itself.
func (k *Masker) Clone() Masker {
	out := *k
	out.finders, out.added = slices.Clone(k.finders), maps.Clone(k.added)
	return out
}

// Bytes is how many the secrets have together that are looked for. Each takes some 24 bytes of memory.
func (k *Masker) Bytes() int { return k.bytes }

// Ready has what was hidden be looked for from now on without anything having to be made first.
func (k *Masker) Ready() {
	if len(k.added) == 0 {
		return
	}
	texts, size := slices.Sorted(maps.Keys(k.added)), 0
	for _, text := range texts {
		size += len(text)
	}
	for n := len(k.finders) - 1; n >= 0 && k.finders[n].size <= size; n-- {
		texts, size = append(texts, k.finders[n].texts...), size+k.finders[n].size
		k.finders = k.finders[:n]
	}
	k.finders, k.added = append(k.finders, newFinder(texts)), nil
}

// span is a part of a text.
type span struct{ begin, end int }

// masked is what is there in the place of a secret of so many bytes.
func masked(bytes int) string {
	const pattern = "masked-"
	return strings.Repeat(pattern, bytes/len(pattern)+1)[:bytes]
}

// Hide returns what is there in the place of a secret, which is looked for from now on.
func (k *Masker) Hide(secret string) string {
	if k.Lines && strings.Contains(secret, "\n") {
		for line := range strings.Lines(secret) {
			if line = strings.TrimRight(line, "\r\n"); !strings.HasPrefix(line, "-----") {
				k.look(line)
			}
		}
	}
	return k.look(secret)
}

func (k *Masker) look(secret string) string {
	to := masked(len(secret))
	if len(secret) < Least || secret == to || k.added[secret] || slices.ContainsFunc(k.finders, func(f *finder) bool { return f.has(secret) }) {
		return to
	}
	if k.secrets == Max || k.bytes+len(secret) > MaxBytes {
		k.Over = true
		return to
	}
	k.secrets, k.bytes = k.secrets+1, k.bytes+len(secret)
	if k.added == nil {
		k.added = map[string]bool{}
	}
	k.added[secret] = true
	return to
}

// Text masks the secrets that are in a text: as they are, and written as in a JSON string, in whichever
// form.
func (k *Masker) Text(s string) string { return k.mask(s, false) }

func (k *Masker) mask(s string, cut bool) string {
	k.Ready()
	if len(k.finders) == 0 {
		return s
	}
	s = k.cover(s, s, cut, func(i int) int { return i })
	if !strings.Contains(s, `\`) {
		return s
	}
	plain, at := unescape(s)
	return k.cover(s, plain, cut, func(i int) int { return at[i] })
}

// cover masks the secrets of a text that stand in plain, each byte of which is one of s, or more.
func (k *Masker) cover(s, plain string, cut bool, at func(int) int) string {
	var found []span
	for _, f := range k.finders {
		found = f.find(found, plain, cut)
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

// Object masks the texts of bytes that are a JSON object, below keys that are named like a
// secret. All else stays as it is, byte for byte.
func (k *Masker) Object(b []byte) []byte {
	if !isObject(b) {
		return b
	}
	w := &keyWalk{decoder: json.NewDecoder(bytes.NewReader(b)), text: b, names: k.Names}
	w.value(false)
	var out []byte
	done := 0
	for _, s := range w.secrets {
		var secret string
		_ = json.Unmarshal(b[s.begin:s.end], &secret) // it was a string
		quoted, _ := json.Marshal(k.Hide(secret))     // a text can be encoded
		out = append(append(out, b[done:s.begin]...), quoted...)
		done = s.end
	}
	return append(out, b[done:]...)
}

func isObject(b []byte) bool { return bytes.HasPrefix(b, []byte("{")) && json.Valid(b) }

// keyWalk finds the texts below keys that are named like a secret, in JSON that is valid.
type keyWalk struct {
	decoder *json.Decoder
	text    []byte
	names   []string // as of the masker
	secrets []span
}

func (w *keyWalk) named(key string) bool {
	_, declared := slices.BinarySearch(w.names, key)
	return declared || LikeOne(key)
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
		if text, is := token.(string); is && (secret || isPrivateKey(text)) {
			w.secrets = append(w.secrets, span{before + bytes.IndexByte(w.text[before:], '"'), int(w.decoder.InputOffset())})
		}
		return true
	}
	_, err = w.decoder.Token()
	return err == nil
}

// Declared are the names that JSON schemas say secrets have, sorted: of properties that are writeOnly.
func Declared(schemas ...string) (names []string) {
	for _, text := range schemas {
		var schema any
		if json.Unmarshal([]byte(text), &schema) == nil {
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
