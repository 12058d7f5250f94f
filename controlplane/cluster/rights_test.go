package cluster

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/controlplane/cluster/wire"
)

// serveTokens starts a server that knows some tokens, and is all that a node asks of it.
func serveTokens(t *testing.T) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	type object = map[string]any
	allowing := func(names ...string) object {
		policies := object{}
		for _, name := range names {
			policies[name] = object{"Name": name, "Rules": "rules of " + name}
		}
		return object{"Policies": policies}
	}
	handler := &wire.Handler{Call: func(_ context.Context, method string, decode func(any) error) (any, error) {
		var asked struct {
			Region, AuthToken string
			Names, ACLRoleIDs []string
		}
		if err := decode(&asked); err != nil {
			return nil, err
		}
		client := func(policies []string, roles ...object) (any, error) {
			return object{"Identity": object{"ACLToken": object{"Type": "client", "Policies": policies, "Roles": roles}}}, nil
		}
		switch method + " " + asked.AuthToken {
		case "ACL.WhoAmI admin":
			return object{"Identity": object{"ACLToken": object{"Type": "management"}}}, nil
		case "ACL.WhoAmI team":
			return client([]string{"a", "b"})
		case "ACL.WhoAmI roles":
			return client([]string{"a"}, object{"ID": "r1", "Name": "role"}, object{"ID": "gone"})
		case "ACL.WhoAmI nothing":
			return client(nil)
		case "ACL.GetClaimPolicies task-without-acl":
			return nil, errors.New("Permission denied")
		case "ACL.WhoAmI task", "ACL.WhoAmI task-without-acl":
			return object{"Identity": object{"Claims": object{"AllocationID": "x"}}}, nil
		case "ACL.WhoAmI node":
			return object{"Identity": object{"ClientID": "x"}}, nil
		case "ACL.WhoAmI many":
			return client(make([]string, maxPolicies+1))
		case "ACL.WhoAmI many-roles":
			return client(nil, make([]object, maxRoles+1)...)
		case "ACL.WhoAmI most", "ACL.WhoAmI too-many":
			return client([]string{"a"}, object{"ID": "r1"}, object{"ID": "r2"})
		case "ACL.GetRolesByID most", "ACL.GetRolesByID too-many":
			of := func(n int) object { return object{"Policies": slices.Repeat([]any{object{"Name": "c"}}, n)} }
			rest := maxPolicies - 1
			if asked.AuthToken == "too-many" {
				rest++
			}
			return object{"ACLRoles": object{"r1": of(rest / 2), "r2": of(rest - rest/2)}}, nil
		case "ACL.GetRolesByID roles":
			if !slices.Equal(asked.ACLRoleIDs, []string{"r1", "gone"}) {
				return nil, errors.New("other roles")
			}
			return object{"ACLRoles": object{"r1": object{"Policies": []any{object{"Name": "c"}, nil}}, "gone": nil}}, nil
		case "ACL.GetPolicies team", "ACL.GetPolicies roles", "ACL.GetPolicies most", "ACL.GetPolicies ":
			return allowing(asked.Names...), nil
		case "ACL.GetClaimPolicies task":
			return allowing("claims"), nil
		case "Status.Leader ":
			return nil, nil
		}
		return nil, errors.New("ACL token not found")
	}}
	var running sync.WaitGroup
	running.Go(func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		session, err := wire.Accept(context.Background(), conn, wire.Options{Handler: handler})
		if err != nil {
			return
		}
		<-session.Done()
		session.Close()
	})
	t.Cleanup(func() { l.Close(); running.Wait() })
	return l.Addr().String()
}

func TestTheRulesOfATokenAreThoseThatTheServersKnow(t *testing.T) {
	cp := join(t, serveTokens(t))
	_, err := cp.servers.await(t.Context(), nil)
	require.NoError(t, err)
	for _, c := range []struct {
		token string
		rules []string
		all   bool
		err   string
	}{
		{"admin", nil, true, ""},
		{"team", []string{"rules of a", "rules of b"}, false, ""},
		{"roles", []string{"rules of a", "rules of c"}, false, ""},
		{"nothing", nil, false, ""},
		{"task", []string{"rules of claims"}, false, ""},
		{"task-without-acl", nil, false, ""},
		{"", []string{"rules of anonymous"}, false, ""},
		{"node", nil, false, "Permission denied"},
		{"unknown", nil, false, "ACL token not found"},
		{"many", nil, false, "more than 128 roles or 1024 policies"},
		{"many-roles", nil, false, "more than 128 roles or 1024 policies"},
		{"most", []string{"rules of a", "rules of c"}, false, ""},
		{"too-many", nil, false, "the roles of a token have 1025 policies: at most 1024 are looked at"},
	} {
		rules, all, err := cp.TokenRules(t.Context(), c.token)
		if c.err != "" {
			require.ErrorContains(t, err, c.err, c.token)
		} else {
			require.NoError(t, err, c.token)
		}
		require.ElementsMatch(t, c.rules, rules, c.token)
		require.Equal(t, c.all, all, c.token)
	}
}
