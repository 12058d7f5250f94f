package configschema

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/wasmnode/wasmnode/internal/plaintext"
)

// Fault is one thing that is wrong with a configuration.
type Fault struct {
	// Path is where, as one would write it in HCL: "config.mounts[0].source".
	Path string
	// Problem is what, in words: "missing".
	Problem string
}

// String returns "PATH: PROBLEM".
func (f Fault) String() string { return f.Path + ": " + f.Problem }

// FaultsError is everything that is wrong with a configuration, sorted by path.
type FaultsError struct {
	Faults []Fault // at most [MaxFaults]
	More   int     // faults beyond those
}

// Error returns the faults on one line, separated by semicolons.
func (e *FaultsError) Error() string {
	parts := make([]string, len(e.Faults), len(e.Faults)+1)
	for i, f := range e.Faults {
		parts[i] = f.String()
	}
	if e.More > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", e.More))
	}
	return strings.Join(parts, "; ")
}

// Lines returns what is wrong according to an error of [Schema.Check], a line each; the last says
// how many faults there are beyond those. Without an error there are none.
func Lines(err error) (lines []string) {
	var many *FaultsError
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &many):
		return []string{err.Error()}
	}
	for _, f := range many.Faults {
		lines = append(lines, f.String())
	}
	if many.More > 0 {
		lines = append(lines, fmt.Sprintf("config: %d more faults", many.More))
	}
	return lines
}

// path is a way into a configuration. It is never appended to in place.
type path []element

// element is a name, or an index when name is empty.
type element struct {
	name  string
	index int
}

func (p path) member(name string) path { return append(slices.Clip(p), element{name: name}) }
func (p path) item(i int) path         { return append(slices.Clip(p), element{index: i}) }

// String writes the path as HCL does.
func (p path) String() string {
	var b strings.Builder
	for i, e := range p {
		switch {
		case e.name == "" && i > 0:
			fmt.Fprintf(&b, "[%d]", e.index)
		case i == 0:
			b.WriteString(e.name)
		case identifier(e.name):
			b.WriteString("." + e.name)
		default:
			b.WriteString("[" + quote(e.name) + "]")
		}
	}
	return b.String()
}

func identifier(s string) bool {
	for i, r := range s {
		letter := r == '_' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
		if !letter && (i == 0 || r != '-' && (r < '0' || r > '9')) {
			return false
		}
	}
	return s != "" && len(s) <= maxQuoted
}

// faults collects what is wrong, each thing once. It forgets the texts, but not
// the number, of those that are too many to be read.
type faults struct {
	none bool // the plugin gave no schema
	seen map[Fault]bool
	list []Fault
	more int
	// What the fitter knows of shapes, by the path: what to say of a wrong type, and where all
	// is said.
	notes   map[string]note
	settled []path
}

func (f *faults) any() bool { return len(f.list) > 0 }

func (f *faults) add(at path, problem string) { f.once(at, problem) }

// note keeps how a wrong type is described.
func (f *faults) note(at path, n note) {
	if f.notes == nil {
		f.notes = map[string]note{}
	}
	if where := at.String(); len(f.notes) < 10*MaxFaults && f.notes[where].text == "" {
		f.notes[where] = n
	}
}

// settle adds a fault that says all of what is there: what the library finds in it is an echo.
func (f *faults) settle(at path, problem string) {
	f.add(at, problem)
	if len(f.settled) < MaxFaults {
		f.settled = append(f.settled, at)
	}
}

// echo reports whether all is said of what is there.
func (f *faults) echo(at path) bool {
	return slices.ContainsFunc(f.settled, func(p path) bool { return len(at) >= len(p) && slices.Equal(at[:len(p)], p) })
}

func (f *faults) once(at path, problem string) {
	fault := Fault{Path: at.String(), Problem: printable(problem)}
	if f.seen[fault] {
		return
	}
	// Remembering twice as many as are shown keeps the count honest for ordinary
	// mistakes and bounded for all others.
	if len(f.list) >= 10*MaxFaults {
		f.more++
		return
	}
	if f.seen == nil {
		f.seen = map[Fault]bool{}
	}
	f.seen[fault] = true
	f.list = append(f.list, fault)
}

func (f *faults) err() error {
	slices.SortFunc(f.list, func(a, b Fault) int {
		if c := strings.Compare(a.Path, b.Path); c != 0 {
			return c
		}
		return strings.Compare(a.Problem, b.Problem)
	})
	shown := min(len(f.list), MaxFaults)
	return &FaultsError{Faults: f.list[:shown], More: len(f.list) - shown + f.more}
}

// library adds what the library found in value, which is at root.
func (f *faults) library(root path, value any, err error) {
	if err == nil {
		return
	}
	invalid, ok := err.(*jsonschema.ValidationError) //nolint:errorlint // the library returns it as it is
	if !ok {
		f.add(root, err.Error())
		return
	}
	f.tree(root, value, invalid)
}

func (f *faults) tree(root path, value any, e *jsonschema.ValidationError) {
	at := locate(root, value, e.InstanceLocation)
	if f.echo(at) {
		return
	}
	switch k := e.ErrorKind.(type) {
	case *kind.Type:
		if n, ok := f.notes[at.String()]; ok && slices.Equal(n.want, slices.Sorted(slices.Values(k.Want))) {
			f.add(n.at, n.text)
			return
		}
		f.add(at, text(k))
	case *kind.Required:
		for _, name := range k.Missing {
			f.add(at.member(name), "missing")
		}
	case *kind.AdditionalProperties:
		for _, name := range k.Properties {
			f.unknown(at.member(name), "")
		}
	case *kind.AnyOf, *kind.OneOf:
		f.add(at, choice(root, value, e))
	case *kind.PropertyNames:
		f.add(at.member(k.Property), "not a name that is allowed here")
	case *kind.FalseSchema:
		f.unknown(at, "")
	default:
		if len(e.Causes) == 0 {
			f.add(at, text(k))
		}
		for _, cause := range e.Causes {
			f.tree(root, value, cause)
		}
	}
}

// unknown adds an unknown field. What the fitter reported with a suggestion is not
// reported again without.
func (f *faults) unknown(at path, suggestion string) {
	where := at.String()
	for _, known := range f.list {
		if known.Path == where && strings.HasPrefix(known.Problem, unknownField) {
			return
		}
	}
	problem := unknownField
	switch {
	case f.none:
		problem += ": the plugin describes no schema for it, and so takes none"
	case suggestion != "":
		problem += fmt.Sprintf(", did you mean %q?", suggestion)
	}
	f.add(at, problem)
}

const unknownField = "unknown field"

// maxForms is how many forms of a choice are listed.
const maxForms = 3

// choice describes of a value that fits none of several forms what each one misses.
func choice(root path, value any, e *jsonschema.ValidationError) string {
	if len(e.Causes) == 0 {
		return "fits more than one of the forms allowed here"
	}
	var forms []string
	for _, cause := range e.Causes[:min(len(e.Causes), maxForms)] {
		branch := new(faults)
		branch.tree(root, value, cause)
		if len(branch.list) == 0 {
			continue
		}
		first := branch.list[0]
		if here := locate(root, value, e.InstanceLocation).String(); first.Path == here {
			forms = append(forms, first.Problem)
		} else {
			forms = append(forms, first.String())
		}
	}
	return fmt.Sprintf("fits none of the %d forms allowed here (%s)", len(e.Causes), strings.Join(slices.Compact(forms), " / "))
}

// locate turns the library's tokens into a path by walking along value.
func locate(at path, value any, tokens []string) path {
	for _, token := range tokens {
		switch v := value.(type) {
		case []any:
			i, err := strconv.Atoi(token)
			if err != nil || i < 0 || i >= len(v) {
				return at
			}
			at, value = at.item(i), v[i]
		case map[string]any:
			at, value = at.member(token), v[token]
		default:
			return at
		}
	}
	return at
}

var english = message.NewPrinter(language.English)

// text describes one of the library's findings in words.
func text(k jsonschema.ErrorKind) string {
	switch k := k.(type) {
	case *kind.Type:
		return fmt.Sprintf("%s, want %s", word(k.Got), words(k.Want))
	case *kind.Enum:
		return fmt.Sprintf("%s, want %s", quoteValue(k.Got), oneOf(k.Want))
	case *kind.Const:
		return fmt.Sprintf("%s, want %s", quoteValue(k.Got), quoteValue(k.Want))
	case *kind.Pattern:
		return fmt.Sprintf("%s does not match %s", quote(k.Got), cut(k.Want))
	case *kind.Minimum:
		return fmt.Sprintf("%s, want at least %s", k.Got.RatString(), k.Want.RatString())
	case *kind.Maximum:
		return fmt.Sprintf("%s, want at most %s", k.Got.RatString(), k.Want.RatString())
	case *kind.ExclusiveMinimum:
		return fmt.Sprintf("%s, want more than %s", k.Got.RatString(), k.Want.RatString())
	case *kind.ExclusiveMaximum:
		return fmt.Sprintf("%s, want less than %s", k.Got.RatString(), k.Want.RatString())
	case *kind.MinLength:
		if k.Want == 1 {
			return "empty"
		}
		return fmt.Sprintf("%d characters, want at least %d", k.Got, k.Want)
	case *kind.MaxLength:
		return fmt.Sprintf("%d characters, want at most %d", k.Got, k.Want)
	case *kind.MinItems:
		return fmt.Sprintf("%d items, want at least %d", k.Got, k.Want)
	case *kind.MaxItems:
		return fmt.Sprintf("%d items, want at most %d", k.Got, k.Want)
	case *kind.UniqueItems:
		return fmt.Sprintf("items %d and %d are the same", k.Duplicates[0], k.Duplicates[1])
	case *kind.Not:
		return "of a form that is not allowed here"
	}
	return strings.ReplaceAll(k.LocalizedString(english), "\n", " ")
}

// word is a JSON type in the words of HCL.
func word(jsonType string) string {
	switch jsonType {
	case "object":
		return "a block"
	case "array":
		return "a list"
	case "integer":
		return "a whole number"
	case "null":
		return "null"
	case "boolean":
		return "true or false"
	}
	return "a " + jsonType
}

func words(types []string) string {
	w := make([]string, len(types))
	for i, t := range types {
		w[i] = word(t)
	}
	return either(w)
}

func either(words []string) string { return strings.Join(words, " or ") }

func oneOf(values []any) string {
	const most = 12
	w := make([]string, 0, most+1)
	for _, v := range values[:min(len(values), most)] {
		w = append(w, quoteValue(v))
	}
	if len(values) > most {
		w = append(w, "…")
	}
	if len(w) == 1 {
		return w[0]
	}
	return "one of " + strings.Join(w, ", ")
}

// maxQuoted bounds what a message repeats of a value, in bytes.
const maxQuoted = 64

func quote(s string) string { return strconv.Quote(cut(s)) }

func quoteValue(v any) string {
	if s, ok := v.(string); ok {
		return quote(s)
	}
	return cut(encode(v))
}

// printable escapes what would break a message's one line: names and values come
// from files and plugins.
func printable(s string) string { return plaintext.Line(s, len(s)) }

func cut(s string) string {
	if len(s) <= maxQuoted {
		return s
	}
	return strings.ToValidUTF8(s[:maxQuoted], "") + "…"
}
