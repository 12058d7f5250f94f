package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"

	"github.com/wasmnode/wasmnode/internal/hclvalue"
)

// errManual is that a file is changed by its author.
var errManual = errors.New("it is to be changed by hand")

// AddGrant adds to the text of a configuration file what another says to grant a plugin, as the errors
// of plugins that lack a grant name it: `plugin "x" { grant { kv { enabled = true } } }`. What is in a
// list there is added to the file's list, and what else is set there replaces what the file sets.
// Helpers and endpoints are added as they are, so that nothing is granted but what the grant names.
// All else of the text stays, comments included; it is formatted. The error is that the grant has
// to be completed first, since it leaves something open or has a pattern in it, that it is another
// plugin's, or that one of the two cannot be read.
func AddGrant(path string, file []byte, plugin, grant string) ([]byte, error) {
	text, _ := unfold("grant", []byte(grant))
	added, diags := hclsyntax.ParseConfig(text, "grant", hcl.InitialPos)
	if diags.HasErrors() {
		return nil, fmt.Errorf("the grant is one to complete: %s", grant)
	}
	if err := checkNarrow(plugin, added.Body.(*hclsyntax.Body)); err != nil {
		return nil, err
	}
	from, diags := hclwrite.ParseConfig(text, "grant", hcl.InitialPos)
	if diags.HasErrors() {
		return nil, fmt.Errorf("the grant is one to complete: %s", grant)
	}
	to, diags := hclwrite.ParseConfig(file, path, hcl.InitialPos)
	if diags.HasErrors() {
		return nil, fmt.Errorf("%w: %s", errManual, strings.Join(hclvalue.Lines(diags), "; "))
	}
	if err := mergeBody(to.Body(), from.Body()); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return to.Bytes(), nil
}

// checkNarrow refuses a grant that has anything but grants of that plugin, each a literal that says
// all.
func checkNarrow(plugin string, body *hclsyntax.Body) error {
	for _, a := range body.Attributes {
		return fmt.Errorf("%s is no grant of a plugin", a.Name)
	}
	for _, b := range body.Blocks {
		if b.Type != "plugin" || len(b.Body.Attributes) > 0 || slices.ContainsFunc(b.Body.Blocks, func(in *hclsyntax.Block) bool { return in.Type != "grant" }) {
			return fmt.Errorf("%s is no grant of a plugin", b.Type)
		}
		if !slices.Equal(b.Labels, []string{plugin}) {
			return fmt.Errorf("the grant is of %q, and %q asks for it", strings.Join(b.Labels, " "), plugin)
		}
		if err := checkPlain(b.Body); err != nil {
			return err
		}
	}
	return nil
}

func checkPlain(body *hclsyntax.Body) error {
	for _, a := range body.Attributes {
		if !isPlain(a.Expr) {
			return fmt.Errorf("the grant is one to complete: %s has more than plain values", a.Name)
		}
	}
	for _, b := range body.Blocks {
		for _, label := range b.Labels {
			if !isNarrow(label) {
				return fmt.Errorf("the grant is one to complete: %s %q", b.Type, label)
			}
		}
		if err := checkPlain(b.Body); err != nil {
			return err
		}
	}
	return nil
}

// isPlain reports whether an expression is a value that stands for itself and for nothing more.
func isPlain(e hclsyntax.Expression) bool {
	switch e := e.(type) {
	case *hclsyntax.LiteralValueExpr:
		return true
	case *hclsyntax.TupleConsExpr:
		return !slices.ContainsFunc(e.Exprs, func(in hclsyntax.Expression) bool { return !isPlain(in) })
	case *hclsyntax.TemplateExpr:
		v, diags := e.Value(nil)
		return e.IsStringLiteral() && !diags.HasErrors() && isNarrow(v.AsString())
	}
	return false
}

// isNarrow reports whether a text has neither a pattern in it nor what was left out.
func isNarrow(s string) bool { return !strings.ContainsAny(s, "*…") }

// repeated are blocks each of which is a permission of its own.
var repeated = map[string]bool{"helper": true, "endpoint": true}

// mergeBody adds what is in a body to another.
func mergeBody(to, from *hclwrite.Body) error {
	attributes := from.Attributes()
	for _, name := range sorted(attributes) {
		if err := mergeAttribute(to, name, attributes[name].Expr()); err != nil {
			return err
		}
	}
	for _, b := range from.Blocks() {
		old := to.FirstMatchingBlock(b.Type(), b.Labels())
		if old == nil || repeated[b.Type()] {
			if len(to.Blocks()) > 0 && b.Type() == "plugin" {
				to.AppendNewline()
			}
			old = to.AppendNewBlock(b.Type(), b.Labels())
		}
		if err := mergeBody(old.Body(), b.Body()); err != nil {
			return err
		}
	}
	return nil
}

func sorted[V any](m map[string]V) (names []string) {
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// mergeAttribute sets an attribute, or adds to the list that it is.
func mergeAttribute(to *hclwrite.Body, name string, value *hclwrite.Expression) error {
	added := value.BuildTokens(nil)
	old := to.GetAttribute(name)
	if old == nil || !isList(added) {
		to.SetAttributeRaw(name, added)
		return nil
	}
	list := old.Expr().BuildTokens(nil)
	if !isList(list) {
		return fmt.Errorf("%w: %s is no list as it stands", errManual, name)
	}
	to.SetAttributeRaw(name, joinLists(list, added))
	return nil
}

// isList reports whether an expression is one list in brackets, and no more.
func isList(tokens hclwrite.Tokens) bool {
	depth := 0
	for i, t := range tokens {
		switch t.Type {
		case hclsyntax.TokenOBrack:
			depth++
		case hclsyntax.TokenCBrack:
			depth--
		}
		if depth == 0 && i < len(tokens)-1 {
			return false
		}
	}
	return len(tokens) > 1 && tokens[0].Type == hclsyntax.TokenOBrack
}

// joinLists is a list with the elements of another at its end.
func joinLists(list, added hclwrite.Tokens) hclwrite.Tokens {
	end := len(list) - 1
	last := end - 1 // of its elements
	for last > 0 && (list[last].Type == hclsyntax.TokenNewline || list[last].Type == hclsyntax.TokenComment) {
		last--
	}
	out := slices.Clone(list[:last+1])
	if t := list[last].Type; t != hclsyntax.TokenComma && t != hclsyntax.TokenOBrack {
		out = append(out, &hclwrite.Token{Type: hclsyntax.TokenComma, Bytes: []byte(",")})
	}
	elements := slices.Clone(added[1 : len(added)-1])
	if len(elements) > 0 && list[last].Type != hclsyntax.TokenOBrack {
		elements[0] = &hclwrite.Token{Type: elements[0].Type, Bytes: elements[0].Bytes, SpacesBefore: 1}
	}
	out = append(out, elements...)
	return append(out, list[last+1:]...)
}
