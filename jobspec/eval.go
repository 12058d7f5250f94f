package jobspec

import (
	"maps"
	"slices"

	"github.com/agext/levenshtein"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/wasmnode/wasmnode/internal/hclvalue"
)

// eval evaluates an expression. What a job file may refer to that only the node
// knows (attr, node, meta, env, NOMAD_…, device) stays as it is written. When it fails
// it reports that and returns an unknown value; nothing else is unknown.
func (p *parser) eval(e hclsyntax.Expression, ctx *hcl.EvalContext) cty.Value {
	v, diags := e.Value(p.withRuntime(e, ctx))
	if diags.HasErrors() {
		p.add(p.undeclared(e, ctx, diags))
		return cty.DynamicVal
	}
	return v
}

// undeclared reports in the terms of a job file when an expression went wrong because
// there is no such variable or local value.
func (p *parser) undeclared(e hclsyntax.Expression, ctx *hcl.EvalContext, diags hcl.Diagnostics) hcl.Diagnostics {
	for _, t := range hclsyntax.Variables(e) {
		kind := map[string]string{"var": "variable", "local": "local value"}[t.RootName()]
		name, values := lookup(ctx, t)
		if _, ok := values[name]; ok || kind == "" || name == "" {
			continue
		}
		at := t.SourceRange()
		diags = slices.DeleteFunc(diags, func(d *hcl.Diagnostic) bool {
			return d.Subject != nil && at.Start.Byte <= d.Subject.Start.Byte && d.Subject.End.Byte <= at.End.Byte
		})
		diags = append(diags, hclvalue.Errorf(at, "Undeclared %s %q%s", kind, name, suggest(name, slices.Collect(maps.Keys(values))))...)
	}
	return diags
}

// lookup returns the name in a traversal such as var.name, and what there is by the
// traversal's root.
func lookup(ctx *hcl.EvalContext, t hcl.Traversal) (name string, values map[string]cty.Value) {
	if len(t) < 2 {
		return "", nil
	}
	attr, ok := t[1].(hcl.TraverseAttr)
	if !ok {
		return "", nil
	}
	for c := ctx; c != nil; c = c.Parent() {
		if v, ok := c.Variables[t.RootName()]; ok && v.Type().IsObjectType() && v.IsKnown() && !v.IsNull() {
			return attr.Name, v.AsValueMap()
		}
	}
	return "", nil
}

// constant evaluates an expression that may not refer to anything.
func (p *parser) constant(e hclsyntax.Expression) cty.Value {
	v, diags := e.Value(&hcl.EvalContext{Functions: p.functions})
	p.add(diags)
	if diags.HasErrors() {
		return cty.DynamicVal
	}
	return v
}

// withRuntime makes each reference to something that the context does not know stand
// for its own "${…}" text: it becomes a variable of that name and value. References
// such as attr.a and attr.a.b can so be used side by side.
func (p *parser) withRuntime(e hclsyntax.Expression, ctx *hcl.EvalContext) *hcl.EvalContext {
	texts := map[hcl.Pos]string{}
	for _, t := range hclsyntax.Variables(e) {
		if known(ctx, t.RootName()) {
			continue
		}
		at := t.SourceRange()
		src := p.src[at.Filename]
		if at.End.Byte > len(src) {
			continue
		}
		texts[at.Start] = "${" + string(src[at.Start.Byte:at.End.Byte]) + "}"
	}
	if len(texts) == 0 {
		return ctx
	}
	with := ctx.NewChild()
	with.Variables = map[string]cty.Value{}
	_ = hclsyntax.VisitAll(e, func(n hclsyntax.Node) hcl.Diagnostics {
		switch n := n.(type) {
		case *hclsyntax.FunctionCallExpr:
			if n.Name == "convert" && len(n.Args) == 2 { // a type is not a reference
				for _, t := range hclsyntax.Variables(n.Args[1]) {
					delete(texts, t.SourceRange().Start)
				}
			}
		case *hclsyntax.ScopeTraversalExpr:
			if text := texts[n.SrcRange.Start]; text != "" {
				n.Traversal = hcl.Traversal{hcl.TraverseRoot{Name: text, SrcRange: n.SrcRange}}
				with.Variables[text] = cty.StringVal(text)
			}
		}
		return nil
	})
	return with
}

func known(ctx *hcl.EvalContext, root string) bool {
	for c := ctx; c != nil; c = c.Parent() {
		if _, ok := c.Variables[root]; ok {
			return true
		}
	}
	return false
}

// suggest ends a sentence: with "; did you mean …?" when a name is close to one of
// those known, else with a full stop.
func suggest(name string, known []string) string {
	best, distance := "", 3
	for _, k := range slices.Sorted(slices.Values(known)) {
		if d := levenshtein.Distance(name, k, nil); d < distance && d < len(name) {
			best, distance = k, d
		}
	}
	if best == "" {
		return "."
	}
	return "; did you mean \"" + best + "\"?"
}
