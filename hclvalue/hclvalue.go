// Package hclvalue turns HCL values and bodies that have no schema into plain Go data,
// in the shape in which Nomad hands a driver's configuration on. It knows nothing of
// jobs or agents.
package hclvalue

import (
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// Plain turns a value into what encoding/json would have decoded, but with whole
// numbers as int64. What is null or not known is nil.
func Plain(v cty.Value) any {
	if v.IsNull() || !v.IsKnown() {
		return nil
	}
	v, _ = v.Unmark()
	switch t := v.Type(); {
	case t == cty.String:
		return v.AsString()
	case t == cty.Bool:
		return v.True()
	case t == cty.Number:
		if i, accuracy := v.AsBigFloat().Int64(); accuracy == 0 {
			return i
		}
		f, _ := v.AsBigFloat().Float64()
		return f
	case t.IsListType() || t.IsSetType() || t.IsTupleType():
		list := []any{}
		for it := v.ElementIterator(); it.Next(); {
			_, e := it.Element()
			list = append(list, Plain(e))
		}
		return list
	case t.IsMapType() || t.IsObjectType():
		m := map[string]any{}
		for it := v.ElementIterator(); it.Next(); {
			k, e := it.Element()
			m[k.AsString()] = Plain(e)
		}
		return m
	}
	return nil
}

// Body turns a body into a map: attributes by name, and each type of block as a list
// of maps, labels nesting one level each.
func Body(b *hclsyntax.Body, ctx *hcl.EvalContext) (map[string]any, hcl.Diagnostics) {
	m := map[string]any{}
	var diags hcl.Diagnostics
	for name, a := range b.Attributes {
		v, d := a.Expr.Value(ctx)
		diags = append(diags, d...)
		m[name] = Plain(v)
	}
	for _, block := range b.Blocks {
		inner, d := Body(block.Body, ctx)
		diags = append(diags, d...)
		AppendBlock(m, block.Type, block.Labels, inner)
	}
	return m, diags
}

// AppendBlock adds a block's content to the list of those of its type.
func AppendBlock(m map[string]any, blockType string, labels []string, content map[string]any) {
	var v any = content
	for i := len(labels) - 1; i >= 0; i-- {
		v = map[string]any{labels[i]: []any{v}}
	}
	list, _ := m[blockType].([]any)
	m[blockType] = append(list, v)
}
