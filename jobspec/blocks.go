package jobspec

import (
	"reflect"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
)

// The operators that constraints and affinities can be written with instead of an
// operator and a value: version = "…".
var (
	constraintShorthands = []string{"version", "semver", "regexp", "set_contains", "distinct_hosts", "distinct_property"}
	affinityShorthands   = []string{"version", "semver", "regexp", "set_contains", "set_contains_all", "set_contains_any"}
)

// value decodes a block into the struct behind a pointer, minding the types whose
// syntax differs from their tags.
func (p *parser) value(e expansion, v reflect.Value) {
	handlers := map[string]handler{}
	finish := func() {}
	switch x := v.Interface().(type) {
	case *nomad.Constraint:
		p.shorthands(handlers, constraintShorthands, &x.LTarget, &x.RTarget, &x.Operand)
		finish = func() { orEquals(&x.Operand) }
	case *nomad.Affinity:
		p.shorthands(handlers, affinityShorthands, &x.LTarget, &x.RTarget, &x.Operand)
		finish = func() { orEquals(&x.Operand) }
	case *nomad.Task:
		handlers["scaling"] = func(s expansion) { p.taskScaling(s, x) }
	case *nomad.TaskGroup:
		var s shared
		s.handlers(p, handlers)
		finish = func() {
			s.give(x)
			p.groupScaling(e, x)
		}
	}
	p.body(e.Body, e.labels, e.ctx, v.Elem(), handlers)
	finish()
}

func orEquals(operand *string) {
	if *operand == "" {
		*operand = "="
	}
}

// shorthands lets an operator be written as itself: version = ">= 1.2".
func (p *parser) shorthands(handlers map[string]handler, operators []string, left, right, operand *string) {
	for _, op := range operators {
		handlers["="+op] = func(e expansion) {
			a := e.Body.Attributes[op]
			v, err := convert.Convert(p.eval(a.Expr, e.ctx), cty.String)
			switch {
			case err != nil || v.IsNull():
				p.errorf(a.SrcRange, "Unsuitable value; %s takes a text.", op)
				return
			case !v.IsKnown():
				return // reported where it went wrong
			}
			*operand = op
			if op == "distinct_property" {
				*left = v.AsString()
			} else {
				*right = v.AsString()
			}
		}
	}
}

// taskScaling decodes scaling "cpu" and scaling "mem".
func (p *parser) taskScaling(e expansion, t *nomad.Task) {
	if len(e.labels) != 1 || e.labels[0] != "cpu" && e.labels[0] != "mem" {
		p.errorf(e.TypeRange, "A task's scaling block is named \"cpu\" or \"mem\".")
		return
	}
	s := &nomad.ScalingPolicy{}
	p.body(e.Body, nil, e.ctx, reflect.ValueOf(s).Elem(), nil)
	if s.Type == "" {
		s.Type = "vertical_" + e.labels[0]
	}
	for _, other := range t.ScalingPolicies {
		if other.Type == s.Type {
			p.errorf(e.TypeRange, "Duplicate scaling %q block.", e.labels[0])
		}
	}
	if s.Max == nil {
		p.errorf(e.TypeRange, "Missing argument; a scaling block has a \"max\".")
	}
	t.ScalingPolicies = append(t.ScalingPolicies, s)
}

// groupScaling completes a group's scaling block.
func (p *parser) groupScaling(e expansion, g *nomad.TaskGroup) {
	if g.Scaling == nil {
		return
	}
	at := e.TypeRange
	for _, b := range e.Body.Blocks {
		if b.Type == "scaling" {
			at = b.TypeRange
			p.noLabels("group's scaling", at, b.Labels)
		}
	}
	if g.Scaling.Type == "" {
		g.Scaling.Type = "horizontal"
	}
	if g.Scaling.Max == nil {
		p.errorf(at, "Missing argument; a scaling block has a \"max\".")
	}
}

// shared is what a job or a group may set once for all tasks below it.
type shared struct {
	vault   *nomad.Vault
	secrets []*nomad.Secret
}

// handlers adds those that collect it.
func (s *shared) handlers(p *parser, handlers map[string]handler) map[string]handler {
	handlers["vault"] = func(e expansion) {
		p.noLabels(e.Type, e.TypeRange, e.labels)
		if s.vault != nil {
			p.errorf(e.TypeRange, "Duplicate vault block; only one is allowed.")
		}
		s.vault = &nomad.Vault{}
		p.body(e.Body, nil, e.ctx, reflect.ValueOf(s.vault).Elem(), nil)
	}
	handlers["secret"] = func(e expansion) {
		secret := &nomad.Secret{}
		p.countLabels(e, reflect.TypeOf(secret))
		p.body(e.Body, e.labels, e.ctx, reflect.ValueOf(secret).Elem(), nil)
		s.secrets = append(s.secrets, secret)
	}
	return handlers
}

// give hands it to the tasks of a group that do not have their own.
func (s *shared) give(g *nomad.TaskGroup) {
	for _, t := range g.Tasks {
		if t.Vault == nil {
			t.Vault = s.vault
		}
		t.Secrets = append(t.Secrets, s.secrets...)
	}
}
