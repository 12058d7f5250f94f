package jobspec

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/ext/typeexpr"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"

	"github.com/wasmnode/wasmnode/internal/hclvalue"
)

// envPrefix begins the environment variables that set a job file's variables.
const envPrefix = "NOMAD_VAR_"

// variables are a file's input variables.
type variables struct {
	p *parser
	// given are the values from outside, not yet in the variable's type.
	given    map[string]given
	outside  []reference // those that must be declared
	declared map[string]hcl.Range
	values   map[string]cty.Value
}

// reference is where a variable was given a value.
type reference struct {
	name string
	from string
	at   *hcl.Range
}

// given is a value from outside: text that is an expression unless the variable is a
// string, or an expression.
type given struct {
	text string
	expr hclsyntax.Expression
	from string
}

func newVariables(p *parser, o Options) *variables {
	v := &variables{p: p, given: map[string]given{}, declared: map[string]hcl.Range{}, values: map[string]cty.Value{}}
	for _, e := range o.Env {
		name, value, _ := strings.Cut(e, "=")
		if name, ok := strings.CutPrefix(name, envPrefix); ok {
			v.given[name] = given{text: value, from: envPrefix + name}
		}
	}
	for _, f := range o.VarFiles {
		body := p.read(f.Path, f.Content)
		if body == nil {
			continue
		}
		for _, b := range body.Blocks {
			p.errorf(b.TypeRange, "A variable file has lines of the form name = value, no blocks.")
		}
		for _, a := range sorted(body.Attributes) {
			v.given[a.Name] = given{expr: a.Expr, from: f.Path}
			v.outside = append(v.outside, reference{a.Name, "a variable file sets", &a.NameRange})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(o.Vars)) {
		v.given[name] = given{text: o.Vars[name], from: "-var " + name}
		v.outside = append(v.outside, reference{name, "-var sets", nil})
	}
	return v
}

// declareAll declares what the shorthand block `variables` holds.
func (v *variables) declareAll(b *hclsyntax.Block) {
	for _, a := range sorted(b.Body.Attributes) {
		v.define(a.Name, a.NameRange, cty.DynamicPseudoType, a, nil)
	}
	for _, inner := range b.Body.Blocks {
		v.p.errorf(inner.TypeRange, "A variables block has lines of the form name = default, no blocks.")
	}
}

// declare declares one variable.
func (v *variables) declare(b *hclsyntax.Block) {
	if len(b.Labels) != 1 {
		v.p.errorf(b.TypeRange, "A variable block has one label, the variable's name.")
		return
	}
	ty := cty.DynamicPseudoType
	for _, a := range sorted(b.Body.Attributes) {
		switch a.Name {
		case "type":
			t, diags := typeexpr.TypeConstraint(a.Expr)
			v.p.add(diags)
			if !diags.HasErrors() {
				ty = t
			}
		case "default", "description", "sensitive":
		default:
			v.p.errorf(a.NameRange, "Unsupported argument; a variable has no %q%s", a.Name, suggest(a.Name, []string{"type", "default", "description"}))
		}
	}
	v.define(b.Labels[0], b.DefRange(), ty, b.Body.Attributes["default"], b.Body.Blocks)
}

// define settles a variable's value: from outside, else its default.
func (v *variables) define(name string, at hcl.Range, ty cty.Type, fallback *hclsyntax.Attribute, blocks hclsyntax.Blocks) {
	if first, ok := v.declared[name]; ok {
		v.p.errorf(at, "Duplicate variable; %q is declared at %s already.", name, first)
		return
	}
	v.declared[name] = at
	// Whatever goes wrong below is reported once, not again at each use.
	v.values[name] = cty.UnknownVal(cty.DynamicPseudoType)
	value, ok := v.value(name, at, ty, fallback)
	if !ok {
		return
	}
	v.values[name] = value
	for _, b := range blocks {
		if b.Type != "validation" {
			v.p.errorf(b.TypeRange, "Unsupported block type; a variable has blocks of type \"validation\" only.")
			continue
		}
		v.validate(name, at, b, value)
	}
}

// value returns a variable's value in its type; false: there is none, and it was reported
// why.
func (v *variables) value(name string, at hcl.Range, ty cty.Type, fallback *hclsyntax.Attribute) (cty.Value, bool) {
	raw := cty.NilVal
	if fallback != nil {
		raw = v.p.constant(fallback.Expr)
		if ty == cty.DynamicPseudoType && raw.Type().IsPrimitiveType() {
			ty = raw.Type() // a default gives the type of what has none
		}
		if _, err := convert.Convert(raw, ty); err != nil {
			v.p.errorf(fallback.Expr.Range(), "Invalid default value for variable %q; %v.", name, err)
			return raw, false
		}
	}
	if g, ok := v.given[name]; ok {
		if raw = v.fromOutside(g, ty); !raw.IsKnown() {
			return raw, false
		}
	}
	switch {
	case raw == cty.NilVal:
		v.p.errorf(at, "Unset variable %q; a variable must be set (-var, -var-file or %s%s) or have a default.", name, envPrefix, name)
		return raw, false
	case !raw.IsKnown():
		return raw, false
	}
	value, err := convert.Convert(raw, ty)
	if err != nil {
		v.p.errorf(at, "Invalid value for variable %q; %v (set by %s).", name, err, v.given[name].from)
		return raw, false
	}
	return value, true
}

func (v *variables) fromOutside(g given, ty cty.Type) cty.Value {
	if g.expr != nil {
		return v.p.constant(g.expr)
	}
	if ty == cty.String || ty == cty.DynamicPseudoType {
		return cty.StringVal(g.text)
	}
	if ty.IsPrimitiveType() {
		return cty.StringVal(strings.TrimSpace(g.text))
	}
	expr, diags := hclvalue.ParseExpression(g.from, []byte(g.text))
	v.p.add(diags)
	if diags.HasErrors() {
		return cty.DynamicVal
	}
	return v.p.constant(expr)
}

// validate applies a variable's own condition.
func (v *variables) validate(name string, at hcl.Range, b *hclsyntax.Block, value cty.Value) {
	condition, message := b.Body.Attributes["condition"], b.Body.Attributes["error_message"]
	if condition == nil || message == nil {
		v.p.errorf(b.TypeRange, "A validation block has a condition and an error_message.")
		return
	}
	ctx := &hcl.EvalContext{
		Functions: v.p.functions,
		Variables: map[string]cty.Value{"var": cty.ObjectVal(map[string]cty.Value{name: value})},
	}
	ok, err := convert.Convert(v.p.eval(condition.Expr, ctx), cty.Bool)
	switch {
	case err != nil || ok.IsNull():
		v.p.errorf(condition.SrcRange, "A condition has to be true or false.")
	case !ok.IsKnown():
	case ok.False():
		text, _ := v.p.plain(message.Expr, ctx).(string)
		v.p.errorf(at, "Invalid value for variable %q; %s", name, text)
	}
}

// finish reports the values that were given for variables that do not exist.
func (v *variables) finish() {
	var names []string
	for name := range v.declared {
		names = append(names, name)
	}
	for _, o := range v.outside {
		if _, ok := v.declared[o.name]; !ok {
			text := fmt.Sprintf("Undeclared variable; %s %q, which the job file does not declare%s", o.from, o.name, suggest(o.name, names))
			v.p.add(hcl.Diagnostics{{Severity: hcl.DiagError, Summary: text, Subject: o.at}})
		}
	}
}

// sorted returns attributes in the order of the file, so that messages come in it.
func sorted(attrs hclsyntax.Attributes) []*hclsyntax.Attribute {
	list := make([]*hclsyntax.Attribute, 0, len(attrs))
	for _, a := range attrs {
		list = append(list, a)
	}
	slices.SortFunc(list, func(a, b *hclsyntax.Attribute) int { return a.NameRange.Start.Byte - b.NameRange.Start.Byte })
	return list
}
