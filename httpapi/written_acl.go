package httpapi

import (
	"cmp"
	"maps"
	"net/http"
	"slices"
	"time"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/httpapi/access"
)

// writtenACL are those of tokens and of what they allow, as written has the others.
var writtenACL = map[string]passedOn{
	"PUT /v1/acl/bootstrap":              bootstrapped,
	"PUT /v1/acl/token":                  first[nomad.ACLToken]("ACL.UpsertTokens", "Tokens", one("Tokens", "", accessorID)),
	"PUT /v1/acl/token/{accessor}":       first[nomad.ACLToken]("ACL.UpsertTokens", "Tokens", one("Tokens", "accessor", accessorID)),
	"DELETE /v1/acl/token/{accessor}":    acknowledged("ACL.DeleteTokens", list("AccessorIDs", "accessor")),
	"PUT /v1/acl/policy/{name}":          acknowledged("ACL.UpsertPolicies", one("Policies", "name", policyName)),
	"DELETE /v1/acl/policy/{name}":       acknowledged("ACL.DeletePolicies", list("Names", "name")),
	"PUT /v1/acl/role":                   first[nomad.ACLRole]("ACL.UpsertRoles", "ACLRoles", one("ACLRoles", "", roleID)),
	"PUT /v1/acl/role/{id}":              first[nomad.ACLRole]("ACL.UpsertRoles", "ACLRoles", one("ACLRoles", "id", roleID)),
	"DELETE /v1/acl/role/{id}":           acknowledged("ACL.DeleteRolesByID", list("ACLRoleIDs", "id")),
	"PUT /v1/acl/auth-method":            first[nomad.ACLAuthMethod]("ACL.UpsertAuthMethods", "AuthMethods", one("AuthMethods", "", methodName)),
	"PUT /v1/acl/auth-method/{name}":     first[nomad.ACLAuthMethod]("ACL.UpsertAuthMethods", "AuthMethods", one("AuthMethods", "name", methodName)),
	"DELETE /v1/acl/auth-method/{name}":  acknowledged("ACL.DeleteAuthMethods", list("Names", "name")),
	"PUT /v1/acl/binding-rule":           first[nomad.ACLBindingRule]("ACL.UpsertBindingRules", "ACLBindingRules", one("ACLBindingRules", "", ruleID)),
	"PUT /v1/acl/binding-rule/{id}":      first[nomad.ACLBindingRule]("ACL.UpsertBindingRules", "ACLBindingRules", one("ACLBindingRules", "id", ruleID)),
	"DELETE /v1/acl/binding-rule/{id}":   acknowledged("ACL.DeleteBindingRules", list("ACLBindingRuleIDs", "id")),
	"PUT /v1/acl/oidc/auth-url":          whole[nomad.ACLOIDCAuthURLResponse]("ACL.OIDCAuthURL", fields[nomad.ACLOIDCAuthURLRequest]),
	"PUT /v1/acl/oidc/complete-auth":     inField[*nomad.ACLToken]("ACL.OIDCCompleteAuth", "ACLToken", fields[nomad.ACLOIDCCompleteAuthRequest], asIs),
	"PUT /v1/acl/login":                  inField[*nomad.ACLToken]("ACL.Login", "ACLToken", fields[nomad.ACLLoginRequest], asIs),
	"PUT /v1/acl/token/onetime":          whole[struct{ OneTimeToken *nomad.OneTimeToken }]("ACL.UpsertOneTimeToken", nil),
	"PUT /v1/acl/token/onetime/exchange": whole[struct{ Token *nomad.ACLToken }]("ACL.ExchangeOneTimeToken", fields[struct{ OneTimeSecretID string }]),
	introduction:                         whole[struct{ JWT string }]("ACL.CreateClientIntroductionToken", introduced),
}

const introduction = "PUT /v1/acl/identity/client-introduction-token"

func accessorID(t *nomad.ACLToken) *string      { return &t.AccessorID }
func policyName(p *nomad.ACLPolicy) *string     { return &p.Name }
func roleID(r *nomad.ACLRole) *string           { return &r.ID }
func methodName(m *nomad.ACLAuthMethod) *string { return &m.Name }
func ruleID(r *nomad.ACLBindingRule) *string    { return &r.ID }

// first passes on a change of one object, which is what is answered.
func first[T any](method, field string, args arguments) passedOn {
	return inField[[]*T](method, field, args, func(list []*T) (any, error) {
		if len(list) == 0 {
			return withStatus{status: http.StatusOK}, nil
		}
		return list[0], nil
	})
}

// bootstrapped makes the cluster's first token. It needs none itself, so that it has to be asked for
// on this machine, as that of a node alone.
func bootstrapped(h *handler, w http.ResponseWriter, r *http.Request) error {
	if h.policy.Tasks || !local(r) {
		return errFirstToken
	}
	return first[nomad.ACLToken]("ACL.Bootstrap", "Tokens", fields[struct{ BootstrapSecret string }])(h, w, r)
}

func globalTokens(r *http.Request) (map[string]any, error) {
	return flags(r, map[string]string{"GlobalOnly": "global"})
}

func introduced(r *http.Request) (map[string]any, error) {
	var body struct {
		TTL                any // a text, or nanoseconds
		NodeName, NodePool string
	}
	if err := decode(r, &body); err != nil {
		return nil, err
	}
	all := map[string]any{"NodeName": body.NodeName, "NodePool": body.NodePool}
	switch given := body.TTL.(type) {
	case nil:
	case float64:
		all["TTL"] = time.Duration(given)
	case string:
		if given == "" {
			break
		}
		ttl, err := time.ParseDuration(given)
		if err != nil {
			return nil, badRequest("TTL: %v", err)
		}
		all["TTL"] = ttl
	default:
		return nil, badRequest("TTL: %v is no duration", given)
	}
	return all, nil
}

// callersPolicies are those of the caller: of a token, or of a task, which shows its identity.
func callersPolicies(h *handler, w http.ResponseWriter, r *http.Request) error {
	if !access.IsIdentity(access.Secret(r.Header)) {
		return listed[*nomad.ACLPolicyListStub]("ACL.ListPolicies", "Policies", nil)(h, w, r)
	}
	return inField[map[string]*nomad.ACLPolicyListStub]("ACL.GetClaimPolicies", "Policies", nil, func(all map[string]*nomad.ACLPolicyListStub) (any, error) {
		list := slices.DeleteFunc(slices.Collect(maps.Values(all)), func(p *nomad.ACLPolicyListStub) bool { return p == nil })
		slices.SortFunc(list, func(a, b *nomad.ACLPolicyListStub) int { return cmp.Compare(a.Name, b.Name) })
		return append([]*nomad.ACLPolicyListStub{}, list...), nil
	})(h, w, r)
}
