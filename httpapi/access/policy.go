package access

import (
	"net/http"
	"slices"
	"strings"

	"github.com/wasmnode/wasmnode/structs"
)

// Level is how much a caller may do, or has to be allowed to for what it asks. A higher
// level includes the lower ones.
type Level int

// The levels.
const (
	Anyone  Level = iota // without a token
	Reader               // a token that may read everything
	Manager              // a token that may do everything
)

// Route is what is asked for.
type Route struct {
	// Needs is the least level that it is served to where ACLs are on.
	Needs Level
	// Ruled marks what the rules of a token's policies can allow, too; they are looked at with
	// what is asked for.
	Ruled bool
	// Changes marks what changes something though its method is GET. No browser gets it.
	Changes bool
}

// Policy is who may ask. The zero value serves whoever reaches the API by an address or
// as localhost. It is safe for concurrent use.
type Policy struct {
	// Hosts are names by which the node may be asked, without a port, besides addresses
	// and localhost.
	Hosts []string
	// Token finds the token of a secret that a caller shows; nil: ACLs are off. Its errors
	// go to the caller. It is not called for an empty secret.
	Token func(secret string) (*structs.ACLToken, error)
	// Rules are those of a token's policies; nil: there are none. The built-in policy has none.
	Rules func(*structs.ACLToken) []*Rules
}

// Refusal is why a request is not served. Error is one sentence for the caller.
type Refusal struct {
	Status int    // of HTTP
	Reason string // one of few words, for metrics
	Text   string
}

// Error implements error.
func (r *Refusal) Error() string { return r.Text }

func forbidden(reason, text string) *Refusal {
	return &Refusal{http.StatusForbidden, reason, text}
}

// Check decides whether a request may have what the route is. It returns the caller's
// rights, nil without a token. Of the request only the method, the host and
// the header are looked at. Errors that are no [Refusal] are those of Token.
func (p *Policy) Check(r *http.Request, route Route) (*Rights, error) {
	if !p.knows(r.Host) {
		return nil, forbidden("host", unknownHost(r.Host))
	}
	if foreign(r) {
		return nil, forbidden("origin", "requests from other web pages are refused: the origin of this one is not this node")
	}
	if route.Changes && fromBrowser(r) {
		return nil, forbidden("browser", "this request changes something and comes from a web browser: send it with PUT from this node's own page")
	}
	return p.authorize(r, route)
}

// authorize compares what the caller's token allows with what is needed.
func (p *Policy) authorize(r *http.Request, route Route) (*Rights, error) {
	if p.Token == nil {
		return Everything(), nil
	}
	if route.Needs == Anyone {
		return nil, nil
	}
	token, err := p.Caller(r)
	if err != nil {
		return nil, err
	}
	level := levelOf(token)
	if token == nil || level < route.Needs && !route.Ruled {
		return nil, ErrDenied
	}
	if p.Rules == nil {
		return RightsOf(level), nil
	}
	return RightsOf(level, p.Rules(token)...), nil
}

// ErrDenied refuses what the caller's token, or its lack of one, does not allow.
var ErrDenied error = forbidden("permission", structs.ErrACLDenied.Error())

// Caller returns the token of whoever sent the request; nil: it shows none, or ACLs are
// off. Errors are those of Token.
func (p *Policy) Caller(r *http.Request) (*structs.ACLToken, error) {
	secret := Secret(r.Header)
	if p.Token == nil || secret == "" {
		return nil, nil
	}
	return p.Token(secret)
}

// levelOf is what a token allows; nil: what is allowed without one.
func levelOf(t *structs.ACLToken) Level {
	switch {
	case t == nil:
		return Anyone
	case t.Type == structs.ACLManagement:
		return Manager
	}
	if slices.Contains(t.Policies, structs.ACLReadOnly) {
		return Reader
	}
	return Anyone
}

// TokenHeader is the header in which Nomad's tools send a token's secret.
const TokenHeader = "X-Nomad-Token"

// Secret is the secret that a caller shows; empty: none. Like Nomad's, its own header
// goes before the standard one.
func Secret(h http.Header) string {
	if secret := strings.TrimSpace(h.Get(TokenHeader)); secret != "" {
		return secret
	}
	scheme, secret, _ := strings.Cut(strings.TrimSpace(h.Get("Authorization")), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(secret)
}
