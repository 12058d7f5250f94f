package httpapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/wasmnode/wasmnode/httpapi/access"
	"github.com/wasmnode/wasmnode/internal/acl"
	"github.com/wasmnode/wasmnode/structs/errdefs"
)

// Servers are those of the cluster that the node is a client of. All methods may be called
// concurrently.
type Servers interface {
	// Ask asks a server on behalf of whoever shows a token; it may leave the answer open for as
	// long as wait. decode reads the answer, until done is called, which has to be. An error that has an
	// HTTPStatus is the server's answer.
	Ask(ctx context.Context, method, token string, wait time.Duration, args map[string]any) (decode func(any) error, done func(), err error)
	// TokenRules are the rules of the policies that a token has, as the servers know it; with
	// everything, it may do everything.
	TokenRules(ctx context.Context, token string) (rules []string, everything bool, err error)
	// Connected is the RPC address of the server that answers now; empty: none does.
	Connected() string
	// Addresses are the RPC addresses of those that are known.
	Addresses() []string
}

// ofClient reports whether a node of a cluster answers an endpoint itself, as Nomad's client does:
// what is of the agent, and of the allocations that it runs.
func ofClient(path string) bool {
	switch path {
	case "/v1/agent/members", "/v1/agent/join", "/v1/agent/force-leave", "/v1/agent/schedulers", "/v1/agent/schedulers/config":
		return false
	case "/v1/allocation/{id}/checks", "/v1/metrics":
		return true
	}
	return strings.HasPrefix(path, "/v1/client/") || strings.HasPrefix(path, "/v1/agent/") && !strings.HasPrefix(path, "/v1/agent/keyring/")
}

// elsewhere reports whether an endpoint is the servers'.
func (h *handler) elsewhere(path string) bool { return h.Servers != nil && !ofClient(path) }

// askServers has a server answer a request; what is not passed on is refused.
func (h *handler) askServers(method, pattern string, w http.ResponseWriter, r *http.Request) error {
	if method == http.MethodPost {
		method = http.MethodPut
	}
	if pattern == jobPattern {
		_, verb := jobPath(r)
		pattern += "/" + verb
	}
	ask := asked[method+" "+pattern]
	if ask == nil {
		return h.askElsewhere()
	}
	return ask(h, w, r)
}

// askElsewhere refuses what a client of a cluster does not pass on.
func (h *handler) askElsewhere() error {
	return &statusError{http.StatusNotImplemented, "this node is a client of a cluster and does not pass this on: " + h.whomToAsk()}
}

// notHere is the error for an allocation that is not known here, which begins with Nomad's text. One
// of a cluster may be on another node, which servers know.
func (h *handler) notHere(id string) error {
	if h.Servers == nil {
		return notFound("Unknown allocation %q", id)
	}
	return notFound("Unknown allocation %q on this node of a cluster: %s", id, h.whomToAsk())
}

// whomToAsk names a server for what the node does not answer.
func (h *handler) whomToAsk() string {
	text := "ask one of its servers"
	if host, _, err := net.SplitHostPort(cmp.Or(h.Servers.Connected(), h.Servers.Addresses()[0])); err == nil {
		text += fmt.Sprintf(", such as %s (HTTP is on port 4646 unless they say otherwise)", host)
	}
	return text
}

// rightsAtServers are the rights of whoever shows a secret, by the policies that the servers know.
func rightsAtServers(s Servers) func(ctx context.Context, secret string) (*acl.Rights, error) {
	return func(ctx context.Context, secret string) (*acl.Rights, error) {
		texts, everything, err := s.TokenRules(ctx, secret)
		if err != nil {
			return nil, statusOfServers(err)
		}
		if everything {
			return acl.Everything(), nil
		}
		rules := make([]*acl.Rules, 0, len(texts))
		for _, text := range texts {
			parsed, err := acl.ParseRules(text)
			if err != nil { // it may be the one that denies
				return nil, fmt.Errorf("a policy of the servers is not understood: %w", err)
			}
			rules = append(rules, parsed)
		}
		return acl.RightsOf(acl.Anyone, rules...), nil
	}
}

// answered is an error that is a server's answer.
type answered interface {
	error
	HTTPStatus() int
}

// statusOfServers gives an error of a server the status that it has.
func statusOfServers(err error) error {
	var a answered
	if errors.As(err, &a) {
		return &statusError{a.HTTPStatus(), a.Error()}
	}
	return err
}

// told is what every answer of a server has.
type told struct {
	Index       uint64
	KnownLeader bool
	LastContact time.Duration
	NextToken   string
}

// ask asks a server what a request asks, with further arguments.
func (h *handler) ask(r *http.Request, method string, args map[string]any) (decode func(any) error, done func(), err error) {
	q, err := parseQuery(r)
	if err != nil {
		return nil, nil, err
	}
	v := r.URL.Query()
	stale, _ := boolParameter(r, "stale") // parseQuery has looked at it
	all := map[string]any{
		"Namespace": q.namespace, "Prefix": q.prefix, "Filter": v.Get("filter"), "NextToken": q.nextToken, "Reverse": q.reverse,
		"AllowStale": stale, "MinQueryIndex": q.minIndex,
	}
	if q.perPage > 0 {
		all["PerPage"] = int32(min(q.perPage, maxPage))
	}
	for name, value := range args {
		all[name] = value
	}
	wait := q.wait
	if q.minIndex == 0 {
		wait = 0
	} else if err := becomeStream(r); err != nil {
		return nil, nil, err
	}
	decode, done, err = h.Servers.Ask(r.Context(), method, access.Secret(r.Header), wait, all)
	if errdefs.ClassOf(err) == errdefs.Unavailable { // the log has it once, from who keeps the connection
		h.Logger.Debug("no server answers what is passed on", "method", r.Method, "path", r.URL.Path, "error", err)
		err = &statusError{http.StatusServiceUnavailable, err.Error()}
	}
	return decode, done, statusOfServers(err)
}
