package access

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/wasmnode/wasmnode/internal/acl"
	"github.com/wasmnode/wasmnode/structs"
)

// Route is what is asked for.
type Route struct {
	// Needs is the least level that it is served to where ACLs are on.
	Needs acl.Level
	// Ruled marks what the rules of a token's policies can allow, too; they are looked at with
	// what is asked for.
	Ruled bool
	// Changes marks what changes something though its method is GET. No browser gets it.
	Changes bool
	// Tasks marks what a task is served with its identity, which then is given only its part.
	Tasks bool
	// Elsewhere marks what somebody else answers, who looks at the caller's token.
	Elsewhere bool
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
	// Policies names the policies of a caller that is known; nil: those of its token.
	Policies func(Caller) []string
	// Rules are those of policies; nil: they have none. The built-in one has none.
	Rules func(policies []string) []*acl.Rules
	// Workload verifies the token of a task's identity, as Token does; nil: there are none.
	Workload func(token string) (*structs.Workload, error)
	// Rights are those of whoever shows a secret, or none, where somebody else knows that; nil:
	// Token does. Its errors go to the caller.
	Rights func(ctx context.Context, secret string) (*acl.Rights, error)
	// Tasks has nobody served without a token that is good, also where ACLs are off.
	Tasks bool
}

// Caller is who sent a request: the holder of a token, or a task. The zero value shows none, or
// ACLs are off.
type Caller struct {
	Token    *structs.ACLToken
	Workload *structs.Workload
	// Rights are what Check found that the caller may do; nil: what everybody may.
	Rights *acl.Rights
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

// Check decides whether a request may have what the route is, and returns its caller, with its
// rights. Of the request only the method, the host and the header are looked at. Errors that are
// no [Refusal] are those of Token and Workload.
func (p *Policy) Check(r *http.Request, route Route) (Caller, error) {
	if !p.knows(r.Host) {
		return Caller{}, forbidden("host", unknownHost(r.Host))
	}
	if foreign(r) {
		return Caller{}, forbidden("origin", "requests from other web pages are refused: the origin of this one is not this node")
	}
	if route.Changes && fromBrowser(r) {
		return Caller{}, forbidden("browser", "this request changes something and comes from a web browser: send it with PUT from this node's own page")
	}
	switch {
	case p.Tasks && Secret(r.Header) == "":
		return Caller{}, &Refusal{http.StatusUnauthorized, "token", "Unauthorized: show the task's token in the header " + TokenHeader}
	case route.Elsewhere && !p.Tasks:
		return Caller{}, nil
	case p.Token == nil && p.Rights == nil && !p.Tasks:
		return Caller{Rights: acl.Everything()}, nil
	case route.Needs == acl.Anyone && !p.Tasks:
		return Caller{}, nil
	}
	if p.Rights != nil {
		return p.ask(r, route)
	}
	return p.authorize(r, route)
}

// ask has somebody else tell what the caller may do.
func (p *Policy) ask(r *http.Request, route Route) (Caller, error) {
	rights, err := p.Rights(r.Context(), Secret(r.Header))
	if err != nil {
		return Caller{}, err
	}
	if rights.Level() < route.Needs && !route.Ruled {
		return Caller{}, ErrDenied
	}
	return Caller{Rights: rights}, nil
}

// authorize compares what the caller's token allows with what is needed.
func (p *Policy) authorize(r *http.Request, route Route) (c Caller, err error) {
	if c, err = p.Caller(r); err != nil {
		return Caller{}, err
	}
	policies := p.policiesOf(c)
	level := levelOf(c.Token, policies)
	switch {
	case p.Token == nil:
		c.Rights = acl.Everything()
		return c, nil
	case c.Workload != nil && (route.Tasks || route.Needs == acl.Anyone || route.Ruled && len(policies) > 0):
	case c.Token == nil, level < route.Needs && !route.Ruled:
		return Caller{}, ErrDenied
	}
	var rules []*acl.Rules
	if p.Rules != nil {
		rules = p.Rules(policies)
	}
	c.Rights = acl.RightsOf(level, rules...)
	if c.Workload != nil {
		c.Rights = c.Rights.WithOwn(c.Workload.MayReadVariable)
	}
	return c, nil
}

// policiesOf names the policies of a caller.
func (p *Policy) policiesOf(c Caller) []string {
	switch {
	case p.Policies != nil:
		return p.Policies(c)
	case c.Token != nil:
		return c.Token.Policies
	}
	return nil
}

// ErrDenied refuses what the caller's token, or its lack of one, does not allow.
var ErrDenied error = forbidden("permission", structs.ErrACLDenied.Error())

// Caller returns who sent a request, without its rights. Errors are those of Token and Workload.
func (p *Policy) Caller(r *http.Request) (c Caller, err error) {
	secret := Secret(r.Header)
	switch {
	case secret == "", p.Token == nil && !p.Tasks:
	case p.Workload != nil && IsIdentity(secret):
		c.Workload, err = p.Workload(secret)
	case p.Token == nil:
		err = structs.ErrACLTokenNotFound
	default:
		c.Token, err = p.Token(secret)
	}
	return c, err
}

// IsIdentity reports whether a secret has the form of a task's token: three parts. That of an ACL
// token is a UUID.
func IsIdentity(secret string) bool { return strings.Count(secret, ".") == 2 }

// levelOf is what a token with some policies allows; nil: what is allowed without one.
func levelOf(t *structs.ACLToken, policies []string) acl.Level {
	switch {
	case t == nil:
		return acl.Anyone
	case t.Type == structs.ACLManagement:
		return acl.Manager
	case slices.Contains(policies, structs.ACLReadOnly):
		return acl.Reader
	}
	return acl.Anyone
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
