package standalone

import (
	"cmp"
	"maps"
	"slices"

	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/structs/errdefs"
)

// The bounds of ACL roles. Their names are those of policies.
const (
	maxACLRoles           = 1000
	maxACLRoleDescription = 256 // bytes, as in Nomad
)

// ACLRoles returns all roles, in no order.
func (cp *ControlPlane) ACLRoles() []*structs.ACLRole {
	return read(cp, func(t *tables) []*structs.ACLRole { return slices.Collect(maps.Values(t.roles)) })
}

// ACLRole returns a role by its ID; nil: there is none.
func (cp *ControlPlane) ACLRole(id string) *structs.ACLRole {
	return read(cp, func(t *tables) *structs.ACLRole { return t.roles[id] })
}

// PutACLRole makes a role, where it has no ID, or takes the place of the one that has it: what
// the tokens with it may do changes at once, also after the file was damaged and its last good
// copy took its place. Its policies have to be there; what is named twice counts once. What it
// cannot be is errdefs.InvalidArgument, one too many errdefs.FailedPrecondition.
func (cp *ControlPlane) PutACLRole(wanted structs.ACLRole) (role *structs.ACLRole, err error) {
	if err := roleFault(&wanted); err != nil {
		return nil, err
	}
	err = cp.write(func(t *tx) error {
		role, err = t.putRole(wanted)
		return err
	})
	if err == nil {
		err = cp.forgetCopied()
	}
	return role, err
}

func (t *tx) putRole(wanted structs.ACLRole) (*structs.ACLRole, error) {
	for _, p := range wanted.Policies {
		if !t.hasPolicy(p) {
			return nil, invalid("cannot find policy %s: acl policy apply makes one, and %q is built in", p, structs.ACLReadOnly)
		}
	}
	old, same, count := t.roles.get(wanted.ID), t.roleNamed(wanted.Name), 0
	t.roles.all(func(string, *structs.ACLRole) { count++ })
	switch {
	case wanted.ID != "" && old == nil:
		return nil, invalid("cannot find role %s", wanted.ID)
	case same != nil && same.ID != wanted.ID:
		return nil, invalid("role with name %s already exists", wanted.Name)
	case old == nil && count >= maxACLRoles:
		return nil, errdefs.New(errdefs.FailedPrecondition, "there are %d ACL roles, as many as there can be: delete some", count)
	}
	t.touched[TableACLRoles] = t.at()
	made := wanted
	made.CreateIndex, made.ModifyIndex = t.at(), t.at()
	if old != nil {
		made.CreateIndex = old.CreateIndex
	}
	made.ID = cmp.Or(made.ID, t.cp.newID())
	made.Policies = distinct(wanted.Policies)
	t.roles.put(made.ID, &made)
	return &made, nil
}

// roleFault is why there can be no such role, whatever else there is; nil: there can.
func roleFault(r *structs.ACLRole) error {
	switch {
	case !aclPolicyName.MatchString(r.Name):
		return invalid("invalid name %q of a role: 1 to 128 letters, digits and -", r.Name)
	case len(r.Description) > maxACLRoleDescription:
		return invalid("description of role %q longer than %d", r.Name, maxACLRoleDescription)
	case len(r.Policies) == 0:
		return invalid("role %q: at least one policy should be specified", r.Name)
	case len(r.Policies) > maxTokenPolicies:
		return invalid("role %q: a role has at most %d policies", r.Name, maxTokenPolicies)
	}
	return nil
}

// DeleteACLRole deletes a role by its ID, and returns the change's index. Tokens that have it are
// allowed less from then on. An unknown one is errdefs.NotFound.
func (cp *ControlPlane) DeleteACLRole(id string) (index uint64, err error) {
	err = cp.write(func(t *tx) error {
		if t.roles.get(id) == nil {
			return notFound("ACL role not found")
		}
		t.touched[TableACLRoles] = t.at()
		t.roles.delete(id)
		index = t.at()
		return nil
	})
	if err == nil {
		err = cp.forgetCopied()
	}
	return index, err
}

// ACLTokenPolicies names the policies that a token has, its roles' too. A role that is gone has
// none.
func (cp *ControlPlane) ACLTokenPolicies(token *structs.ACLToken) []string {
	if len(token.Roles) == 0 {
		return token.Policies
	}
	return read(cp, func(t *tables) []string {
		names := slices.Clone(token.Policies)
		for _, id := range token.Roles {
			if role := t.roles[id]; role != nil {
				names = append(names, role.Policies...)
			}
		}
		return distinct(names)
	})
}

// roleNamed finds a role by its name; nil: there is none.
func (t *tx) roleNamed(name string) (found *structs.ACLRole) {
	t.roles.all(func(_ string, r *structs.ACLRole) {
		if r.Name == name {
			found = r
		}
	})
	return found
}

// loadACLRole takes a stored role.
func (cp *ControlPlane) loadACLRole(id string, r *structs.ACLRole) error {
	if err := sameID(id, r.ID); err != nil {
		return err
	}
	cp.data.roles[id] = r
	cp.sawIndex(r.ModifyIndex)
	return nil
}

// distinct are names without those that were there before, in their order.
func distinct(names []string) (once []string) {
	for _, name := range names {
		if !slices.Contains(once, name) {
			once = append(once, name)
		}
	}
	return once
}
