package jobspec

import (
	"math/big"
	"reflect"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
	"github.com/zclconf/go-cty/cty/gocty"

	"github.com/wasmnode/wasmnode/internal/hclvalue"
)

// handler decodes a block whose syntax differs from the tags.
type handler func(expansion)

// expansion is a block as the file has it, or one that `dynamic` made.
type expansion struct {
	*hclsyntax.Block
	labels []string
	ctx    *hcl.EvalContext
}

// fields are a struct's fields by their names in the file.
type fields struct {
	labels []reflect.Value
	attrs  map[string]reflect.Value
	blocks map[string]reflect.Value
}

// fieldsOf reads a struct's tags: `hcl:"name"`, `hcl:"name,optional"`,
// `hcl:"name,block"` and `hcl:",label"`.
func fieldsOf(v reflect.Value) fields {
	f := fields{attrs: map[string]reflect.Value{}, blocks: map[string]reflect.Value{}}
	for i := range v.NumField() {
		tag := v.Type().Field(i).Tag.Get("hcl")
		name, kind, _ := strings.Cut(tag, ",")
		switch {
		case tag == "" || name == "-":
		case kind == "label":
			f.labels = append(f.labels, v.Field(i))
		case kind == "block":
			f.blocks[name] = v.Field(i)
		default:
			f.attrs[name] = v.Field(i)
		}
	}
	return f
}

// body decodes a block's content into a struct. Handlers come before tags; that of
// an attribute is named "=NAME".
func (p *parser) body(b *hclsyntax.Body, labels []string, ctx *hcl.EvalContext, v reflect.Value, handlers map[string]handler) {
	f := fieldsOf(v)
	p.labels(b, labels, f.labels)
	seen := map[string]hcl.Range{}
	for _, a := range sorted(b.Attributes) {
		p.attribute(a, ctx, f, handlers, seen)
	}
	for _, e := range p.expand(b, ctx) {
		if h := handlers[e.Type]; h != nil {
			h(e)
			continue
		}
		field, ok := f.blocks[e.Type]
		if !ok {
			p.errorf(e.TypeRange, "Unsupported block type; blocks of type %q are not expected here%s", e.Type, suggest(e.Type, names(f, handlers)))
			continue
		}
		p.block(e, field, seen)
	}
}

func (p *parser) labels(b *hclsyntax.Body, labels []string, into []reflect.Value) {
	for i, field := range into {
		switch {
		case i >= len(labels):
			return // reported by block
		case field.Kind() == reflect.Pointer:
			field.Set(reflect.ValueOf(&labels[i]))
		default:
			field.SetString(labels[i])
		}
	}
}

func (p *parser) attribute(a *hclsyntax.Attribute, ctx *hcl.EvalContext, f fields, handlers map[string]handler, seen map[string]hcl.Range) {
	if h := handlers["="+a.Name]; h != nil {
		h(expansion{Block: &hclsyntax.Block{Type: a.Name, Body: &hclsyntax.Body{Attributes: hclsyntax.Attributes{a.Name: a}}}, ctx: ctx})
		return
	}
	field, ok := f.attrs[a.Name]
	if !ok {
		// Free-form maps can be written env { … } and env = { … }.
		if field, ok = f.blocks[a.Name]; ok && isFreeMap(field.Type()) {
			seen[a.Name] = a.NameRange
		} else {
			p.errorf(a.NameRange, "Unsupported argument; an argument named %q is not expected here%s", a.Name, suggest(a.Name, names(f, handlers)))
			return
		}
	}
	p.set(a.Expr, ctx, field)
}

// names lists what a block may hold, for suggestions.
func names(f fields, handlers map[string]handler) []string {
	var list []string
	for n := range f.attrs {
		list = append(list, n)
	}
	for n := range f.blocks {
		list = append(list, n)
	}
	for n := range handlers {
		list = append(list, strings.TrimPrefix(n, "="))
	}
	return list
}

// isFreeMap reports whether a type is a map of plain values, as for env and meta.
func isFreeMap(t reflect.Type) bool {
	return t.Kind() == reflect.Map && t.Elem().Kind() != reflect.Pointer
}

var durationType = reflect.TypeFor[time.Duration]()

// set evaluates an expression into a field.
func (p *parser) set(e hclsyntax.Expression, ctx *hcl.EvalContext, field reflect.Value) {
	switch t := field.Type(); {
	case t == durationType:
		if d := p.duration(e, ctx); d != nil {
			field.SetInt(int64(*d))
		}
	case t.Kind() == reflect.Pointer && t.Elem() == durationType:
		if d := p.duration(e, ctx); d != nil {
			field.Set(reflect.ValueOf(d))
		}
	case t == reflect.TypeFor[map[string]any]():
		switch plain := p.plain(e, ctx).(type) {
		case nil:
		case map[string]any:
			field.Set(reflect.ValueOf(plain))
		default:
			p.errorf(e.Range(), "Unsuitable value type; a map is required: { name = value }.")
		}
	default:
		p.decode(e, ctx, field.Addr().Interface())
	}
}

// decode evaluates an expression into what a pointer points to, converting it where HCL
// does.
func (p *parser) decode(e hclsyntax.Expression, ctx *hcl.EvalContext, into any) {
	v := p.eval(e, ctx)
	if !v.IsKnown() {
		return
	}
	t, err := gocty.ImpliedType(into)
	if err == nil {
		v, err = convert.Convert(v, t)
	}
	if err == nil {
		err = gocty.FromCtyValue(v, into)
	}
	if err != nil {
		p.errorf(e.Range(), "Unsuitable value; %v.", err)
	}
}

// plain evaluates an expression to plain Go data.
func (p *parser) plain(e hclsyntax.Expression, ctx *hcl.EvalContext) any {
	v, err := hclvalue.Plain(p.eval(e, ctx))
	if err != nil {
		p.errorf(e.Range(), "Unsuitable value; %v.", err)
	}
	return v
}

// duration reads "10s", or a whole number of nanoseconds. It returns nil for null.
func (p *parser) duration(e hclsyntax.Expression, ctx *hcl.EvalContext) *time.Duration {
	v := p.eval(e, ctx)
	if !v.IsKnown() || v.IsNull() {
		return nil
	}
	switch v.Type() {
	case cty.Number:
		if n, accuracy := v.AsBigFloat().Int64(); accuracy == big.Exact {
			return (*time.Duration)(&n)
		}
	case cty.String:
		if d, err := time.ParseDuration(v.AsString()); err == nil {
			return &d
		}
	}
	p.errorf(e.Range(), "Unsuitable duration value; a duration looks like \"30s\", \"5m\" or \"1h30m\".")
	return nil
}

// countLabels checks that a block has as many labels as the type that it is decoded
// into has room for.
func (p *parser) countLabels(e expansion, t reflect.Type) {
	want := 0
	switch {
	case isFreeMap(t):
	case t.Kind() == reflect.Map:
		want = 1
	default:
		if t.Kind() == reflect.Slice {
			t = t.Elem()
		}
		if t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		want = len(fieldsOf(reflect.New(t).Elem()).labels)
	}
	switch {
	case e.Type == "scaling": // a task's has one, a group's has none: see blocks.go
	case len(e.labels) < want:
		p.errorf(e.TypeRange, "Missing label; a %s block has a name before its brace: %s \"example\" { … }.", e.Type, e.Type)
	case want == 0:
		p.noLabels(e.Type, e.TypeRange, e.labels)
	case len(e.labels) > want:
		p.errorf(e.TypeRange, "Extraneous label; a %s block has one name.", e.Type)
	}
}

// once refuses a second block of the same name.
func (p *parser) once(e expansion, seen map[string]hcl.Range) {
	if len(e.labels) == 0 {
		return
	}
	key := "\"" + e.labels[0] + "\"" // which no type of block is called
	if first, ok := seen[key]; ok {
		p.errorf(e.TypeRange, "Duplicate %s %q; the first is at %s.", e.Type, e.labels[0], first)
		return
	}
	seen[key] = e.TypeRange
}

// noLabels refuses labels.
func (p *parser) noLabels(blockType string, at hcl.Range, labels []string) {
	if len(labels) > 0 {
		p.errorf(at, "Extraneous label; a %s block has no name.", blockType)
	}
}

// block decodes one block into the field that its type belongs to.
func (p *parser) block(e expansion, field reflect.Value, seen map[string]hcl.Range) {
	t := field.Type()
	single := t.Kind() != reflect.Slice && (t.Kind() != reflect.Map || isFreeMap(t))
	if first, ok := seen[e.Type]; ok && single {
		p.errorf(e.TypeRange, "Duplicate %s block; only one is allowed, the first is at %s.", e.Type, first)
		return
	}
	seen[e.Type] = e.TypeRange
	p.countLabels(e, t)
	switch e.Type {
	case "group":
		p.once(e, p.groups)
	case "task":
		p.once(e, seen)
	}
	if isFreeMap(t) {
		p.freeMap(e, field)
		return
	}
	element := t
	if t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
		element = t.Elem()
	}
	isPointer := element.Kind() == reflect.Pointer
	if isPointer {
		element = element.Elem()
	}
	value := reflect.New(element)
	p.value(e, value)
	if !isPointer {
		value = value.Elem()
	}
	switch t.Kind() {
	case reflect.Slice:
		field.Set(reflect.Append(field, value))
	case reflect.Map:
		p.keyed(e, field, value)
	default:
		field.Set(value)
	}
}

// keyed puts a value into a map by its block's label.
func (p *parser) keyed(e expansion, field, value reflect.Value) {
	if len(e.labels) == 0 {
		return // reported by block
	}
	if field.IsNil() {
		field.Set(reflect.MakeMap(field.Type()))
	}
	key := reflect.ValueOf(e.labels[0])
	if field.MapIndex(key).IsValid() {
		p.errorf(e.TypeRange, "Duplicate %s block; there is one named %q already.", e.Type, e.labels[0])
		return
	}
	field.SetMapIndex(key, value)
}

// freeMap decodes a block that is a map: of texts (env, meta), or of anything
// (config).
func (p *parser) freeMap(e expansion, field reflect.Value) {
	t := field.Type()
	if t.Elem().Kind() == reflect.Interface {
		field.Set(reflect.ValueOf(p.free(e.Body, e.ctx)))
		return
	}
	for _, b := range e.Body.Blocks {
		p.errorf(b.TypeRange, "Unsupported block type; %s holds names and values, no blocks.", e.Type)
	}
	field.Set(reflect.MakeMap(t))
	for _, a := range sorted(e.Body.Attributes) {
		value := reflect.New(t.Elem()).Elem()
		p.set(a.Expr, e.ctx, value)
		field.SetMapIndex(reflect.ValueOf(a.Name), value)
	}
}

// free decodes a body that has no schema here: a driver's config, a proxy's, a
// scaling policy. Blocks and literal objects become lists of maps, as in Nomad, and
// labels nest one level each.
func (p *parser) free(b *hclsyntax.Body, ctx *hcl.EvalContext) map[string]any {
	m := map[string]any{}
	for _, a := range sorted(b.Attributes) {
		v := p.plain(a.Expr, ctx)
		if _, literal := a.Expr.(*hclsyntax.ObjectConsExpr); literal {
			v = []any{v}
		}
		m[a.Name] = v
	}
	for _, e := range p.expand(b, ctx) {
		if a := b.Attributes[e.Type]; a != nil {
			p.errorf(e.TypeRange, "Duplicate %q; it is an argument already, at %s.", e.Type, a.NameRange)
			continue
		}
		hclvalue.AppendBlock(m, e.Type, e.labels, p.free(e.Body, e.ctx))
	}
	return m
}
