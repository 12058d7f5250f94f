package jobspec

import (
	"cmp"
	"maps"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// declareLocals collects the local values of one block.
func (p *parser) declareLocals(b *hclsyntax.Block, into map[string]*hclsyntax.Attribute) {
	p.noLabels(b.Type, b.TypeRange, b.Labels)
	for _, a := range sorted(b.Body.Attributes) {
		if first := into[a.Name]; first != nil {
			p.errorf(a.NameRange, "Duplicate local value; %q is set at %s already.", a.Name, first.NameRange)
			continue
		}
		into[a.Name] = a
	}
	for _, inner := range b.Body.Blocks {
		p.errorf(inner.TypeRange, "A locals block has lines of the form name = value, no blocks.")
	}
}

// locals evaluates local values in the order in which they need each other.
func (p *parser) locals(ctx *hcl.EvalContext, declared map[string]*hclsyntax.Attribute) {
	waiting := slices.SortedFunc(maps.Values(declared), func(a, b *hclsyntax.Attribute) int {
		return cmp.Compare(a.NameRange.Start.Byte, b.NameRange.Start.Byte)
	})
	values := map[string]cty.Value{}
	for name := range declared {
		values[name] = cty.DynamicVal // nothing looks at it before it is evaluated
	}
	ctx.Variables["local"] = cty.ObjectVal(values)
	for len(waiting) > 0 {
		names := map[string]bool{}
		for _, a := range waiting {
			names[a.Name] = true
		}
		var blocked []*hclsyntax.Attribute
		for _, a := range waiting {
			if needs(a.Expr, names) {
				blocked = append(blocked, a)
				continue
			}
			values[a.Name] = p.eval(a.Expr, ctx)
		}
		ctx.Variables["local"] = cty.ObjectVal(values)
		if len(blocked) == len(waiting) {
			for _, a := range blocked {
				p.errorf(a.NameRange, "Local value %q needs itself, or another that does.", a.Name)
			}
			return
		}
		waiting = blocked
	}
}

// needs reports whether an expression refers to one of the locals named.
func needs(e hclsyntax.Expression, names map[string]bool) bool {
	for _, t := range hclsyntax.Variables(e) {
		if t.RootName() != "local" {
			continue
		}
		if len(t) == 1 {
			return true // all of them
		}
		switch step := t[1].(type) {
		case hcl.TraverseAttr:
			if names[step.Name] {
				return true
			}
		case hcl.TraverseIndex:
			if step.Key.Type() == cty.String && names[step.Key.AsString()] {
				return true
			}
		}
	}
	return false
}
