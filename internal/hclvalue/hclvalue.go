package hclvalue

import (
	"fmt"
	"math"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// Plain turns a value into what encoding/json would have decoded, but with whole
// numbers as int64. What is null or not known is nil. It is an error when encoding/json
// has no form for it: a number that is infinite or beyond a float64, a function or a
// type.
func Plain(v cty.Value) (any, error) {
	v, _ = v.Unmark()
	if !v.IsKnown() || v.IsNull() {
		return nil, nil
	}
	switch t := v.Type(); {
	case t == cty.String:
		return v.AsString(), nil
	case t == cty.Bool:
		return v.True(), nil
	case t == cty.Number:
		return number(v)
	case t.IsListType() || t.IsSetType() || t.IsTupleType():
		list := []any{}
		for it := v.ElementIterator(); it.Next(); {
			_, element := it.Element()
			e, err := Plain(element)
			if err != nil {
				return nil, err
			}
			list = append(list, e)
		}
		return list, nil
	case t.IsMapType() || t.IsObjectType():
		m := map[string]any{}
		for it := v.ElementIterator(); it.Next(); {
			key, element := it.Element()
			e, err := Plain(element)
			if err != nil {
				return nil, err
			}
			m[key.AsString()] = e
		}
		return m, nil
	}
	return nil, fmt.Errorf("a %s is not a plain value", v.Type().FriendlyName())
}

func number(v cty.Value) (any, error) {
	if i, accuracy := v.AsBigFloat().Int64(); accuracy == 0 {
		return i, nil
	}
	f, _ := v.AsBigFloat().Float64()
	if math.IsInf(f, 0) {
		return nil, fmt.Errorf("the number is too large")
	}
	return f, nil
}

// Body turns a body into a map: attributes by name, and each type of block as a list
// of maps, labels nesting one level each. A name is an attribute or a type of block,
// not both.
func Body(b *hclsyntax.Body, ctx *hcl.EvalContext) (map[string]any, hcl.Diagnostics) {
	m := map[string]any{}
	var diags hcl.Diagnostics
	for name, a := range b.Attributes {
		v, d := a.Expr.Value(ctx)
		diags = append(diags, d...)
		plain, err := Plain(v)
		if err != nil {
			diags = append(diags, Errorf(a.Expr.Range(), "Unsuitable value for %q; %v.", name, err)...)
		}
		m[name] = plain
	}
	for _, block := range b.Blocks {
		if a := b.Attributes[block.Type]; a != nil {
			diags = append(diags, Errorf(block.TypeRange, "Duplicate %q; it is an argument already, at %s.", block.Type, a.NameRange)...)
			continue
		}
		inner, d := Body(block.Body, ctx)
		diags = append(diags, d...)
		AppendBlock(m, block.Type, block.Labels, inner)
	}
	return m, diags
}

// AppendBlock adds a block's content to the list of those of its type. Nothing but
// blocks may be there by that name.
func AppendBlock(m map[string]any, blockType string, labels []string, content map[string]any) {
	var v any = content
	for i := len(labels) - 1; i >= 0; i-- {
		v = map[string]any{labels[i]: []any{v}}
	}
	list, _ := m[blockType].([]any)
	m[blockType] = append(list, v)
}
