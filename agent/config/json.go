package config

import (
	"bytes"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"

	"github.com/wasmnode/wasmnode/internal/hclvalue"
)

// isJSON reports whether a file is JSON, as Nomad's may be whatever they are called: none of HCL
// begins so.
func isJSON(content []byte) bool {
	return bytes.HasPrefix(bytes.TrimLeft(content, " \t\r\n"), []byte("{"))
}

// parseJSON reads a file of JSON as the file of HCL that says the same: an object is a block where
// there may be one, with a member for each label around it where it has labels, and a list of
// objects is several. All else is a value, in which nothing is evaluated.
func parseJSON(path string, content []byte) (*hclsyntax.Body, hcl.Diagnostics) {
	root, diags := hclvalue.ParseJSON(path, content)
	if diags.HasErrors() {
		return nil, diags
	}
	var r objectReader
	body := r.body(root, "", reflect.TypeFor[file]())
	return body, r.diags
}

// assignedBlocks makes blocks of what is assigned objects where there are blocks, as Nomad's are
// sometimes written:
//
//	telemetry = {
//	  disable_hostname = true
//	}
func assignedBlocks(body *hclsyntax.Body) hcl.Diagnostics {
	var r objectReader
	r.assigned(body, "", reflect.TypeFor[file]())
	return r.diags
}

// objectReader makes blocks and arguments of objects, and collects what is wrong with these.
type objectReader struct{ diags hcl.Diagnostics }

func (r *objectReader) assigned(body *hclsyntax.Body, path string, of reflect.Type) {
	for _, b := range body.Blocks {
		if in, _, kind := member(of, path+b.Type); kind == block && in != nil {
			r.assigned(b.Body, path+b.Type+".", in)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(body.Attributes)) {
		a := body.Attributes[name]
		in, labels, kind := member(of, path+name)
		objects, ok := objectsOf(a.Expr)
		if kind != block || !ok {
			continue
		}
		delete(body.Attributes, name)
		for _, o := range objects {
			r.block(body, o, path+name+".", &hclsyntax.Block{Type: name, TypeRange: a.NameRange}, labels, in)
		}
	}
}

// body reads the members of an object that is at a path, as those of a type of block; nil: all are
// values.
func (r *objectReader) body(object hcl.Expression, path string, of reflect.Type) *hclsyntax.Body {
	body := &hclsyntax.Body{Attributes: hclsyntax.Attributes{}, SrcRange: object.Range(), EndRange: object.Range()}
	members, _ := hcl.ExprMap(object)
	for _, m := range members {
		name := r.name(m.Key)
		if of == nil {
			r.argument(body, name, m, r.value(m.Value))
			continue
		}
		objects, ok := objectsOf(m.Value)
		in, labels, kind := member(of, path+name)
		switch {
		case kind == argument && ok && len(objects) > 0:
			r.argument(body, name, m, r.merged(objects))
		case kind == argument, kind == unknown && !ok:
			r.argument(body, name, m, r.value(m.Value))
		case !ok:
			r.fault(m.Value, "Unsuitable value; %s is an object, or a list of objects.", path+name)
		default:
			for _, o := range objects {
				r.block(body, o, path+name+".", &hclsyntax.Block{Type: name, TypeRange: m.Key.Range()}, labels, in)
			}
		}
	}
	return body
}

// block adds the blocks that an object says, one for each label that it still lacks.
func (r *objectReader) block(to *hclsyntax.Body, object hcl.Expression, path string, b *hclsyntax.Block, labels int, of reflect.Type) {
	if labels == 0 {
		b.Body = r.body(object, path, of)
		to.Blocks = append(to.Blocks, b)
		return
	}
	members, _ := hcl.ExprMap(object)
	for _, m := range members {
		label := r.name(m.Key)
		objects, ok := objectsOf(m.Value)
		if !ok {
			r.fault(m.Value, "Unsuitable value; %s%s is an object: %s has a label.", path, label, strings.TrimSuffix(path, "."))
			continue
		}
		for _, o := range objects {
			labelled := *b
			labelled.Labels = append(slices.Clone(b.Labels), label)
			labelled.LabelRanges = append(slices.Clone(b.LabelRanges), m.Key.Range())
			r.block(to, o, path, &labelled, labels-1, of)
		}
	}
}

func (r *objectReader) argument(to *hclsyntax.Body, name string, m hcl.KeyValuePair, value cty.Value) {
	at := m.Key.Range()
	if _, twice := to.Attributes[name]; twice {
		r.fault(m.Key, "Duplicate argument; %q is set in this object already.", name)
		return
	}
	to.Attributes[name] = &hclsyntax.Attribute{
		Name: name, NameRange: at, SrcRange: hcl.RangeBetween(at, m.Value.Range()),
		Expr: &hclsyntax.LiteralValueExpr{Val: value, SrcRange: m.Value.Range()},
	}
}

func (r *objectReader) value(e hcl.Expression) cty.Value {
	v, diags := e.Value(nil)
	r.diags = append(r.diags, diags...)
	return v
}

// merged is a map that is written as a list of objects: a later one's members replace those of
// others.
func (r *objectReader) merged(objects []hcl.Expression) cty.Value {
	all := map[string]cty.Value{}
	for _, o := range objects {
		if v := r.value(o); v.IsKnown() && v.Type().IsObjectType() {
			maps.Copy(all, v.AsValueMap())
		}
	}
	return cty.ObjectVal(all)
}

func (r *objectReader) fault(at hcl.Expression, format string, args ...any) {
	r.diags = append(r.diags, hclvalue.Errorf(at.Range(), format, args...)...)
}

// objectsOf returns the objects that a value is: itself, or the items of a list; false: it is
// something else.
func objectsOf(e hcl.Expression) (objects []hcl.Expression, ok bool) {
	if _, diags := hcl.ExprMap(e); !diags.HasErrors() {
		return []hcl.Expression{e}, true
	}
	list, diags := hcl.ExprList(e)
	return list, !diags.HasErrors() && !slices.ContainsFunc(list, func(item hcl.Expression) bool {
		_, diags := hcl.ExprMap(item)
		return diags.HasErrors()
	})
}

// name is a member's name; empty: the fault was found.
func (r *objectReader) name(key hcl.Expression) string {
	v := r.value(key)
	if name, err := convert.Convert(v, cty.String); err == nil && name.IsKnown() && !name.IsNull() {
		return name.AsString()
	}
	if !r.diags.HasErrors() {
		r.fault(key, "Unsuitable name; it is a text.")
	}
	return ""
}

// memberKind is what a name may be in a block: of what is unknown, objects are blocks.
type memberKind int

const (
	unknown memberKind = iota
	argument
	block
)

// member returns what the name at the end of a path may be in a type of block, and if that is a
// block, its own type, nil where nothing is known of what is in it, and how many labels it has.
func member(in reflect.Type, path string) (of reflect.Type, labels int, kind memberKind) {
	name := path[strings.LastIndexByte(path, '.')+1:]
	for f := range in.Fields() {
		switch f.Tag.Get("hcl") {
		case name + ",optional":
			return nil, 0, argument
		case name + ",block":
			for of = f.Type; of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice; {
				of = of.Elem()
			}
			for field := range of.Fields() {
				switch tag := field.Tag.Get("hcl"); {
				case strings.HasSuffix(tag, ",label"):
					labels++
				case strings.HasSuffix(tag, ",remain"):
					return nil, labels, block
				}
			}
			return of, labels, block
		}
	}
	if slices.ContainsFunc(nomadKeys, func(k NomadKey) bool { return strings.HasPrefix(k.Key, path+` "`) }) {
		labels = 1
	}
	return nil, labels, unknown
}
