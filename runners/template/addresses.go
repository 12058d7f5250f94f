package template

import (
	"errors"
	"fmt"
	"strings"
	"text/template"
	"text/template/parse"

	"github.com/hashicorp/go-sockaddr"
)

// The bounds of what a rendering asks about the machine's addresses.
const (
	maxAddressQueries = 16
	maxAddressQuery   = 1 << 10
	// maxAddresses bounds the addresses that alternatives of include and exclude make of fewer.
	maxAddresses = 1 << 14
	// maxAddressText bounds what join puts between addresses.
	maxAddressText = 64 << 10
)

// sockaddr renders an expression of go-sockaddr, as consul-template does. It is one pipeline of its
// functions, and so ends: those of text/template, of which printf makes gigabytes of a few
// bytes, are not there.
func (r *rendering) sockaddr(args ...string) (string, error) {
	query := strings.Join(args, " ")
	if out, ok := r.addresses[query]; ok {
		return out, r.spend(len(out))
	}
	switch {
	case len(query) > maxAddressQuery:
		return "", fmt.Errorf("the expression has %d bytes, more than %d", len(query), maxAddressQuery)
	case strings.Contains(query, "{{") || strings.Contains(query, "}}"):
		return "", errors.New("it takes one expression, without {{ and }}")
	case len(r.addresses) == maxAddressQueries:
		return "", fmt.Errorf("it asks for more than %d different addresses", maxAddressQueries)
	}
	out, err := r.askAddresses(query)
	if err != nil {
		return "", err
	}
	if r.addresses == nil {
		r.addresses = map[string]string{}
	}
	r.addresses[query] = out
	return out, r.spend(len(out))
}

func (r *rendering) askAddresses(query string) (string, error) {
	const name = "sockaddr"
	functions := r.addressFunctions()
	trees, err := parse.Parse(name, "{{ "+query+" }}", "", "", functions)
	if err != nil {
		return "", err
	}
	root := trees[name].Root
	if len(trees) != 1 || len(root.Nodes) != 1 || root.Nodes[0].Type() != parse.NodeAction {
		return "", errors.New("it takes one expression, without statements")
	}
	all, err := sockaddr.GetAllInterfaces()
	if err != nil {
		return "", err
	}
	asked, err := template.New(name).Funcs(functions).AddParseTree(name, trees[name])
	if err != nil {
		return "", err
	}
	out := &limited{left: maxOutput}
	err = asked.Execute(out, all)
	return out.String(), err
}

// addressFunctions are all of go-sockaddr's. Those that it looks up the default route for by the
// program ip, once for each comparison, ask the kernel here; the others are bounded.
func (r *rendering) addressFunctions() template.FuncMap {
	f := template.FuncMap{
		"GetAllInterfaces": sockaddr.GetAllInterfaces, "GetDefaultInterfaces": defaultAddresses,
		"GetPrivateInterfaces": privateAddresses, "GetPublicInterfaces": publicAddresses,
		"GetPrivateIP":  func() (string, error) { return firstAddress(privateAddresses()) },
		"GetPublicIP":   func() (string, error) { return firstAddress(publicAddresses()) },
		"GetPrivateIPs": sockaddr.GetPrivateIPs, "GetPublicIPs": sockaddr.GetPublicIPs,
		"GetInterfaceIP": sockaddr.GetInterfaceIP, "GetInterfaceIPs": sockaddr.GetInterfaceIPs,
		"attr": sockaddr.IfAttrs, "join": joinAddresses, "sort": sortAddresses,
		"include": chooseAddresses(sockaddr.IncludeIfs), "exclude": chooseAddresses(sockaddr.ExcludeIfs),
		"limit": sockaddr.LimitIfAddrs, "offset": sockaddr.OffsetIfAddrs, "unique": sockaddr.UniqueIfAddrsBy, "math": sockaddr.IfAddrsMath,
	}
	for name, fn := range f {
		f[name] = r.bounded(fn, func(*rendering, []any, size) (int, error) { return 0, nil })
	}
	return f
}

// chooseAddresses is include or exclude. An address comes out once for each alternative that it is
// chosen by.
func chooseAddresses(choose func(by, what string, in sockaddr.IfAddrs) (sockaddr.IfAddrs, error)) any {
	return func(by, what string, in sockaddr.IfAddrs) (sockaddr.IfAddrs, error) {
		if more := strings.Count(what, "|"); more > 0 && len(in)*(1+more) > maxAddresses {
			return nil, fmt.Errorf("%d alternatives for each of %d addresses are more than %d", 1+more, len(in), maxAddresses)
		}
		return choose(by, what, in)
	}
}

func joinAddresses(attribute, between string, in sockaddr.IfAddrs) (string, error) {
	if len(in)*len(between) > maxAddressText {
		return "", fmt.Errorf("%d addresses with %d bytes between are more than %d bytes", len(in), len(between), maxAddressText)
	}
	return sockaddr.JoinIfAddrs(attribute, between, in)
}

func firstAddress(of sockaddr.IfAddrs, err error) (string, error) {
	if err != nil {
		return "", err
	}
	return sockaddr.IfAttrs("address", of) // empty of none
}
