package standalone

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/structs/errdefs"
)

func TestRolesAreKeptAndBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	cp := open(t, path)
	_, err := cp.PutACLPolicy(structs.ACLPolicy{Name: "team"})
	require.NoError(t, err)
	role, err := cp.PutACLRole(structs.ACLRole{Name: "web", Policies: []string{"team", structs.ACLReadOnly}})
	require.NoError(t, err)
	token, _, err := cp.CreateACLToken(&structs.ACLToken{Type: structs.ACLClient, Roles: []string{"web"}}, 0)
	require.NoError(t, err)
	require.NoError(t, cp.Close())
	cp = open(t, path)
	require.Equal(t, role, cp.ACLRole(role.ID))
	require.Equal(t, []string{"team", structs.ACLReadOnly}, cp.ACLTokenPolicies(cp.ACLToken(token.AccessorID)))
	for want, r := range map[string]structs.ACLRole{
		"longer than 256":    {Name: "a", Description: strings.Repeat("x", maxACLRoleDescription+1), Policies: []string{"team"}},
		"at most 64":         {Name: "a", Policies: make([]string, maxTokenPolicies+1)},
		"invalid name":       {Name: strings.Repeat("x", 129), Policies: []string{"team"}},
		"cannot find policy": {Name: "a", Policies: []string{"gone"}},
		"cannot find role":   {ID: "gone", Name: "a", Policies: []string{"team"}},
	} {
		_, err := cp.PutACLRole(r)
		require.ErrorIs(t, err, errdefs.InvalidArgument)
		require.ErrorContains(t, err, want)
	}
	_, _, err = cp.CreateACLToken(&structs.ACLToken{Type: structs.ACLClient, Roles: make([]string, maxTokenRoles+1)}, 0)
	require.ErrorContains(t, err, "a token has at most 64 roles")
	many := open(t, "")
	for i := range maxACLRoles {
		_, err := many.PutACLRole(structs.ACLRole{Name: fmt.Sprint(i), Policies: []string{structs.ACLReadOnly}})
		require.NoError(t, err)
	}
	_, err = many.PutACLRole(structs.ACLRole{Name: "more", Policies: []string{structs.ACLReadOnly}})
	require.ErrorIs(t, err, errdefs.FailedPrecondition)
}

// A task's templates read what the policies attached to it allow, whatever the path.
func TestATasksTemplatesReadWhatItsPoliciesAllow(t *testing.T) {
	cp, err := Open(Options{ACL: true})
	require.NoError(t, err)
	defer func() { require.NoError(t, cp.Close()) }()
	task, child := readers(t, cp)
	putVariable(t, cp, variable("shared/db", "a", "b"))
	_, err = cp.ForNode().TaskVariable(t.Context(), task, "default", "shared/db")
	require.ErrorContains(t, err, "and no policy is attached to it")
	allow := func(path string) {
		_, err = cp.PutACLPolicy(structs.ACLPolicy{
			Name: "shared", Tasks: &structs.ACLTaskRule{Namespace: "default", JobID: "app"},
			Rules: fmt.Sprintf("namespace \"default\" {\n variables {\n path %q { capabilities = [\"read\"] }\n}\n}", path),
		})
		require.NoError(t, err)
	}
	paths := func() (all []string) {
		list, err := cp.ForNode().TaskVariables(t.Context(), task, "default", "")
		require.NoError(t, err)
		for _, v := range list {
			all = append(all, v.Path)
		}
		return all
	}
	stamp := func() uint64 {
		stamp, err := cp.ForNode().TaskVariablesStamp(t.Context(), task, "default", "")
		require.NoError(t, err)
		return stamp
	}
	before := stamp()
	allow("shared/*")
	require.NotEqual(t, before, stamp(), "who follows the list is told")
	v, err := cp.ForNode().TaskVariable(t.Context(), task, "default", "shared/db")
	require.NoError(t, err)
	require.Equal(t, nomad.VariableItems{"a": "b"}, v.Items)
	require.Equal(t, []string{"nomad/jobs", "nomad/jobs/app", "nomad/jobs/app/g", "nomad/jobs/app/g/t", "shared/db"}, paths())
	_, err = cp.ForNode().TaskVariable(t.Context(), child, "default", "shared/db")
	require.ErrorIs(t, err, errdefs.PermissionDenied, "it is of another job")
	allow("other")
	_, err = cp.ForNode().TaskVariable(t.Context(), task, "default", "shared/db")
	require.ErrorContains(t, err, "and what is attached to it, shared, does not allow it")
	require.Equal(t, before, stamp())
}
