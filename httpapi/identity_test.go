package httpapi_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"
	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/httpapi"
	"github.com/wasmnode/wasmnode/httpapi/access"
	"github.com/wasmnode/wasmnode/structs"
)

// withTasks is the API of a node, and what it serves to tasks; of the task of a job, whose token it
// has, are a variable and a service, and others are there.
func withTasks(t *testing.T, acl bool) (api, tasks *guarded, token string) {
	t.Helper()
	api = serveGuarded(t, func(c *httpapi.Config) { c.ACL, c.Issuer = acl, "https://nomad.test/" })
	job := mock("app", nil)
	job.TaskGroups[0].Tasks[0].Identity = &nomad.WorkloadIdentity{Env: true}
	_, err := api.plane.RegisterJob(&structs.JobRegistration{Job: job})
	require.NoError(t, err)
	a := api.plane.JobAllocations("default", "app")[0]
	signed, err := api.plane.ForNode().SignIdentity(t.Context(), structs.TaskIdentity{AllocID: a.ID, Task: a.Job.TaskGroups[0].Tasks[0].Name}, "default")
	require.NoError(t, err)
	for _, path := range []string{"nomad/jobs/app", "nomad/jobs/apps", "nomad/jobs/mine", "other"} {
		_, _, err = api.plane.PutVariable(&nomad.Variable{Namespace: "default", Path: path, Items: nomad.VariableItems{"is": path}}, nil)
		require.NoError(t, err)
	}
	require.NoError(t, api.plane.ForNode().RegisterServices(t.Context(), "node", []*structs.ServiceRegistration{
		{ID: "s1", ServiceName: "web", Namespace: "default", NodeID: "node", AllocID: a.ID, JobID: "app"},
		{ID: "s2", ServiceName: "hidden", Namespace: "other", NodeID: "node", AllocID: a.ID, JobID: "app"},
	}))
	_, forTasks := httpapi.Handlers(api.config, access.NewBounds(access.DefaultLimits()))
	tasks = &guarded{Server: httptest.NewServer(forTasks), config: api.config, plane: api.plane, node: api.node, alloc: api.alloc}
	t.Cleanup(tasks.Close)
	return api, tasks, signed.JWT
}

func TestATaskHasItsPartOfTheAPI(t *testing.T) {
	api, tasks, token := withTasks(t, true)
	for where, g := range map[string]*guarded{"the API": api, "its socket": tasks} {
		for _, c := range []struct {
			method, path string
			status       int
			has          string
		}{
			{"GET", "/v1/var/nomad/jobs/app", 200, `"is":"nomad/jobs/app"`},
			{"GET", "/v1/var/nomad/jobs/app/group", 404, "variable not found"},
			{"GET", "/v1/var/nomad/jobs/apps", 403, "Permission denied"},
			{"GET", "/v1/var/nomad/jobs/mine", 403, "Permission denied"},
			{"GET", "/v1/var/nomad%2Fjobs%2Fmine", 403, "Permission denied"},
			{"GET", "/v1/var/nomad/jobs/app?namespace=other", 403, "Permission denied"},
			{"GET", "/v1/var/nomad/jobs/app?namespace=*", 403, "Permission denied"},
			{"PUT", "/v1/var/nomad/jobs/app", 403, "Permission denied"},
			{"DELETE", "/v1/var/nomad/jobs/app", 403, "Permission denied"},
			{"GET", "/v1/services", 200, `"ServiceName":"web"`},
			{"GET", "/v1/services?namespace=*", 200, `"ServiceName":"web"`},
			{"GET", "/v1/services?namespace=other", 403, "Permission denied"},
			{"GET", "/v1/service/web", 200, `"ID":"s1"`},
			{"GET", "/v1/service/web?namespace=other", 403, "Permission denied"},
			{"DELETE", "/v1/service/web/s1", 403, "Permission denied"},
			{"GET", "/v1/jobs", 403, "Permission denied"},
			{"PUT", "/v1/jobs", 403, "Permission denied"},
			{"GET", "/v1/client/allocation/" + api.alloc + "/exec?task=t", 403, "Permission denied"},
			{"GET", "/v1/acl/tokens", 403, "Permission denied"},
			{"GET", "/v1/acl/token/self", 403, "ACL token not found"},
			{"GET", "/v1/event/stream", 403, "Permission denied"},
			{"GET", "/v1/agent/health", 200, ""},
		} {
			status, text := g.send(t, c.method, c.path, "", access.TokenHeader, token)
			require.Equal(t, c.status, status, "%s: %s %s: %s", where, c.method, c.path, text)
			require.Contains(t, text, c.has, "%s: %s %s", where, c.method, c.path)
			require.NotContains(t, text, "hidden", "%s: %s %s", where, c.method, c.path)
		}
		for _, path := range []string{"/v1/vars", "/v1/vars?namespace=*", "/v1/vars?prefix=nomad"} {
			status, text := g.send(t, "GET", path, "", "Authorization", "Bearer "+token)
			require.Equal(t, 200, status)
			require.Equal(t, 1, strings.Count(text, `"Path"`), text)
			require.Contains(t, text, `"Path":"nomad/jobs/app"`)
		}
		status, text := g.send(t, "GET", "/v1/var/nomad/jobs/app", "", access.TokenHeader, token[:len(token)-8]+"AAAAAAAA")
		require.Equal(t, 403, status)
		require.Equal(t, "Permission denied: identity token: its signature is not that of its key", text)
	}
}

func TestATaskIsNotToldWhoHoldsALock(t *testing.T) {
	api, _, token := withTasks(t, true)
	_, secret, err := api.plane.BootstrapACL("")
	require.NoError(t, err)
	const path = "/v1/var/nomad/jobs/app"
	status, text := api.send(t, "PUT", path+"?lock-acquire", `{"Namespace":"default","Path":"nomad/jobs/app","Items":{"is":"locked"},"Lock":{"TTL":"1h","LockDelay":"1s"}}`, access.TokenHeader, secret)
	require.Equal(t, 200, status, text)
	id := decoded[nomad.Variable](t, text).Lock.ID
	require.NotEmpty(t, id)
	_, text = api.send(t, "GET", path, "", access.TokenHeader, secret)
	require.Contains(t, text, id)
	for _, path := range []string{path, "/v1/vars"} {
		status, text = api.send(t, "GET", path, "", access.TokenHeader, token)
		require.Equal(t, 200, status)
		require.NotContains(t, text, id)
	}
}

func TestOnItsSocketATaskHasToSayWhoItIs(t *testing.T) {
	for _, acl := range []bool{true, false} {
		api, tasks, token := withTasks(t, acl)
		for _, path := range []string{"/v1/agent/health", "/v1/jobs", "/.well-known/jwks.json", "/nothing"} {
			status, text := tasks.send(t, "GET", path, "")
			require.Equal(t, http.StatusUnauthorized, status, path)
			require.Contains(t, text, "Unauthorized")
			for _, bad := range []string{"nonsense", "b3e5c3a4-0000-0000-0000-000000000000", "a.b.c"} {
				status, _ = tasks.send(t, "GET", path, "", access.TokenHeader, bad)
				require.Equal(t, http.StatusForbidden, status, "%s %s", bad, path)
			}
		}
		// Whoever comes by way of a socket is on this machine, and is not who may make the first token.
		status, text := tasks.send(t, "PUT", "/v1/acl/bootstrap", "", access.TokenHeader, token)
		require.NotEqual(t, 200, status)
		if acl {
			require.Contains(t, text, "the first token is made on the node itself")
			_, secret, err := api.plane.BootstrapACL("")
			require.NoError(t, err)
			status, _ = tasks.send(t, "GET", "/v1/jobs", "", access.TokenHeader, secret)
			require.Equal(t, 200, status, "a token of an operator's is as good as it is elsewhere")
			continue
		}
		for _, path := range []string{"/v1/jobs", "/v1/var/other"} {
			status, _ = tasks.send(t, "GET", path, "", access.TokenHeader, token)
			require.Equal(t, 200, status, "without ACLs everybody may do everything")
		}
		status, _ = api.send(t, "GET", "/v1/jobs", "", access.TokenHeader, token)
		require.Equal(t, 200, status, "a token does no harm where none is asked for")
	}
}

func TestOthersFindWhatTokensAreVerifiedWith(t *testing.T) {
	api, _, token := withTasks(t, true)
	status, text := api.send(t, "GET", "/.well-known/jwks.json", "")
	require.Equal(t, 200, status)
	set := decoded[jose.JSONWebKeySet](t, text)
	require.Len(t, set.Keys, 1)
	require.Equal(t, "RS256", set.Keys[0].Algorithm)
	require.Equal(t, "sig", set.Keys[0].Use)
	require.NotContains(t, text, `"d":`, "the private half")
	parsed, err := jose.ParseSignedCompact(token, []jose.SignatureAlgorithm{jose.RS256})
	require.NoError(t, err)
	_, err = parsed.Verify(set.Key(parsed.Signatures[0].Header.KeyID)[0])
	require.NoError(t, err)

	status, text = api.send(t, "GET", "/.well-known/openid-configuration", "")
	require.Equal(t, 200, status)
	require.JSONEq(t, `{"issuer":"https://nomad.test/","jwks_uri":"https://nomad.test/.well-known/jwks.json","id_token_signing_alg_values_supported":["RS256"],
		"response_types_supported":["code"],"subject_types_supported":["public"]}`, text)
	without := serveGuarded(t, nil)
	status, text = without.send(t, "GET", "/.well-known/openid-configuration", "")
	require.Equal(t, 404, status)
	require.Contains(t, text, "OIDC Discovery endpoint disabled")
	_, text = without.send(t, "GET", "/.well-known/jwks.json", "")
	require.JSONEq(t, `{"keys":[]}`, text)
}
