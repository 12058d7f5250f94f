package httpapi_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/httpapi"
	"github.com/wasmnode/wasmnode/httpapi/access"
	"github.com/wasmnode/wasmnode/structs"
)

// runs has the node report that the task of an allocation runs.
func (g *guarded) runs(t *testing.T, alloc string) {
	t.Helper()
	require.NoError(t, g.plane.ForNode().UpdateAllocations(t.Context(), "node", []*structs.AllocationState{{
		ID: alloc, ClientStatus: structs.ClientRunning, TaskStates: map[string]*structs.TaskState{"task": {State: structs.TaskRunning}},
	}}))
}

func TestATerminalIsForManagers(t *testing.T) {
	d := divide(t)
	alloc := d.of["mine"].alloc
	d.runs(t, alloc)
	path := "/ui/allocations/" + alloc + "/exec/task"
	for name, c := range map[string]struct {
		secret, text string
		status       int
	}{
		"nobody":     {"", "Permission denied", http.StatusForbidden},
		"a stranger": {"11111111-2222-3333-4444-555555555555", "ACL token not found", http.StatusForbidden},
		"a reader":   {d.reader, "A terminal is for management tokens", http.StatusForbidden},
		"a team":     {d.team, "A terminal is for management tokens", http.StatusForbidden},
		"a manager":  {d.manager, "data-exec=", http.StatusOK},
	} {
		r := d.asked(t, http.MethodGet, path, access.TokenHeader, c.secret)
		require.Equal(t, c.status, r.status, name)
		pageOf(t, path, r)
		require.Contains(t, r.body, c.text, name)
		require.Equal(t, c.status != http.StatusOK, containsForm(r.body), "%s is asked for a token", name)
		require.Equal(t, c.status == http.StatusOK, containsTerminal(r.body), name)
	}
	r := d.asked(t, http.MethodGet, "/ui/allocations/"+d.of["theirs"].alloc+"/exec/task", access.TokenHeader, d.manager)
	require.Contains(t, r.body, "The task does not run")
	require.False(t, containsTerminal(r.body))
	r = d.asked(t, http.MethodGet, "/ui/allocations/"+alloc+"/exec/none", access.TokenHeader, d.manager)
	require.Equal(t, http.StatusNotFound, r.status)
}

func TestATerminalWhereThereAreNoTokens(t *testing.T) {
	g := serveGuarded(t, nil)
	g.runs(t, g.alloc)
	path := "/ui/allocations/" + g.alloc + "/exec/task"
	r := g.asked(t, http.MethodGet, path)
	require.Equal(t, http.StatusOK, r.status)
	pageOf(t, path, r)
	require.True(t, containsTerminal(r.body))
	r = g.asked(t, http.MethodGet, path, "Sec-Fetch-Site", "cross-site")
	require.Equal(t, http.StatusForbidden, r.status)
	require.False(t, containsTerminal(r.body))
	g = serveGuarded(t, func(c *httpapi.Config) { c.NoPage = true })
	require.Equal(t, http.StatusNotFound, g.asked(t, http.MethodGet, path).status)
}

func containsForm(body string) bool     { return strings.Contains(body, `<form id="sign-in"`) }
func containsTerminal(body string) bool { return strings.Contains(body, `id="terminal"`) }
