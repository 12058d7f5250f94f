package httpapi

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wasmnode/wasmnode/httpapi/access"
	"github.com/wasmnode/wasmnode/internal/acl"
)

// Unguarded is an API without its guard.
func Unguarded(cfg Config) http.Handler { return http.HandlerFunc(newHandler(cfg).serveAnybody) }

// serveAnybody serves whoever asks.
func (h *handler) serveAnybody(w http.ResponseWriter, r *http.Request) {
	h.mux.ServeHTTP(w, withCaller(r, &caller{rights: acl.Everything(), enough: true}))
}

// Enterprise are the paths of what Nomad's community edition does not have.
var Enterprise = enterprise

// Unmade is what is answered of what cannot be made here.
var Unmade = slices.Collect(maps.Values(unmade))

// Endpoint is a method of a path that is served. The path has its values in braces.
type Endpoint struct {
	Method, Path string
	// Own are the parameters that it takes besides those that all take.
	Own []string
	access.Route
}

// Everywhere are the parameters that every endpoint takes.
func Everywhere() []string { return strings.Fields(everywhere) }

// Endpoints are all that is served, in the order of their registration. What can follow the
// ID of a job or of a node is found by asking for it: no pattern names it.
func Endpoints(cfg Config) (all []Endpoint) {
	h := newHandler(cfg)
	for _, route := range h.routes {
		method, pattern, _ := strings.Cut(route, " ")
		add := func(path, verb string) {
			needs := h.routeFor(httptest.NewRequest(method, strings.NewReplacer("{", "", "}", "", "...", "").Replace(path), nil))
			all = append(all, Endpoint{method, path, taken(method, pattern, verb)[len(Everywhere()):], needs})
		}
		switch {
		case pattern == jobPattern:
			for _, verb := range append([]string{""}, append(jobVerbs, verbTag)...) {
				path := strings.TrimSuffix("/v1/job/{id}/"+strings.Replace(verb, verbTag, "versions/{name}/tag", 1), "/")
				if h.serves(method, path) {
					add(path, verb)
				}
			}
		case strings.HasSuffix(pattern, "{verb}"):
			for _, verb := range []string{"allocations", "drain", "eligibility", "evaluate", "purge"} {
				if path := strings.Replace(pattern, "{verb}", verb, 1); h.serves(method, path) {
					add(path, "")
				}
			}
		default:
			add(strings.Replace(pattern, "...", "", 1), "")
		}
	}
	return all
}

// serves reports whether a path with a method is more than one that is not there.
func (h *handler) serves(method, path string) bool {
	answer := httptest.NewRecorder()
	h.serveAnybody(answer, httptest.NewRequest(method, strings.NewReplacer("{", "", "}", "").Replace(path), nil))
	return answer.Code != http.StatusMethodNotAllowed && !strings.HasPrefix(answer.Body.String(), "no such endpoint")
}

// MaxHandshakes is how many websockets may wait for their clients' tokens.
const MaxHandshakes = maxHandshakes

// SetHandshakeTime has the clients of APIs that are made from now on, until the test ends, have
// another time to show a token.
func SetHandshakeTime(t *testing.T, d time.Duration) {
	before := handshakeTime
	handshakeTime = d
	t.Cleanup(func() { handshakeTime = before })
}
