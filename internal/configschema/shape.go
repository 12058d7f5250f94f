package configschema

import (
	"fmt"
	"maps"
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// note is how a value of another shape than the schema wants is described, should the library
// find that its type is wrong.
type note struct {
	want []string // the types for which this is the description, sorted
	at   path     // what is to be blamed
	text string
}

// noteShape notes the shape of a value that the schema does not take, where the types alone
// would not tell: what is in a list, and what a block with labels is.
func (f *fitter) noteShape(at path, w *wants, value any) {
	kind := jsonType(value)
	structured := kind == "object" || kind == "array" || w.types["object"] || w.types["array"]
	if !structured || len(w.types) == 0 || w.types[kind] || kind == "number" && w.types["integer"] {
		return
	}
	want := slices.Sorted(maps.Keys(w.types))
	texts := make([]string, len(want))
	for i, t := range want {
		texts[i] = f.shapeWanted(w, t)
	}
	f.faults.note(at, note{want, at, fmt.Sprintf("%s, want %s", shapeGiven(value), either(texts))})
}

// shapeGiven is a value's shape in the words of HCL, which makes a list of a block, and of a map
// that is written as one.
func shapeGiven(value any) string {
	switch v := value.(type) {
	case map[string]any:
		return "a block or a map"
	case []any:
		if blocks(v) && len(v) == 1 {
			return "a block or a map"
		} else if blocks(v) {
			return "a list of blocks"
		}
	}
	return word(jsonType(value))
}

// shapeWanted is a type in the words of HCL, with what is in it.
func (f *fitter) shapeWanted(w *wants, jsonType string) string {
	switch jsonType {
	case "array":
		if many := plural(f.only(w.item(0))); many != "" {
			return "a list of " + many
		}
	case "object":
		if len(w.properties) > 0 || w.others == nil {
			break
		}
		if many := plural(f.only(w.others)); many != "" {
			return "a map of " + many
		}
	}
	return word(jsonType)
}

// only is the one type that a schema takes; empty: it takes several, or any.
func (f *fitter) only(s *jsonschema.Schema) string {
	if s == nil {
		return ""
	}
	types := f.wants(s).types
	if len(types) != 1 {
		return ""
	}
	return slices.Collect(maps.Keys(types))[0]
}

// plural is several values of a type in the words of HCL; empty: there is no short one.
func plural(jsonType string) string {
	return map[string]string{
		"string": "strings", "integer": "whole numbers", "number": "numbers", "object": "blocks", "array": "lists",
	}[jsonType]
}

// listsBlocks reports whether what a list holds may be a block.
func (f *fitter) listsBlocks(w *wants) bool {
	item := w.item(0)
	if item == nil {
		return true
	}
	in := f.wants(item)
	return len(in.types) == 0 || in.types["object"]
}

// labelled returns the label of a block, or the key of a map of blocks, where a list's item is a
// block of which no field has that name; empty: the item is none such.
func (f *fitter) labelled(item *jsonschema.Schema, value any) string {
	block, ok := value.(map[string]any)
	if !ok || len(block) == 0 {
		return ""
	}
	for _, inner := range block {
		list, isList := inner.([]any)
		if _, isBlock := inner.(map[string]any); !isBlock && (!isList || !blocks(list)) {
			return ""
		}
	}
	w := f.wants(item)
	if w.open || len(w.properties) == 0 {
		return ""
	}
	for name := range block {
		if _, known := w.member(name); known {
			return ""
		}
	}
	return slices.Min(slices.Collect(maps.Keys(block)))
}

// noteLabels notes of a block without a label that the schema wants labels: that its fields are
// taken for blocks.
func (f *fitter) noteLabels(at path, w *wants, block map[string]any) {
	if len(w.properties) > 0 || w.others == nil || f.only(w.others) != "object" {
		return
	}
	name := at[len(at)-1].name
	if name == "" {
		return
	}
	text := fmt.Sprintf("a block without a label, want blocks with one: %s \"NAME\" { … }", cut(name))
	for member, value := range block {
		if kind := jsonType(value); kind != "object" && kind != "array" {
			f.faults.note(at.member(member), note{[]string{"object"}, at, text})
		}
	}
}
