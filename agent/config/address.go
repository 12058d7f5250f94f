package config

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"unicode"

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

// addressChecks are for what keys have when their templates have been rendered.
var addressChecks = map[string]func(string) error{
	"bind_addr":                     bindFault,
	"addresses.http":                bindFault,
	"client.servers":                serverFault,
	"client.server_join.retry_join": serverFault,
}

// bindFault is why the API cannot listen on what a key says; nil: it may be able to.
func bindFault(bind string) error {
	if strings.HasPrefix(bind, "unix://") {
		return nil // looked at with what else is said of the socket
	}
	fields := strings.Fields(bind)
	for _, address := range fields {
		if _, err := netip.ParseAddr(address); err != nil && strings.ContainsFunc(address, noHostByte) {
			return fmt.Errorf("%q is not an address; 127.0.0.1 is this machine only, 0.0.0.0 every network, and several have spaces between", address)
		}
	}
	if len(fields) == 0 {
		return fmt.Errorf("%q is not an address; 127.0.0.1 is this machine only, 0.0.0.0 every network", bind)
	}
	return nil
}

// noHostByte is what is in no name of a machine.
func noHostByte(r rune) bool {
	return r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("-._", r)
}

// serverFault is why a text names no server; nil: it does.
func serverFault(server string) error {
	host, port, err := net.SplitHostPort(server)
	if err != nil {
		host, port = strings.Trim(server, "[]"), "4647"
	}
	n, err := strconv.Atoi(port)
	switch {
	case strings.Contains(server, "="):
		return fmt.Errorf("%q is not HOST:PORT: others than addresses and names are not looked up", server)
	case err != nil || n < 1 || n > 65535 || host == "" || strings.ContainsFunc(host, unprintable) || strings.Contains(host, "/"):
		return fmt.Errorf("%q is not a server: write HOST or HOST:PORT; the servers' RPC port is 4647", server)
	}
	return nil
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
	if check := addressChecks[key]; check != nil && err == nil {
		for _, one := range list {
			err = errors.Join(err, check(one))
		}
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
