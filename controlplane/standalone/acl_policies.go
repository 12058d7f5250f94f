package standalone

import (
	"maps"
	"regexp"
	"slices"

	"github.com/wasmnode/wasmnode/internal/acl"
	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/structs/errdefs"
)

// The bounds of ACL policies.
const (
	maxACLPolicies          = 1000
	maxACLPolicyDescription = 256      // bytes, as in Nomad
	maxACLPolicyRules       = 64 << 10 // bytes
)

var aclPolicyName = regexp.MustCompile(`^[a-zA-Z0-9-]{1,128}$`)

// ACLPolicies returns all policies but the built-in one, in no order.
func (cp *ControlPlane) ACLPolicies() []*structs.ACLPolicy {
	return read(cp, func(t *tables) []*structs.ACLPolicy { return slices.Collect(maps.Values(t.policies)) })
}

// ACLPolicy returns a policy by its name; nil: there is none, or it is built in.
func (cp *ControlPlane) ACLPolicy(name string) *structs.ACLPolicy {
	return read(cp, func(t *tables) *structs.ACLPolicy { return t.policies[name] })
}

// ACLRules are the rules of policies.
func (cp *ControlPlane) ACLRules(policies []string) []*acl.Rules { return cp.rules.All(policies) }

// policyText is what a policy says, for the book of rules.
func (cp *ControlPlane) policyText(name string) (rules string, index uint64) {
	if p := cp.ACLPolicy(name); p != nil {
		return p.Rules, p.ModifyIndex
	}
	return "", 0
}

// PutACLPolicy makes a policy, or takes its place: what the tokens with it may do changes at
// once, also after the file was damaged and its last good copy took its place. Its rules are
// not looked at. It returns the change's index. What it cannot be is errdefs.InvalidArgument,
// one too many errdefs.FailedPrecondition.
func (cp *ControlPlane) PutACLPolicy(p structs.ACLPolicy) (index uint64, err error) {
	switch {
	case p.Name == structs.ACLReadOnly:
		return 0, invalid("the policy %q is built in and stays as it is", p.Name)
	case !aclPolicyName.MatchString(p.Name):
		return 0, invalid("invalid name %q of a policy: 1 to 128 letters, digits and -", p.Name)
	case len(p.Description) > maxACLPolicyDescription:
		return 0, invalid("description of policy %q longer than %d", p.Name, maxACLPolicyDescription)
	case p.Tasks != nil:
		if err := attachmentFault(p.Tasks); err != nil {
			return 0, err
		}
	}
	switch {
	case len(p.Rules) > maxACLPolicyRules:
		return 0, invalid("the rules of policy %q have %d bytes, at most %d are possible", p.Name, len(p.Rules), maxACLPolicyRules)
	}
	err = cp.write(func(t *tx) error {
		count := 0
		t.policies.all(func(string, *structs.ACLPolicy) { count++ })
		old := t.policies.get(p.Name)
		if old == nil && count >= maxACLPolicies {
			return errdefs.New(errdefs.FailedPrecondition, "there are %d ACL policies, as many as there can be: delete some", count)
		}
		t.touched[TableACLPolicies] = t.at()
		p.CreateIndex, p.ModifyIndex = t.at(), t.at()
		if old != nil {
			p.CreateIndex = old.CreateIndex
		}
		t.policies.put(p.Name, &p)
		index = t.at()
		return nil
	})
	if err == nil {
		err = cp.forgetCopied()
	}
	return index, err
}

// attachmentFault is why a policy can be attached to no such tasks; nil: it can.
func attachmentFault(r *structs.ACLTaskRule) error {
	switch {
	case r.Namespace == "" && r.JobID != "":
		return invalid("namespace must be set to set job ID")
	case r.JobID == "" && r.Group != "":
		return invalid("job ID must be set to set group")
	case r.Group == "" && r.Task != "":
		return invalid("group must be set to set task")
	case r.Namespace == "":
		return invalid("a policy that is attached to tasks names their namespace")
	}
	return nil
}

// policiesAttachedTo names the policies that a task has, in order.
func (cp *ControlPlane) policiesAttachedTo(w *structs.Workload) []string {
	return read(cp, func(t *tables) (names []string) {
		for name, p := range t.policies {
			if p.Tasks.Has(w) {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		return names
	})
}

// DeleteACLPolicy deletes a policy, and returns the change's index. Tokens that have it are
// allowed less from then on. An unknown one is errdefs.NotFound, the built-in one
// errdefs.InvalidArgument.
func (cp *ControlPlane) DeleteACLPolicy(name string) (index uint64, err error) {
	err = cp.write(func(t *tx) error {
		switch {
		case name == structs.ACLReadOnly:
			return invalid("the policy %q is built in and stays as it is", name)
		case t.policies.get(name) == nil:
			return notFound("ACL policy not found")
		}
		t.touched[TableACLPolicies] = t.at()
		t.policies.delete(name)
		index = t.at()
		return nil
	})
	if err == nil {
		err = cp.forgetCopied()
	}
	return index, err
}

// loadACLPolicy takes a stored policy.
func (cp *ControlPlane) loadACLPolicy(name string, p *structs.ACLPolicy) error {
	if err := sameID(name, p.Name); err != nil {
		return err
	}
	cp.data.policies[name] = p
	cp.sawIndex(p.ModifyIndex)
	return nil
}
