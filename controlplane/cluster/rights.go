package cluster

import (
	"context"

	"github.com/wasmnode/wasmnode/controlplane/cluster/wire"
	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/structs/errdefs"
)

// The bounds of what is asked for of one token.
const (
	maxRoles    = 128
	maxPolicies = 1024
)

// named is a policy of a token, or of a role, by its name.
type named struct{ Name string }

// wireIdentified is whose a token is.
type wireIdentified struct {
	ACLToken *struct {
		Type     string
		Policies []string
		Roles    []struct{ ID string }
	}
	Claims *struct{} // of a task
}

// wirePolicies are policies with what they allow.
type wirePolicies struct {
	Policies map[string]*struct{ Rules string }
}

// TokenRules are the rules of the policies that a token has, as the servers know it now; with
// everything, it may do everything. A token that they do not know is an error of theirs. Nothing
// is kept of a token.
func (cp *ControlPlane) TokenRules(ctx context.Context, token string) (rules []string, everything bool, err error) {
	done, err := cp.resolved.enter()
	if err != nil {
		return nil, false, err
	}
	defer done()
	rules, everything, err = cp.tokenRules(ctx, token)
	if err != nil {
		return nil, false, refusal(ctx, err)
	}
	return rules, everything, nil
}

func (cp *ControlPlane) tokenRules(ctx context.Context, token string) (rules []string, everything bool, err error) {
	as := query{request: request{Region: cp.cfg.Region, AuthToken: token}, AllowStale: true}
	policies := []string{"anonymous"}
	if token != "" {
		var who struct{ Identity *wireIdentified }
		if err := cp.servers.now(ctx, "ACL.WhoAmI", as, &who); err != nil {
			return nil, false, err
		}
		switch is := who.Identity; {
		case is != nil && is.ACLToken != nil && is.ACLToken.Type == "management":
			return nil, true, nil
		case is != nil && is.ACLToken != nil:
			if policies, err = cp.policiesOf(ctx, as, is); err != nil {
				return nil, false, err
			}
		case is != nil && is.Claims != nil:
			var found wirePolicies
			err := cp.servers.now(ctx, "ACL.GetClaimPolicies", as, &found)
			if wire.Says(err, "Permission denied") { // of a task that is known: ACLs are off there, or it is forgotten
				return nil, false, nil
			}
			return found.rules(), false, err
		default:
			return nil, false, structs.ErrACLDenied
		}
	}
	if len(policies) == 0 {
		return nil, false, nil
	}
	var found wirePolicies
	err = cp.servers.now(ctx, "ACL.GetPolicies", struct {
		query
		Names []string
	}{as, policies}, &found)
	return found.rules(), false, err
}

// policiesOf are the names of a token's policies: its own, and those of its roles.
func (cp *ControlPlane) policiesOf(ctx context.Context, as query, is *wireIdentified) ([]string, error) {
	names := is.ACLToken.Policies
	if len(is.ACLToken.Roles) > maxRoles || len(names) > maxPolicies {
		return nil, errdefs.New(errdefs.FailedPrecondition, "a token with more than %d roles or %d policies", maxRoles, maxPolicies)
	}
	if len(is.ACLToken.Roles) == 0 {
		return names, nil
	}
	ids := make([]string, 0, len(is.ACLToken.Roles))
	for _, role := range is.ACLToken.Roles {
		ids = append(ids, role.ID)
	}
	var found struct {
		ACLRoles map[string]*struct{ Policies []*named }
	}
	err := cp.servers.now(ctx, "ACL.GetRolesByID", struct {
		query
		ACLRoleIDs []string
	}{as, ids}, &found)
	if err != nil {
		return nil, err
	}
	for _, role := range found.ACLRoles {
		if role == nil {
			continue
		}
		for _, policy := range role.Policies {
			if policy != nil {
				names = append(names, policy.Name)
			}
		}
	}
	if len(names) > maxPolicies { // one that is left out may be the one that denies
		return nil, errdefs.New(errdefs.FailedPrecondition, "the roles of a token have %d policies: at most %d are looked at", len(names), maxPolicies)
	}
	return names, nil
}

func (p wirePolicies) rules() (all []string) {
	for _, policy := range p.Policies {
		if policy != nil {
			all = append(all, policy.Rules)
		}
	}
	return all
}
