package httpapi

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/controlplane/standalone"
	"github.com/wasmnode/wasmnode/httpapi/access"
	"github.com/wasmnode/wasmnode/internal/acl"
)

var pathValue = regexp.MustCompile(`\{[a-z.]+\}`)

// What a route needs is looked up by its pattern, so a pattern that is not a route's
// would protect nothing.
func TestTheRoutesThatNeedSomethingElseAreThere(t *testing.T) {
	plane, err := standalone.Open(standalone.Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, plane.Close()) }()
	h := newHandler(Config{ControlPlane: plane})
	named := map[string]bool{}
	for _, list := range []map[string]bool{open, readingWrites, changingReads, managerReads} {
		maps.Copy(named, list)
	}
	for pattern := range needs {
		if job := "/v1/job/{rest...}/"; strings.Contains(pattern, job) {
			method, _, _ := strings.Cut(pattern, " ")
			pattern = method + " " + jobPattern
		}
		named[pattern] = true
	}
	require.Greater(t, len(named), 10)
	for pattern := range named {
		method, path, found := strings.Cut(pattern, " ")
		if !found {
			continue // all that is not a route
		}
		_, got := h.mux.Handler(httptest.NewRequest(method, pathValue.ReplaceAllString(path, "x"), nil))
		require.Equal(t, pattern, got)
	}
}

func TestARouteOfWhichNothingIsSaidIsCareful(t *testing.T) {
	for pattern, want := range map[string]acl.Level{
		"GET /v1/anything":          acl.Reader,
		"PUT /v1/anything":          acl.Manager,
		"POST /v1/anything":         acl.Manager,
		"DELETE /v1/anything":       acl.Manager,
		"PATCH /v1/anything":        acl.Manager,
		"/v1/anything":              acl.Manager,
		"GET /v1/operator/snapshot": acl.Manager,
		"GET /v1/operator/other":    acl.Reader,
	} {
		require.Equal(t, access.Route{Needs: want}, routeOf(pattern), pattern)
	}
	require.Equal(t, access.Route{Needs: acl.Manager, Changes: true}, routeOf(http.MethodGet+" /v1/client/gc"))
}
