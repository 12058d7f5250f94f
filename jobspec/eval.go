package jobspec

import (
	"github.com/agext/levenshtein"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// eval evaluates an expression. What a job file may refer to that only the node
// knows (attr, node, meta, env, NOMAD_…, device) stays as it is written.
func (p *parser) eval(e hclsyntax.Expression, ctx *hcl.EvalContext) cty.Value {
	v, diags := e.Value(p.withRuntime(e, ctx))
	p.add(diags)
	if diags.HasErrors() {
		return cty.DynamicVal
	}
	return v
}

// withRuntime gives each root name that the context does not know a value that is its
// own "${…}" text.
func (p *parser) withRuntime(e hclsyntax.Expression, ctx *hcl.EvalContext) *hcl.EvalContext {
	roots := map[string]*runtimeValue{}
	for _, t := range hclsyntax.Variables(e) {
		if known(ctx, t.RootName()) {
			continue
		}
		at := t.SourceRange()
		src := p.src[at.Filename]
		if at.End.Byte > len(src) {
			continue
		}
		child(roots, t.RootName()).insert(t[1:], "${"+string(src[at.Start.Byte:at.End.Byte])+"}")
	}
	if len(roots) == 0 {
		return ctx
	}
	with := ctx.NewChild()
	with.Variables = map[string]cty.Value{}
	for name, r := range roots {
		with.Variables[name] = r.value()
	}
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

// runtimeValue is a name that only the node knows, with the attributes that an
// expression asks of it.
type runtimeValue struct {
	text     string
	children map[string]*runtimeValue
}

func child(m map[string]*runtimeValue, name string) *runtimeValue {
	if m[name] == nil {
		m[name] = &runtimeValue{children: map[string]*runtimeValue{}}
	}
	return m[name]
}

func (r *runtimeValue) insert(rest hcl.Traversal, text string) {
	for _, step := range rest {
		switch step := step.(type) {
		case hcl.TraverseAttr:
			r = child(r.children, step.Name)
		case hcl.TraverseIndex:
			if step.Key.Type() == cty.String {
				r = child(r.children, step.Key.AsString())
			}
		}
	}
	r.text = text
}

func (r *runtimeValue) value() cty.Value {
	if len(r.children) == 0 {
		return cty.StringVal(r.text)
	}
	attrs := map[string]cty.Value{}
	for name, c := range r.children {
		attrs[name] = c.value()
	}
	return cty.ObjectVal(attrs)
}

// suggest returns "; did you mean …?" when a name is close to one of those known.
func suggest(name string, known []string) string {
	best, distance := "", 3
	for _, k := range known {
		if d := levenshtein.Distance(name, k, nil); d < distance && d < len(name) {
			best, distance = k, d
		}
	}
	if best == "" {
		return ""
	}
	return "; did you mean \"" + best + "\"?"
}
