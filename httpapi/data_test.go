package httpapi_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/httpapi/access"
)

// TestAPageIsJSONForPrograms asks for pages as programs do, with a token that sees everything and
// with one that does not.
func TestAPageIsJSONForPrograms(t *testing.T) {
	d := divide(t)
	d.runs(t, d.of["mine"].alloc)
	terminal := "/ui/allocations/" + d.of["mine"].alloc + "/exec/task"
	for path, want := range map[string]string{
		"/ui/": "/v1/node/node", "/ui/jobs": "/v1/jobs/statuses", "/ui/jobs/web@mine": "/v1/job/web/evaluations?", "/ui/deployments": "/v1/deployments?",
		"/ui/evaluations?status=blocked": "status=blocked", "/ui/plugins": "/v1/agent/plugins", "/ui/clients/node": "/v1/metrics",
		"/ui/allocations/" + d.of["mine"].alloc: "/v1/allocation/" + d.of["mine"].alloc, terminal: "/v1/allocation/",
	} {
		r := d.asked(t, http.MethodGet, path, "Accept", "application/json", access.TokenHeader, d.manager)
		require.Equal(t, http.StatusOK, r.status, path)
		require.Equal(t, "application/json", r.header.Get("Content-Type"), path)
		require.Equal(t, "Accept", r.header.Get("Vary"), path)
		require.NotContains(t, r.body, d.manager, "%s tells a secret", path)
		page := decoded[struct{ Answers map[string]json.RawMessage }](t, r.body)
		found := false
		for asked, answer := range page.Answers {
			found = found || strings.Contains(asked, want)
			direct := d.asked(t, http.MethodGet, asked, access.TokenHeader, d.manager)
			if !strings.HasPrefix(asked, "/v1/metrics") && !strings.HasPrefix(asked, "/v1/client/") { // these are measured anew
				require.JSONEq(t, direct.body, string(answer), asked)
			}
		}
		require.True(t, found, "%s of %s", want, r.body)

		r = d.asked(t, http.MethodGet, path, "Accept", "application/json")
		require.Equal(t, http.StatusForbidden, r.status, path)
		require.Equal(t, "Permission denied", r.body, path)
		r = d.asked(t, http.MethodGet, path, "Accept", "application/json", "Sec-Fetch-Site", "cross-site", access.TokenHeader, d.manager)
		require.Equal(t, http.StatusForbidden, r.status, path)
		r = d.asked(t, http.MethodGet, path, "Accept", "application/json", access.TokenHeader, d.team)
		require.Empty(t, d.told(r.body, path), path)
		r = d.asked(t, http.MethodGet, path, "Accept", "text/html,application/json;q=0.9", access.TokenHeader, d.manager)
		pageOf(t, path, r)
	}
	r := d.asked(t, http.MethodGet, "/ui/jobs/none@mine", "Accept", "application/json", access.TokenHeader, d.manager)
	require.Equal(t, http.StatusNotFound, r.status)
	require.Equal(t, "job not found", r.body)
}
