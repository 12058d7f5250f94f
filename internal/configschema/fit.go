package configschema

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// fitter gives a value the shape that a schema asks for, as far as the difference
// comes from how HCL writes things, applies defaults, and finds unknown fields.
// What does not fit it leaves for the library to name.
type fitter struct {
	faults *faults
	work   *meter
}

// fit fits value, which it may change, to s. Block means that value is a block even
// if the schema does not.
func (f *fitter) fit(at path, s *jsonschema.Schema, value any, block bool) any {
	w := f.wants(s)
	value = f.shape(at, w, value)
	f.noteShape(at, w, value)
	switch v := value.(type) {
	case map[string]any:
		if block || w.block() {
			f.noteLabels(at, w, v)
			f.members(at, w, v)
		}
	case []any:
		f.items(at, w, v)
	}
	return value
}

// items fits a list's items.
func (f *fitter) items(at path, w *wants, list []any) {
	for i := range list {
		f.work.spend(1)
		item := w.item(i)
		if item == nil {
			continue
		}
		if label := f.labelled(item, list[i]); label != "" {
			f.faults.settle(at, fmt.Sprintf("a block with the label %s or a map of blocks, want a list of blocks without labels", quote(label)))
			return
		}
		list[i] = f.fit(at.item(i), item, list[i], false)
	}
}

// shape undoes what HCL does to blocks and interpolated values.
func (f *fitter) shape(at path, w *wants, value any) any {
	switch v := value.(type) {
	case []any:
		// A block arrives as a list, because HCL cannot know that it comes once.
		switch {
		case !blocks(v):
		case w.takes("object") && !w.takes("array"):
			return f.merge(at, w, v)
		case len(v) == 1 && !w.takes("object") && !f.listsBlocks(w):
			return v[0]
		}
	case map[string]any:
		if w.takes("array") && !w.takes("object") && f.listsBlocks(w) {
			return []any{v}
		}
	case string:
		// An interpolated value is a string, whatever it stands for.
		if !w.takes("string") {
			return convert(w, v)
		}
	case float64:
		if w.takes("integer") && v == math.Trunc(v) && math.Abs(v) < 1<<63 {
			return int64(v)
		}
	}
	return value
}

func blocks(list []any) bool {
	for _, item := range list {
		if _, ok := item.(map[string]any); !ok {
			return false
		}
	}
	return len(list) > 0
}

// merge makes one block of several: of labelled ones, whose label is their only
// key, one with a member for each label. A block with fields can be given once.
func (f *fitter) merge(at path, w *wants, list []any) any {
	if len(list) == 1 {
		return list[0]
	}
	merged := map[string]any{}
	for _, item := range list {
		for name, member := range item.(map[string]any) {
			if _, twice := merged[name]; twice {
				f.faults.add(at, fmt.Sprintf("given %d times, want one block", len(list)))
				return merged
			}
			merged[name] = member
		}
	}
	if len(w.properties) > 0 {
		f.faults.add(at, fmt.Sprintf("given %d times, want one block", len(list)))
	}
	return merged
}

// convert reads a number or a boolean out of a string, where the schema wants one.
func convert(w *wants, s string) any {
	if w.takes("boolean") && (s == "true" || s == "false") {
		return s == "true"
	}
	if w.takes("integer") || w.takes("number") {
		if i, err := strconv.ParseInt(s, 10, 64); err == nil {
			return i
		}
	}
	if w.takes("number") && s != "" && s[0] != 'n' && json.Valid([]byte(s)) {
		if n, err := strconv.ParseFloat(s, 64); err == nil {
			return n
		}
	}
	return s
}

// members fits a block's members, adds those that have a default, and finds those
// that is unknown. A null is a member that was not given, as in HCL.
func (f *fitter) members(at path, w *wants, block map[string]any) {
	for name, v := range block {
		if v == nil && !w.takesNull(name) {
			delete(block, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(w.properties)) {
		if _, given := block[name]; given {
			continue
		}
		f.work.spend(1)
		if d, ok := w.defaultOf(name); ok {
			block[name] = d
		}
	}
	for _, name := range slices.Sorted(maps.Keys(block)) {
		f.work.spend(1)
		schemas, known := w.member(name)
		if !known && !w.open {
			f.faults.unknown(at.member(name), Suggest(name, w.properties))
			continue
		}
		for _, s := range schemas {
			block[name] = f.fit(at.member(name), s, block[name], false)
		}
	}
}

// wants is what a schema asks of a value, with all that it refers to in place. It
// is a superset where the schema leaves a choice.
type wants struct {
	types      map[string]bool // empty: any
	properties map[string][]*jsonschema.Schema
	patterns   map[jsonschema.Regexp]*jsonschema.Schema
	others     *jsonschema.Schema // of members that are not named
	open       bool               // members that are not declared are allowed
	prefix     []*jsonschema.Schema
	items      *jsonschema.Schema
}

// wants collects what s asks for. Each schema is visited once, so that one which
// refers to itself does no harm.
func (f *fitter) wants(s *jsonschema.Schema) *wants {
	w := &wants{properties: map[string][]*jsonschema.Schema{}, patterns: map[jsonschema.Regexp]*jsonschema.Schema{}}
	seen := map[*jsonschema.Schema]bool{}
	var types []map[string]bool
	var collect func(s *jsonschema.Schema, certain bool)
	collect = func(s *jsonschema.Schema, certain bool) {
		if s == nil || seen[s] {
			return
		}
		seen[s] = true
		f.work.spend(1 + len(s.Properties) + len(s.PatternProperties))
		if t := typesOf(s); certain && t != nil {
			types = append(types, t)
		}
		w.own(s)
		collect(s.Ref, certain)
		if s.DynamicRef != nil {
			collect(s.DynamicRef.Ref, certain)
		}
		for _, part := range s.AllOf {
			collect(part, certain)
		}
		for _, part := range slices.Concat(s.AnyOf, s.OneOf, []*jsonschema.Schema{s.If, s.Then, s.Else}) {
			collect(part, false)
		}
		for _, part := range s.DependentSchemas {
			collect(part, false)
		}
	}
	collect(s, true)
	w.types = union(types)
	if w.types == nil {
		w.types = choiceOfTypes(s)
	}
	return w
}

// own adds what one schema declares itself.
func (w *wants) own(s *jsonschema.Schema) {
	for name, property := range s.Properties {
		w.properties[name] = append(w.properties[name], property)
	}
	maps.Copy(w.patterns, s.PatternProperties)
	switch additional := s.AdditionalProperties.(type) {
	case bool:
		w.open = w.open || additional
	case *jsonschema.Schema:
		w.others, w.open = additional, true
	}
	if u := s.UnevaluatedProperties; u != nil && (u.Bool == nil || *u.Bool) {
		w.open = true
	}
	if len(s.PrefixItems) > 0 {
		w.prefix = s.PrefixItems
	}
	if s.Items2020 != nil {
		w.items = s.Items2020
	}
}

// typesOf returns the types that one schema names, by type, enum or const; nil for
// none.
func typesOf(s *jsonschema.Schema) map[string]bool {
	types := map[string]bool{}
	if s.Types != nil {
		for _, t := range s.Types.ToStrings() {
			types[t] = true
		}
		return types
	}
	var values []any
	if s.Enum != nil {
		values = s.Enum.Values
	}
	if s.Const != nil {
		values = append(slices.Clip(values), *s.Const)
	}
	for _, v := range values {
		types[jsonType(v)] = true
	}
	if len(types) == 0 {
		return nil
	}
	return types
}

// choiceOfTypes returns the types of a schema that is a choice of forms, each of
// which names its own; nil when any leaves it open.
func choiceOfTypes(s *jsonschema.Schema) map[string]bool {
	for s.Ref != nil && s.AnyOf == nil && s.OneOf == nil && s.Ref != s {
		s = s.Ref
	}
	var all []map[string]bool
	for _, form := range slices.Concat(s.AnyOf, s.OneOf) {
		for form.Ref != nil && typesOf(form) == nil && form.Ref != form {
			form = form.Ref
		}
		t := typesOf(form)
		if t == nil {
			return nil
		}
		all = append(all, t)
	}
	return union(all)
}

func union(all []map[string]bool) map[string]bool {
	var u map[string]bool
	for _, types := range all {
		if u == nil {
			u = map[string]bool{}
		}
		maps.Copy(u, types)
	}
	return u
}

func jsonType(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case string:
		return "string"
	case []any:
		return "array"
	case map[string]any:
		return "object"
	}
	return "number"
}

// takes reports whether the schema names the type. A schema that names none takes
// nothing here: there is no shape to fit to.
func (w *wants) takes(jsonType string) bool {
	if jsonType == "object" && len(w.types) == 0 {
		return len(w.properties) > 0
	}
	if jsonType == "array" && len(w.types) == 0 {
		return w.items != nil || len(w.prefix) > 0
	}
	return w.types[jsonType]
}

// block reports whether a value that is an object is checked for unknown members:
// not when the schema does not constrain objects.
func (w *wants) block() bool { return w.takes("object") }

func (w *wants) takesNull(name string) bool {
	schemas, _ := w.member(name)
	for _, s := range schemas {
		if typesOf(s)["null"] {
			return true
		}
	}
	return false
}

// member returns the schemas of a member and whether the schema names it.
func (w *wants) member(name string) ([]*jsonschema.Schema, bool) {
	schemas := slices.Clone(w.properties[name])
	for pattern, s := range w.patterns {
		if pattern.MatchString(name) {
			schemas = append(schemas, s)
		}
	}
	if len(schemas) > 0 {
		return schemas, true
	}
	if w.others != nil {
		return []*jsonschema.Schema{w.others}, true
	}
	return nil, false
}

func (w *wants) item(i int) *jsonschema.Schema {
	if i < len(w.prefix) {
		return w.prefix[i]
	}
	return w.items
}

// defaultOf returns a copy of a property's default.
func (w *wants) defaultOf(name string) (any, bool) {
	for _, s := range w.properties[name] {
		if d := findDefault(s, 0); d != nil {
			n := normaliser{faults: new(faults)}
			return n.value(path{{name: name}}, *d, 0), true
		}
	}
	return nil, false
}

// findDefault looks for a default in s and what it certainly includes.
func findDefault(s *jsonschema.Schema, depth int) *any {
	if s == nil || depth > MaxDepth {
		return nil
	}
	if s.Default != nil {
		return s.Default
	}
	if d := findDefault(s.Ref, depth+1); d != nil {
		return d
	}
	if len(s.AllOf) == 1 {
		return findDefault(s.AllOf[0], depth+1)
	}
	return nil
}

// checkDefaults checks that the defaults fit the schema that offers them, so that
// a configuration is never refused for what the user did not write.
func checkDefaults(s *Schema) error {
	faults := new(faults)
	seen := map[*jsonschema.Schema]bool{}
	var walk func(at path, schema *jsonschema.Schema)
	walk = func(at path, schema *jsonschema.Schema) {
		if schema == nil || seen[schema] {
			return
		}
		seen[schema] = true
		walk(at, schema.Ref)
		for _, part := range slices.Concat(schema.AllOf, schema.AnyOf, schema.OneOf, schema.PrefixItems, []*jsonschema.Schema{schema.Then, schema.Else, schema.Items2020}) {
			walk(at, part)
		}
		for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
			property := schema.Properties[name]
			s.checkDefault(at.member(name), property, faults)
			walk(at.member(name), property)
		}
		if others, ok := schema.AdditionalProperties.(*jsonschema.Schema); ok {
			walk(at, others)
		}
	}
	walk(path{{name: "default of config"}}, s.root)
	if faults.any() {
		return faults.err()
	}
	return nil
}

func (s *Schema) checkDefault(at path, property *jsonschema.Schema, faults *faults) {
	d := findDefault(property, 0)
	if d == nil {
		return
	}
	n := normaliser{faults: faults}
	value := n.value(at, *d, 0)
	s.work.left = maxChecks
	err := s.work.guard(func() error {
		f := fitter{faults: faults, work: s.work}
		value = f.fit(at, property, value, false)
		return property.Validate(value)
	})
	faults.library(at, value, err)
}
