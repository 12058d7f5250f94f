package httpapi

import (
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/wasmnode/wasmnode/httpapi/access"
	"github.com/wasmnode/wasmnode/internal/acl"
)

// open are the routes that need no token, as in Nomad. Those for tokens look at the
// caller's themselves.
var open = map[string]bool{
	"GET /v1/agent/health":         true,
	"GET /v1/metrics":              true,
	"GET /v1/regions":              true,
	"GET /v1/status/leader":        true,
	"GET /v1/status/peers":         true,
	"PUT /v1/acl/bootstrap":        true,
	"POST /v1/acl/bootstrap":       true,
	"GET /v1/acl/token/self":       true,
	"GET /v1/acl/token/{accessor}": true,
	"GET /v1/acl/policy/self":      true,
	"GET " + jwksPath:              true,
	"GET " + discoveryPath:         true,
	"/":                            true, // there is no such route
}

// readingWrites are the routes that change nothing though their method is not GET.
var readingWrites = map[string]bool{
	"PUT /v1/search":         true,
	"POST /v1/search":        true,
	"PUT /v1/search/fuzzy":   true,
	"POST /v1/search/fuzzy":  true,
	"PUT /v1/validate/job":   true,
	"POST /v1/validate/job":  true,
	"PUT /v1/jobs/statuses":  true,
	"POST /v1/jobs/statuses": true,
}

// changingReads are the routes that change something though Nomad's own Go client asks
// for them with GET, or their answer is a stream.
var changingReads = map[string]bool{
	"GET /v1/client/gc":                 true,
	"GET /v1/client/allocation/{id}/gc": true,
	// While a plugin is recorded, each of its calls has an instance of its own.
	"GET /v1/agent/plugin/{name}/record": true,
}

// managerReads are the other routes that reading is not enough for: they run something, or
// show the tokens, the variables or the machine.
var managerReads = map[string]bool{
	"GET /v1/client/allocation/{id}/exec": true,
	"GET /v1/acl/tokens":                  true,
	"GET /v1/agent/pprof/{profile}":       true,
	"GET /v1/agent/host":                  true,
	"GET /v1/agent/monitor/export":        true,
	"GET /v1/vars":                        true,
	"GET /v1/var/{path...}":               true,
	"GET /v1/operator/keyring/keys":       true,
}

// taskReads are the routes of which a task is served its own part with its identity.
var taskReads = map[string]bool{
	"GET /v1/vars":           true,
	"GET /v1/var/{path...}":  true,
	"GET /v1/services":       true,
	"GET /v1/service/{name}": true,
}

// snapshots is the path of copies of the control plane's file, which has everything: also
// the hashes of the tokens.
const snapshots = "/v1/operator/snapshot"

// routeOf is what the route of a pattern needs.
func routeOf(pattern string) access.Route {
	method, path, _ := strings.Cut(pattern, " ")
	route := access.Route{Changes: changingReads[pattern], Tasks: taskReads[pattern]}
	switch {
	case open[pattern]:
		route.Needs = acl.Anyone
	case readingWrites[pattern]:
		route.Needs = acl.Reader
	case method != http.MethodGet, route.Changes, managerReads[pattern], strings.HasPrefix(path, snapshots):
		route.Needs = acl.Manager
	default:
		route.Needs = acl.Reader
	}
	return route
}

// routeFor is what a request's route needs.
func (h *handler) routeFor(r *http.Request) access.Route {
	_, pattern := h.mux.Handler(r)
	route := routeOf(pattern)
	if pattern == "GET "+jobPattern && strings.HasSuffix(r.URL.Path, "/action") {
		route.Needs = acl.Manager // it runs something
	}
	if method, path, ok := strings.Cut(pattern, " "); ok {
		if h.elsewhere(path, r) {
			return access.Route{Elsewhere: true, Changes: route.Changes}
		}
		route.Ruled = ruled(method, path)
	}
	return route
}

// ServeHTTP serves what the policy allows, within the bounds. It implements
// [http.Handler].
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c, err := h.callerNow(r)
	if err != nil {
		h.refuse(w, r, err)
		return
	}
	asked := r
	r = withCaller(r, c)
	defer func() { asked.Pattern = r.Pattern }() // the metrics are by that
	seat, err := h.Bounds.Enter(r)
	if err != nil {
		h.refuse(w, r, err)
		return
	}
	defer seat.Leave()
	// The last request on this connection has left its own.
	deadlines := http.NewResponseController(w)
	_ = deadlines.SetWriteDeadline(time.Time{}) // errors: the server has none of its own
	if r.ContentLength != 0 {
		// For the body alone: the server lifts it when that is all there.
		_ = deadlines.SetReadDeadline(time.Now().Add(h.Bounds.BodyTimeout()))
		r.Body = &body{r.Body, seat}
	}
	h.mux.ServeHTTP(w, r)
}

// callerNow finds out who sent a request that the policy allows, and with which rights.
func (h *handler) callerNow(r *http.Request) (*caller, error) {
	_, pattern := h.mux.Handler(r)
	if !handshakes(r, pattern) {
		return h.callerFor(r, h.routeFor(r))
	}
	if _, err := h.policy.Check(r, ofHandshake); err != nil {
		return nil, err
	}
	return &caller{later: true, elsewhere: h.routeFor(r).Elsewhere}, nil
}

// callerFor is callerNow of a request that shows all that it has to show.
func (h *handler) callerFor(r *http.Request, route access.Route) (*caller, error) {
	by, err := h.policy.Check(r, route)
	if err != nil {
		return nil, err
	}
	c := &caller{rights: by.Rights, enough: by.Rights.Level() >= route.Needs, elsewhere: route.Elsewhere}
	if h.ACL {
		c.task, c.part = by.Workload, by.Workload != nil && route.Tasks
	}
	return c, nil
}

// becomeStream is for a request with a body, once that is read, that will wait for a change: it
// is not one of those any more of which there can be few.
func becomeStream(r *http.Request) error {
	b, is := r.Body.(*body)
	if !is {
		return nil
	}
	return b.seat.Become(access.Streams)
}

// refuse answers a request that is not served. Its connection ends with it where that
// is what there are too many of, or where a body would have to be read to go on.
func (h *handler) refuse(w http.ResponseWriter, r *http.Request, err error) {
	reason := "token"
	if refused := (*access.Refusal)(nil); errors.As(err, &refused) {
		reason = refused.Reason
	} else {
		h.Bounds.Count(reason)
	}
	if reason == "connections" || r.ContentLength != 0 {
		w.Header().Set("Connection", "close")
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(lingerTime))
	}
	h.fail(w, r, err)
}

// body is a request's, with an error of ours when it does not arrive in time, and with the
// place that the request has for it.
type body struct {
	io.ReadCloser
	seat *access.Seat
}

// Read implements [io.Reader].
func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = &statusError{http.StatusRequestTimeout, "request body: it did not arrive in time"}
	}
	return n, err
}

// ruled reports whether rules can allow anything of a pattern.
func ruled(method, pattern string) bool {
	if method == http.MethodPost {
		method = http.MethodPut
	}
	return pattern == jobPattern || needs[method+" "+pattern] != nil
}

// policy is what the configuration says of who may ask.
func policy(cfg Config) *access.Policy {
	p := &access.Policy{Hosts: cfg.Hosts, Workload: cfg.ControlPlane.VerifyIdentity}
	switch {
	case cfg.Servers != nil:
		if cfg.ACL {
			p.Rights = rightsAtServers(cfg.Servers)
		}
	case cfg.ACL:
		p.Token = cfg.ControlPlane.ResolveACLToken
		p.Policies = func(c access.Caller) []string { return policiesOf(cfg.ControlPlane, c) }
		p.Rules = cfg.ControlPlane.ACLRules
	}
	return p
}

// replyTimeout is how long a client may take to read an answer that is not a stream.
const replyTimeout = time.Minute
