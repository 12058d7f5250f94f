package configschema

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// The bounds of what [Schema.Fields] describes.
const (
	// maxFields bounds the fields at all depths; a large driver has a hundred.
	maxFields = 2000
	// maxFieldDepth bounds how deeply they are within each other.
	maxFieldDepth = 8
)

// Form is how a field is written in HCL.
type Form string

// The forms.
const (
	FormValue    Form = "value"    // name = …
	FormMap      Form = "map"      // name = { key = … }
	FormBlock    Form = "block"    // name { … }, once
	FormBlocks   Form = "blocks"   // name { … }, any number of times
	FormLabelled Form = "labelled" // name "label" { … }, any number of times
)

// Field is what a configuration may hold at one place.
type Field struct {
	Name string
	Form Form
	// Type is what it takes, in words such as "a list of strings".
	Type     string
	Required bool
	// Choice: it is required in one of several forms of the block that it is in.
	Choice bool `json:",omitempty"`
	// Default is JSON; empty: it has none.
	Default json.RawMessage `json:",omitempty"`
	// Values are the only ones that it takes, as JSON; none: any within its limits.
	Values      []json.RawMessage `json:",omitempty"`
	Limits      []string          `json:",omitempty"` // such as "at least 1"
	Description string
	Deprecated  bool     `json:",omitempty"`
	Fields      []*Field `json:",omitempty"` // of a block, by name

	// Example is a value that the field takes, of a block nil; it is nil, too, when none was found.
	Example any `json:"-"`
}

// Fields describes what a configuration may hold, by name. What a schema leaves open has no
// field. The error says that there is too much to be described.
func (s *Schema) Fields() (fields []*Field, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.work.left = maxChecks
	d := describer{fitter: fitter{faults: new(faults), work: s.work}}
	err = s.work.guard(func() error {
		fields = d.fields(s.root, nil)
		return nil
	})
	if err == nil && d.count > maxFields {
		err = fmt.Errorf("the schema has more than %d fields", maxFields)
	}
	return fields, err
}

// describer describes the fields of one schema.
type describer struct {
	fitter
	count int // of the fields so far
	depth int // of the example that is looked for
}

// fields describes those of a block. Within are the schemas of the blocks that it is in: one that
// is in itself is described once.
func (d *describer) fields(s *jsonschema.Schema, within []*jsonschema.Schema) (fields []*Field) {
	if len(within) >= maxFieldDepth || slices.Contains(within, s) {
		return nil
	}
	within = append(slices.Clip(within), s)
	w := d.wants(s)
	required, choice := map[string]bool{}, map[string]bool{}
	certain(s, func(part *jsonschema.Schema) {
		for _, name := range part.Required {
			required[name] = true
		}
		for _, forms := range [][]*jsonschema.Schema{part.OneOf, part.AnyOf} {
			for _, form := range forms {
				for _, name := range form.Required {
					choice[name] = true
				}
			}
		}
	})
	for _, name := range slices.Sorted(maps.Keys(w.properties)) {
		if d.count++; d.count > maxFields {
			return fields
		}
		f := d.field(name, w.properties[name][0], within)
		f.Required = required[name]
		f.Choice = choice[name] && !f.Required
		if value, ok := w.defaultOf(name); ok {
			f.Default = json.RawMessage(encode(value))
		}
		fields = append(fields, f)
	}
	return fields
}

// field describes one.
func (d *describer) field(name string, s *jsonschema.Schema, within []*jsonschema.Schema) *Field {
	w := d.wants(s)
	f := &Field{Name: name, Form: FormValue, Type: d.typeOf(w)}
	var block *jsonschema.Schema
	switch {
	case w.takes("object") && len(w.properties) > 0:
		f.Form, block = FormBlock, s
	case w.takes("object") && w.others != nil && d.isBlock(w.others):
		f.Form, block = FormLabelled, w.others
	case w.takes("array") && d.isBlock(w.item(0)):
		f.Form, block = FormBlocks, w.item(0)
	case w.takes("object") && !w.takes("string") && !w.takes("array"):
		f.Form = FormMap
	}
	if block != nil {
		f.Fields = d.fields(block, within)
	}
	certain(s, func(part *jsonschema.Schema) {
		f.Description = cmp.Or(f.Description, part.Description, part.Title)
		f.Deprecated = f.Deprecated || part.Deprecated
		f.Limits = append(f.Limits, limits(part)...)
		f.Values = append(f.Values, values(part)...)
	})
	if block == nil {
		f.Example = d.example(s, w)
	}
	return f
}

// isBlock reports whether a schema is of a block with fields.
func (d *describer) isBlock(s *jsonschema.Schema) bool {
	return s != nil && d.only(s) == "object" && len(d.wants(s).properties) > 0
}

// typeOf is what a schema takes, in the words of HCL.
func (d *describer) typeOf(w *wants) string {
	if len(w.types) == 0 {
		return "anything"
	}
	var words []string
	for _, t := range slices.Sorted(maps.Keys(w.types)) {
		text := d.shapeWanted(w, t)
		if t == "object" && len(w.properties) == 0 && w.others != nil && d.isBlock(w.others) {
			text = "blocks with labels"
		}
		words = append(words, strings.TrimPrefix(text, "a "))
	}
	return either(words)
}

// certain calls a function with a schema and those that it includes in any case.
func certain(s *jsonschema.Schema, visit func(*jsonschema.Schema)) {
	seen := map[*jsonschema.Schema]bool{}
	var walk func(s *jsonschema.Schema)
	walk = func(s *jsonschema.Schema) {
		if s == nil || seen[s] {
			return
		}
		seen[s] = true
		visit(s)
		walk(s.Ref)
		for _, part := range s.AllOf {
			walk(part)
		}
	}
	walk(s)
}

// values are the only ones that one schema takes; none: any.
func values(s *jsonschema.Schema) (all []json.RawMessage) {
	if s.Enum != nil {
		for _, v := range s.Enum.Values {
			all = append(all, json.RawMessage(encode(v)))
		}
	}
	if s.Const != nil {
		all = append(all, json.RawMessage(encode(*s.Const)))
	}
	return all
}

// limits are what one schema says of values beside their type.
func limits(s *jsonschema.Schema) (texts []string) {
	add := func(format string, args ...any) { texts = append(texts, printable(fmt.Sprintf(format, args...))) }
	number := func(format string, r *big.Rat) {
		if r != nil {
			add(format, cut(r.RatString()))
		}
	}
	count := func(format string, n *int) {
		if n != nil {
			add(format, *n)
		}
	}
	number("at least %s", s.Minimum)
	number("more than %s", s.ExclusiveMinimum)
	number("at most %s", s.Maximum)
	number("less than %s", s.ExclusiveMaximum)
	number("a multiple of %s", s.MultipleOf)
	if s.MinLength != nil && *s.MinLength == 1 {
		add("not empty")
	} else {
		count("at least %d characters", s.MinLength)
	}
	count("at most %d characters", s.MaxLength)
	if s.Pattern != nil {
		add("matches %s", s.Pattern)
	}
	count("at least %d items", s.MinItems)
	count("at most %d items", s.MaxItems)
	if s.UniqueItems {
		add("each item once")
	}
	return texts
}

// samples are texts of the kinds that fields are for: one of them fits most patterns.
var samples = []string{
	"example", "/example", "example:/example", "1s", "1", "100m", "10.0.0.1", "10.0.0.0/24", "http://example.com", "NAME=value",
	"a", "r", "rw", "0644", "02:00:00:00:00:01", "sha256:" + strings.Repeat("0", 64), "",
}

// example is a value that a schema takes; nil: none was found.
func (d *describer) example(s *jsonschema.Schema, w *wants) any {
	if d.depth++; d.depth > maxFieldDepth {
		d.depth--
		return nil
	}
	defer func() { d.depth-- }()
	for _, value := range d.candidates(s, w) {
		n := normaliser{faults: new(faults)}
		value = n.value(path{{name: "example"}}, value, 0)
		d.work.spend(1)
		if value != nil && !n.faults.any() && s.Validate(value) == nil {
			return value
		}
	}
	return nil
}

// candidates are values that a schema may take, the best first.
func (d *describer) candidates(s *jsonschema.Schema, w *wants) (values []any) {
	certain(s, func(part *jsonschema.Schema) {
		values = append(values, part.Examples...)
		if part.Const != nil {
			values = append(values, *part.Const)
		}
	})
	if value := findDefault(s, 0); value != nil {
		values = append(values, *value)
	}
	for _, form := range slices.Concat([]*jsonschema.Schema{s}, s.AnyOf, s.OneOf) {
		certain(form, func(part *jsonschema.Schema) {
			if part.Enum != nil {
				values = append(values, part.Enum.Values...)
			}
		})
	}
	for _, t := range []string{"string", "integer", "number", "boolean", "array", "object"} {
		if w.types[t] || len(w.types) == 0 && t == "string" {
			values = append(values, d.ofType(s, w, t)...)
		}
	}
	slices.SortStableFunc(values, func(a, b any) int { return bare(a) - bare(b) })
	return values
}

// bare is 1 for a value in which there is nothing to be seen, and else 0.
func bare(v any) int {
	switch v := v.(type) {
	case nil:
		return 1
	case string:
		return 1 - min(len(v), 1)
	case []any:
		return 1 - min(len(v), 1)
	case map[string]any:
		return 1 - min(len(v), 1)
	}
	return 0
}

// ofType are values of one type that a schema may take.
func (d *describer) ofType(s *jsonschema.Schema, w *wants, jsonType string) (values []any) {
	switch jsonType {
	case "string":
		for _, text := range samples {
			values = append(values, text)
		}
		if n := s.MinLength; n != nil && *n <= maxQuoted {
			values = append(values, strings.Repeat("x", *n))
		}
	case "integer", "number":
		for _, r := range []*big.Rat{s.Minimum, s.Maximum} {
			if r != nil && r.IsInt() && r.Num().IsInt64() {
				values = append(values, r.Num().Int64())
			}
		}
		values = append(values, int64(1), int64(0), int64(1024), int64(-1))
	case "boolean":
		values = append(values, true, false)
	case "array":
		if item := w.item(0); item != nil {
			if value := d.example(item, d.wants(item)); value != nil {
				values = append(values, []any{value})
			}
		}
		values = append(values, []any{})
	case "object":
		if w.others != nil {
			if value := d.example(w.others, d.wants(w.others)); value != nil {
				values = append(values, map[string]any{"example": value})
			}
		}
		values = append(values, map[string]any{})
	}
	return values
}
