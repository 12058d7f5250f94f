package configdoc

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"

	"github.com/wasmnode/wasmnode/internal/configschema"
	"github.com/wasmnode/wasmnode/internal/hclvalue"
)

// Example is what may stand in a configuration's block: what is required, and all else in
// comments, each of which may be taken out of them. Where the schema does not take it as it is,
// because it asks for more than an example can guess, the first line says what is missing.
func Example(s *configschema.Schema, fields []*configschema.Field) string {
	w := writer{}
	w.fields(fields, "", true)
	text := string(hclwrite.Format([]byte(w.String())))
	if problem := wrong(s, text); problem != "" {
		text = "# This is not complete: " + line(problem) + "\n" + text
	}
	return text
}

// wrong is what a schema refuses of an example; empty: nothing.
func wrong(s *configschema.Schema, text string) string {
	body, diags := hclvalue.ParseFile("example", []byte(text))
	if diags.HasErrors() {
		return strings.Join(hclvalue.Lines(diags), "; ")
	}
	value, diags := hclvalue.Body(body, nil)
	if diags.HasErrors() {
		return strings.Join(hclvalue.Lines(diags), "; ")
	}
	_, err := s.Check("config", value)
	return strings.Join(configschema.Lines(err), "; ")
}

type writer struct{ strings.Builder }

// fields writes those that have to be there, then the others, as comments. What is in a comment
// is whole: a comment within it would be taken out with it. Of the forms that a block may have
// the first is written.
func (w *writer) fields(fields []*configschema.Field, indent string, live bool) {
	var first, others []*configschema.Field
	chosen := false
	for _, f := range fields {
		switch {
		case f.Required, f.Choice && !chosen:
			first, chosen = append(first, f), chosen || f.Choice
		case live || !f.Choice && !f.Deprecated:
			others = append(others, f)
		}
	}
	for _, f := range first {
		w.field(f, indent)
	}
	if live {
		indent += "# "
	}
	for _, f := range others {
		w.field(f, indent)
	}
}

// field writes one. Indent is what each of its lines begins with.
func (w *writer) field(f *configschema.Field, indent string) {
	within := strings.Contains(indent, "#") && !strings.HasSuffix(indent, "# ") // a comment
	if text := w.String(); text != "" && !strings.HasSuffix(text, "{\n") && !within {
		w.WriteString("\n")
	}
	if !hclsyntax.ValidIdentifier(f.Name) {
		fmt.Fprintf(w, "%s# %s is no name in HCL\n", strings.TrimSuffix(indent, "# "), line(f.Name))
		return
	}
	if text := description(f); text != "" {
		fmt.Fprintf(w, "%s# %s\n", strings.TrimSuffix(indent, "# "), line(text))
	}
	switch f.Form {
	case configschema.FormBlock, configschema.FormBlocks, configschema.FormLabelled:
		label := ""
		if f.Form == configschema.FormLabelled {
			label = ` "example"`
		}
		fmt.Fprintf(w, "%s%s%s {\n", indent, f.Name, label)
		w.fields(f.Fields, indent+"  ", !strings.Contains(indent, "#"))
		fmt.Fprintf(w, "%s}\n", indent)
	case configschema.FormMap, configschema.FormValue:
		value := string(hclwrite.TokensForValue(literal(f.Example)).Bytes())
		fmt.Fprintf(w, "%s%s = %s\n", indent, f.Name, strings.ReplaceAll(value, "\n", "\n"+indent))
	}
}

// literal is a value as HCL has it.
func literal(v any) cty.Value {
	switch v := v.(type) {
	case string:
		return cty.StringVal(v)
	case bool:
		return cty.BoolVal(v)
	case int64:
		return cty.NumberIntVal(v)
	case float64:
		return cty.NumberFloatVal(v)
	case []any:
		var items []cty.Value
		for _, item := range v {
			items = append(items, literal(item))
		}
		return cty.TupleVal(items)
	case map[string]any:
		members := map[string]cty.Value{}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			members[name] = literal(v[name])
		}
		return cty.ObjectVal(members)
	}
	return cty.NullVal(cty.DynamicPseudoType)
}
