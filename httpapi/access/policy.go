package access

import (
	"context"
	"net/http"
	"strings"

	"github.com/wasmnode/wasmnode/structs"
)

// Level is how much a caller may do, or has to be allowed to for what it asks. A higher
// level includes the lower ones.
type Level int

// The levels.
const (
	Anyone  Level = iota // without a token
	Reader               // a token that may read
	Manager              // a token that may do everything
)

// Route is what is asked for.
type Route struct {
	// Needs is the least level that it is served to where ACLs are on.
	Needs Level
	// Changes marks what changes something though its method is GET. No browser gets it.
	Changes bool
	// Tasks marks what a task is served with its identity, which then is given only its part.
	Tasks bool
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
	// Workload verifies the token of a task's identity, as Token does; nil: there are none.
	Workload func(token string) (*structs.Workload, error)
	// Tasks has nobody served without a token that is good, also where ACLs are off.
	Tasks bool
}

// Caller is who sent a request: the holder of a token, or a task. The zero value shows none, or
// ACLs are off.
type Caller struct {
	Token    *structs.ACLToken
	Workload *structs.Workload
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

// Check decides whether a request may have what the route is, and returns its caller. Of the
// request only the method, the host and the header are looked at. Errors that are no [Refusal] are
// those of Token and Workload.
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
	return p.authorize(r, route)
}

// authorize compares what the caller's token allows with what is needed.
func (p *Policy) authorize(r *http.Request, route Route) (Caller, error) {
	if route.Needs == Anyone && !p.Tasks {
		return Caller{}, nil
	}
	if p.Tasks && Secret(r.Header) == "" {
		return Caller{}, &Refusal{http.StatusUnauthorized, "token", "Unauthorized: show the task's token in the header " + TokenHeader}
	}
	caller, err := p.Caller(r)
	switch {
	case err != nil:
		return Caller{}, err
	case p.Token == nil, caller.level() >= route.Needs, caller.Workload != nil && route.Tasks:
		return caller, nil
	}
	return Caller{}, ErrDenied
}

// ErrDenied refuses what the caller's token, or its lack of one, does not allow.
var ErrDenied error = forbidden("permission", structs.ErrACLDenied.Error())

// Caller returns who sent a request. Errors are those of Token and Workload.
func (p *Policy) Caller(r *http.Request) (c Caller, err error) {
	secret := Secret(r.Header)
	switch {
	case secret == "", p.Token == nil && !p.Tasks:
	case p.Workload != nil && isIdentity(secret):
		c.Workload, err = p.Workload(secret)
	case p.Token == nil:
		err = structs.ErrACLTokenNotFound
	default:
		c.Token, err = p.Token(secret)
	}
	return c, err
}

// isIdentity reports whether a secret has the form of a task's token: three parts. That of an ACL
// token is a UUID.
func isIdentity(secret string) bool { return strings.Count(secret, ".") == 2 }

// level is what a caller is allowed everywhere.
func (c Caller) level() Level {
	switch {
	case c.Token == nil:
		return Anyone
	case c.Token.Type == structs.ACLManagement:
		return Manager
	}
	return Reader // there is one policy, and a client token has it
}

type callerKey struct{}

// WithWorkload returns a context for the request of a task that is given only its part.
func WithWorkload(ctx context.Context, w *structs.Workload) context.Context {
	return context.WithValue(ctx, callerKey{}, w)
}

// WorkloadOf returns the task that a request is of; nil: its caller is given everything that it
// asks for.
func WorkloadOf(ctx context.Context) *structs.Workload {
	w, _ := ctx.Value(callerKey{}).(*structs.Workload)
	return w
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
