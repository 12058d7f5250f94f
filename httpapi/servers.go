package httpapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/wasmnode/wasmnode/clientapi"
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
	// Stream starts a streaming request at a server on behalf of whoever shows a token, which ends with
	// ctx, or once it is closed. Errors are as those of Ask.
	Stream(ctx context.Context, method, token string, args map[string]any) (clientapi.ServerStream, error)
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
	case "/v1/allocation/{id}/checks", "/v1/metrics", "/v1/jobs/parse":
		return true
	}
	return slices.Contains(enterprise, path) || strings.HasPrefix(path, "/v1/client/") || strings.HasPrefix(path, "/v1/agent/") && !strings.HasPrefix(path, "/v1/agent/keyring/")
}

// elsewhere reports whether what a request asks is the servers', or of another node.
func (h *handler) elsewhere(pattern string, r *http.Request) bool {
	return h.Servers != nil && (!ofClient(pattern) || h.another(pattern, r))
}

// askServers has a server answer a request; what is not passed on is refused.
func (h *handler) askServers(method, pattern string, w http.ResponseWriter, r *http.Request) error {
	if method == http.MethodPost {
		method = http.MethodPut
	}
	if pattern == jobPattern {
		_, verb := jobPath(r)
		pattern += "/" + verb
	}
	pattern = strings.Replace(pattern, "{verb}", r.PathValue("verb"), 1)
	if ask := asked[method+" "+pattern]; ask != nil {
		return ask(h, w, r)
	}
	for _, table := range []map[string]passedOn{written, writtenACL, ofNodes} {
		ask := table[method+" "+pattern]
		switch {
		case ask == nil:
			continue
		case h.policy.Tasks && !h.ACL:
			return &statusError{http.StatusForbidden, "without ACLs tasks of a cluster may read, and nothing else: nobody could tell what a token allows"}
		}
		return ask(h, w, r)
	}
	return h.askElsewhere()
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

// told is what every answer of a server may have.
type told struct {
	Index       uint64
	KnownLeader *bool // nil: it is no answer to a read
	LastContact time.Duration
	NextToken   string
}

// tell has the header of an answer tell it.
func (t told) tell(header http.Header) {
	if t.Index > 0 {
		header.Set("X-Nomad-Index", strconv.FormatUint(t.Index, 10))
	}
	if t.KnownLeader != nil {
		header.Set("X-Nomad-KnownLeader", strconv.FormatBool(*t.KnownLeader))
		header.Set("X-Nomad-LastContact", strconv.FormatInt(t.LastContact.Milliseconds(), 10))
	}
	if t.NextToken != "" {
		header.Set("X-Nomad-NextToken", t.NextToken)
	}
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
	for argument, parameter := range map[string]string{"Region": "region", "IdempotencyToken": "idempotency_token"} {
		if s := v.Get(parameter); s != "" {
			all[argument] = s
		}
	}
	maps.Copy(all, args)
	wait := time.Duration(0)
	if h.ACL && access.Secret(r.Header) == "" {
		all["MinQueryIndex"] = uint64(0) // who is not known is answered at once
	} else if q.minIndex > 0 {
		wait = cmp.Or(q.wait, defaultWait) // servers take none for the most
		if err := becomeStream(r); err != nil {
			return nil, nil, err
		}
	}
	wait = max(wait, slow[method])
	decode, done, err = h.Servers.Ask(r.Context(), method, access.Secret(r.Header), wait, all)
	return decode, done, h.unanswered(r, err)
}

// slow is what a node has still to do before it is answered, and how long that may take.
var slow = map[string]time.Duration{
	"HostVolume.Create": 5 * time.Minute, "HostVolume.Delete": 5 * time.Minute,
	"ClientAllocations.Restart": time.Minute, "ClientAllocations.GarbageCollect": time.Minute, "ClientAllocations.GarbageCollectAll": time.Minute,
	"Agent.Profile": 10 * time.Minute,
}

// unanswered gives an error of servers the status that it has.
func (h *handler) unanswered(r *http.Request, err error) error {
	if errdefs.ClassOf(err) == errdefs.Unavailable { // the log has it once, from who keeps the connection
		h.Logger.Debug("no server answers what is passed on", "method", r.Method, "path", r.URL.Path, "error", err)
		err = &statusError{http.StatusServiceUnavailable, err.Error()}
	}
	return statusOfServers(err)
}
