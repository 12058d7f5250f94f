package config

import (
	"errors"
	"fmt"
	"strings"

	sockaddr "github.com/hashicorp/go-sockaddr/template"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/wasmnode/wasmnode/internal/hclvalue"
)

// addressKeys are the keys whose texts may be templates of go-sockaddr, as in Nomad: with the
// addresses and interfaces that the machine has when the file is read. True: it may be several.
var addressKeys = map[string]bool{
	"bind_addr":                     false,
	"addresses.http":                true,
	"client.servers":                true,
	"client.server_join.retry_join": true,
	"client.host_network.cidr":      false,
	"client.host_network.interface": false,
}

// addresses puts what templates say in their place, before anything else looks at it.
func (l *loader) addresses(body *hclsyntax.Body, path string) {
	for name, a := range body.Attributes {
		if several, is := addressKeys[path+name]; is {
			a.Expr = l.addressesOf(a.Expr, path+name, several)
		}
	}
	for _, b := range body.Blocks {
		l.addresses(b.Body, path+b.Type+".")
	}
}

// addressesOf resolves a text or each of a list, of which several may become of one. What is neither,
// or cannot be evaluated, is found where it is decoded.
func (l *loader) addressesOf(expr hclsyntax.Expression, key string, several bool) hclsyntax.Expression {
	v, diags := expr.Value(nil)
	switch {
	case diags.HasErrors() || v.IsNull():
		return expr
	case v.Type() == cty.String:
		list := l.address(v.AsString(), key, several, expr.Range())
		return &hclsyntax.LiteralValueExpr{Val: cty.StringVal(strings.Join(list, " ")), SrcRange: expr.Range()}
	case !v.Type().IsTupleType():
		return expr
	}
	all := []cty.Value{}
	for i, item := range v.AsValueSlice() {
		if item.IsNull() || item.Type() != cty.String {
			return expr
		}
		at := expr.Range()
		if list, ok := expr.(*hclsyntax.TupleConsExpr); ok { // not of JSON
			at = list.Exprs[i].Range()
		}
		for _, address := range l.address(item.AsString(), key, several, at) {
			all = append(all, cty.StringVal(address))
		}
	}
	return &hclsyntax.LiteralValueExpr{Val: cty.TupleVal(all), SrcRange: expr.Range()}
}

// address returns what a text says, itself if it is no template.
func (l *loader) address(text, key string, several bool, at hcl.Range) []string {
	list, err := []string{text}, error(nil)
	switch {
	case isTemplate(text):
		list, err = resolve(text, several)
	case !several && len(strings.Fields(text)) > 1:
		err = fmt.Errorf("%q is several, and one is needed", text)
	}
	if err != nil {
		l.diags = append(l.diags, hclvalue.Errorf(at, "%s: %s", key, err)...)
	}
	return list
}

func isTemplate(text string) bool { return strings.Contains(text, "{{") }

// resolve renders a template of go-sockaddr. It is the operator's own, and not bounded.
func resolve(text string, several bool) ([]string, error) {
	out, err := sockaddr.Parse(text)
	list := strings.Fields(out)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %s", text, reason(err))
	case len(list) == 0:
		return nil, fmt.Errorf("%s: the machine has no such address or interface", text)
	case len(list) > 1 && !several:
		return nil, fmt.Errorf("%s is several, %s, and one is needed", text, strings.Join(list, " "))
	}
	return list, nil
}

// reason is an error without what repeats the template, and without its place in it.
func reason(err error) string {
	for next := err; next != nil; next = errors.Unwrap(next) {
		err = next
	}
	said := strings.TrimPrefix(strings.Join(strings.Fields(err.Error()), " "), "template: sockaddr.Parse:")
	return strings.TrimLeft(said, "0123456789: ")
}
