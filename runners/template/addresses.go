package template

import (
	"errors"
	"fmt"
	"strings"

	sockaddr "github.com/hashicorp/go-sockaddr/template"
)

// The bounds of what a rendering asks about the machine's addresses: some of it runs the program ip.
const (
	maxAddressQueries = 16
	maxAddressQuery   = 1 << 10
)

// sockaddr renders an expression of go-sockaddr, as consul-template does. It is one expression, and so
// ends: texts with actions of their own, which could be loops, are refused.
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
	out, err := sockaddr.Parse("{{ " + query + " }}")
	if err != nil {
		return "", err
	}
	if r.addresses == nil {
		r.addresses = map[string]string{}
	}
	r.addresses[query] = out
	return out, r.spend(len(out))
}
