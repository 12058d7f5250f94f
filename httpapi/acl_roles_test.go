package httpapi_test

import (
	"net/http"
	"testing"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/httpapi/access"
	"github.com/wasmnode/wasmnode/structs"
)

func TestRolesByNomadsClient(t *testing.T) {
	d := divide(t)
	roles := d.client.ACLRoles()
	links := func(names ...string) (all []*nomad.ACLRolePolicyLink) {
		for _, name := range names {
			all = append(all, &nomad.ACLRolePolicyLink{Name: name})
		}
		return all
	}
	web, _, err := roles.Create(&nomad.ACLRole{Name: "web", Description: "d", Policies: links("team", "team")}, nil)
	require.NoError(t, err)
	require.Equal(t, links("team"), web.Policies)
	for want, r := range map[string]*nomad.ACLRole{
		`400 (role with name web already exists)`:                            {Name: "web", Policies: links("team")},
		`400 (invalid name "a b" of a role: 1 to 128 letters, digits and -)`: {Name: "a b", Policies: links("team")},
		`400 (role "x": at least one policy should be specified)`:            {Name: "x"},
		`400 (cannot find policy none: `:                                     {Name: "x", Policies: links("none")},
	} {
		_, _, err := roles.Create(r, nil)
		require.ErrorContains(t, err, want)
	}
	_, _, err = roles.Update(&nomad.ACLRole{ID: "none", Name: "x", Policies: links("team")}, nil)
	require.ErrorContains(t, err, "400 (cannot find role none)")

	// A token has what its role gives, as that is now.
	made, _, err := d.client.ACLTokens().Create(&nomad.ACLToken{Type: "client", Roles: []*nomad.ACLTokenRoleLink{{Name: "web"}, {ID: web.ID}}}, nil)
	require.NoError(t, err)
	require.Equal(t, []*nomad.ACLTokenRoleLink{{ID: web.ID, Name: "web"}}, made.Roles)
	may := func(path string) bool {
		status, _ := d.send(t, http.MethodGet, path, "", access.TokenHeader, made.SecretID)
		require.Contains(t, []int{http.StatusOK, http.StatusForbidden}, status, path)
		return status == http.StatusOK
	}
	require.True(t, may("/v1/jobs?namespace=mine") && may("/v1/acl/role/"+web.ID) && may("/v1/acl/role/name/web"))
	require.False(t, may("/v1/jobs?namespace=theirs") || may("/v1/acl/tokens"))
	renamed, _, err := roles.Update(&nomad.ACLRole{ID: web.ID, Name: "all", Policies: links("readonly")}, nil)
	require.NoError(t, err)
	require.Equal(t, web.CreateIndex, renamed.CreateIndex)
	require.True(t, may("/v1/jobs?namespace=theirs"), "the built-in policy counts in a role, too")
	own := d.as(t, made.SecretID)
	self, _, err := own.ACLTokens().Self(nil)
	require.NoError(t, err)
	require.Equal(t, "all", self.Roles[0].Name)
	policies, _, err := own.ACLPolicies().Self(nil)
	require.NoError(t, err)
	require.Len(t, policies, 1)
	require.Equal(t, "readonly", policies[0].Name)

	// Others see the roles that are their own.
	hidden, _, err := roles.Create(&nomad.ACLRole{Name: "hidden", Policies: links("team")}, nil)
	require.NoError(t, err)
	team := d.as(t, d.team)
	list, _, err := team.ACLRoles().List(nil)
	require.NoError(t, err)
	require.Empty(t, list)
	_, _, err = team.ACLRoles().Get(hidden.ID, nil)
	require.ErrorContains(t, err, "403 (Permission denied)")
	_, _, err = team.ACLRoles().Create(&nomad.ACLRole{Name: "x", Policies: links("team")}, nil)
	require.ErrorContains(t, err, "403 (Permission denied)")
	_, _, err = roles.GetByName("none", nil)
	require.ErrorContains(t, err, "404 (ACL role not found)")
	list, _, err = roles.List(nil)
	require.NoError(t, err)
	require.Len(t, list, 2)

	_, err = roles.Delete(web.ID, nil)
	require.NoError(t, err)
	require.False(t, may("/v1/jobs?namespace=mine"), "what it had came from the role")
	self, _, err = own.ACLTokens().Self(nil)
	require.NoError(t, err)
	require.Empty(t, self.Roles)
	_, err = roles.Delete(web.ID, nil)
	require.ErrorContains(t, err, "404 (ACL role not found)")
}

// TestATaskHasThePoliciesAttachedToIt asks with the task's identity. What is attached to another is
// of no use to it.
func TestATaskHasThePoliciesAttachedToIt(t *testing.T) {
	api, tasks, token := withTasks(t, true)
	const other, jobs, hidden = "/v1/var/other", "/v1/jobs", "/v1/service/hidden?namespace=other"
	status := func(g *guarded, method, path string) int {
		status, text := g.send(t, method, path, `{"Namespace":"default","Path":"other","Items":{"a":"b"}}`, access.TokenHeader, token)
		require.Contains(t, []int{http.StatusOK, http.StatusForbidden}, status, "%s %s: %s", method, path, text)
		return status
	}
	rules := `namespace "default" {
  policy = "read"
  variables {
    path "oth*" { capabilities = ["read", "write"] }
  }
}`
	attach := func(name, rules string, to *structs.ACLTaskRule) {
		_, err := api.plane.PutACLPolicy(structs.ACLPolicy{Name: name, Rules: rules, Tasks: to})
		require.NoError(t, err)
	}
	task := api.plane.JobAllocations("default", "app")[0].Job.TaskGroups[0]
	for _, to := range []*structs.ACLTaskRule{
		nil,
		{Namespace: "other"},
		{Namespace: "default", JobID: "apps"},
		{Namespace: "default", JobID: "app", Group: "x"},
		{Namespace: "default", JobID: "app", Group: *task.Name, Task: "x"},
	} {
		attach("of-others", rules, to)
		require.Equal(t, http.StatusForbidden, status(api, "GET", other), "%+v", to)
		require.Equal(t, http.StatusForbidden, status(api, "GET", jobs), "%+v", to)
	}
	for _, to := range []*structs.ACLTaskRule{
		{Namespace: "default"},
		{Namespace: "default", JobID: "app"},
		{Namespace: "default", JobID: "app", Group: *task.Name},
		{Namespace: "default", JobID: "app", Group: *task.Name, Task: task.Tasks[0].Name},
	} {
		for _, g := range []*guarded{api, tasks} {
			attach("own", rules, to)
			require.Equal(t, http.StatusOK, status(g, "GET", other), "%+v", to)
			require.Equal(t, http.StatusOK, status(g, "PUT", other), "%+v", to)
			require.Equal(t, http.StatusOK, status(g, "GET", jobs), "%+v", to)
			require.Equal(t, http.StatusForbidden, status(g, "PUT", jobs), "%+v", to)
			require.Equal(t, http.StatusForbidden, status(g, "DELETE", other), "%+v", to)
			require.Equal(t, http.StatusForbidden, status(g, "GET", hidden), "%+v", to)
			_, err := api.plane.DeleteACLPolicy("own")
			require.NoError(t, err)
			require.Equal(t, http.StatusForbidden, status(g, "GET", other), "it has gone")
		}
	}

	attach("services", `namespace "other" { policy = "read" }`, &structs.ACLTaskRule{Namespace: "default", JobID: "app"})
	require.Equal(t, http.StatusOK, status(api, "GET", hidden), "of another namespace")
	require.Equal(t, http.StatusOK, status(api, "GET", "/v1/services"), "its own it has anyway")
	attach("less", `namespace "default" {
  variables {
    path "nomad/jobs/app" { capabilities = ["deny"] }
  }
}`, &structs.ACLTaskRule{Namespace: "default"})
	require.Equal(t, http.StatusForbidden, status(api, "GET", "/v1/var/nomad/jobs/app"), "a rule that names the path goes first, as in Nomad")
	_, text := api.send(t, "GET", "/v1/acl/policy/self", "", access.TokenHeader, token)
	list := decoded[[]*nomad.ACLPolicyListStub](t, text)
	require.Len(t, list, 2)
	require.Equal(t, "less", list[0].Name)
	require.Equal(t, &nomad.JobACL{Namespace: "default", JobID: "app"}, list[1].JobACL)
	code, _ := api.send(t, "GET", "/v1/acl/policy/self", "")
	require.Equal(t, http.StatusForbidden, code)
}
