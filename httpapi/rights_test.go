package httpapi_test

import (
	"bufio"
	"net/http"
	"net/url"
	"strings"
	"testing"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/httpapi/access"
	"github.com/wasmnode/wasmnode/structs"
)

// TestAFilterFindsNoLocksID asks for what no answer has.
func TestAFilterFindsNoLocksID(t *testing.T) {
	d := divide(t)
	_, _, err := d.as(t, d.team).Variables().AcquireLock(&nomad.Variable{Path: "db"}, &nomad.WriteOptions{Namespace: "mine"})
	require.NoError(t, err)
	found := func(filter string) bool {
		_, text := d.send(t, http.MethodGet, "/v1/vars?namespace=mine&filter="+url.QueryEscape(filter), "", access.TokenHeader, d.team)
		return strings.Contains(text, `"db"`)
	}
	require.True(t, found(`Path == "db"`))
	require.False(t, found(`Path == "db" and Lock.ID matches "."`))
}

func TestAServiceOfAnyNamespaceIsOfOneThatMayBeSeen(t *testing.T) {
	d := divide(t)
	for _, namespace := range []string{"default", "*"} {
		status, _ := d.send(t, http.MethodGet, "/v1/service/api?namespace="+namespace, "", access.TokenHeader, d.team)
		require.Equal(t, http.StatusForbidden, status, namespace)
	}
}

// TestWhatIsForgottenIsOfNoNamespace: the node may still have what it was.
func TestWhatIsForgottenIsOfNoNamespace(t *testing.T) {
	d := divide(t)
	const none = "11111111-2222-3333-4444-555555555555"
	for path, want := range map[string]string{
		"/v1/client/fs/ls/" + none + "?path=/&namespace=mine":     `Unknown allocation "` + none + `"`,
		"/v1/client/allocation/" + none + "/stats?namespace=mine": `Unknown allocation "` + none + `"`,
		"/v1/evaluation/" + none + "/allocations?namespace=mine":  "eval not found",
		"/v1/deployment/allocations/" + none + "?namespace=mine":  "deployment not found",
	} {
		status, text := d.send(t, http.MethodGet, path, "", access.TokenHeader, d.team)
		require.Equal(t, http.StatusNotFound, status, path)
		require.Equal(t, want, text)
	}
}

func TestAStreamOfEventsEndsWithItsToken(t *testing.T) {
	d := divide(t)
	token, secret, err := d.plane.CreateACLToken(&structs.ACLToken{Type: structs.ACLClient, Policies: []string{"team"}}, 0)
	require.NoError(t, err)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, d.URL+"/v1/event/stream?namespace=mine&topic=Job", nil)
	require.NoError(t, err)
	req.Header.Set(access.TokenHeader, secret)
	resp, err := d.Client().Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	require.True(t, lines.Scan())
	require.NoError(t, d.plane.DeleteACLToken(token.AccessorID))
	last := ""
	for lines.Scan() {
		last = lines.Text()
	}
	require.Equal(t, `{"Error":"ACL token not found"}`, last)
}
