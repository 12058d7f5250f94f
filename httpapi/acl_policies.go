package httpapi

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/httpapi/access"
	"github.com/wasmnode/wasmnode/internal/acl"
	"github.com/wasmnode/wasmnode/structs"
)

func (h *handler) aclPolicyRoutes() {
	h.getACL("/v1/acl/policies", tableACLPolicies, h.listPolicies)
	h.getACL("/v1/acl/policy/self", tableACLPolicies, h.selfPolicies)
	h.getACL("/v1/acl/policy/{name}", tableACLPolicies, h.readPolicy)
	h.method("/v1/acl/policy/{name}", h.putPolicy, http.MethodPut, http.MethodPost)
	h.method("/v1/acl/policy/{name}", h.deletePolicy, http.MethodDelete)
}

// readOnly is the built-in policy, as Nomad would write what it allows.
var readOnly = &structs.ACLPolicy{
	Name:        structs.ACLReadOnly,
	Description: "Read everything, change nothing",
	Rules: `namespace "*" {
  policy       = "read"
  capabilities = ["read-logs", "read-fs"]
}
agent  { policy = "read" }
node   { policy = "read" }
plugin { policy = "read" }
`,
}

// policiesOf names the policies of a caller: of its token and that one's roles, or what is attached
// to a task.
func policiesOf(plane ControlPlane, c access.Caller) []string {
	switch {
	case c.Token != nil:
		return plane.ACLTokenPolicies(c.Token)
	case c.Workload != nil:
		return c.Workload.Policies
	}
	return nil
}

// policies are those that the caller may see: its own or, if it may read everything, all.
func (h *handler) policies(r *http.Request) ([]*structs.ACLPolicy, error) {
	all := append(h.ControlPlane.ACLPolicies(), readOnly)
	if callerOf(r).enough {
		return all, nil
	}
	by, err := h.policy.Caller(r)
	return ownPolicies(all, policiesOf(h.ControlPlane, by)), err
}

func ownPolicies(all []*structs.ACLPolicy, names []string) []*structs.ACLPolicy {
	return slices.DeleteFunc(all, func(p *structs.ACLPolicy) bool { return !slices.Contains(names, p.Name) })
}

func (h *handler) listPolicies(r *http.Request, q *query) (answer, error) {
	list, err := h.policies(r)
	if err != nil {
		return answer{}, err
	}
	return listedPolicies(list, q)
}

// selfPolicies are those of the caller itself: of a manager's token all.
func (h *handler) selfPolicies(r *http.Request, q *query) (answer, error) {
	by, err := h.policy.Caller(r)
	switch {
	case err != nil:
		return answer{}, err
	case by.Token == nil && by.Workload == nil:
		return answer{}, access.ErrDenied
	}
	all := append(h.ControlPlane.ACLPolicies(), readOnly)
	if by.Token == nil || by.Token.Type != structs.ACLManagement {
		all = ownPolicies(all, policiesOf(h.ControlPlane, by))
	}
	return listedPolicies(all, q)
}

func listedPolicies(list []*structs.ACLPolicy, q *query) (answer, error) {
	list = slices.DeleteFunc(list, func(p *structs.ACLPolicy) bool { return !strings.HasPrefix(p.Name, q.prefix) })
	slices.SortFunc(list, func(a, b *structs.ACLPolicy) int { return cmp.Compare(a.Name, b.Name) })
	stubs, next, err := page(q, list,
		func(p *structs.ACLPolicy) string { return p.Name },
		func(p *structs.ACLPolicy) any { return aclPolicy(p) },
		func(p *structs.ACLPolicy) *nomad.ACLPolicyListStub {
			return &nomad.ACLPolicyListStub{Name: p.Name, Description: p.Description, JobACL: jobACL(p.Tasks), CreateIndex: p.CreateIndex, ModifyIndex: p.ModifyIndex}
		})
	return answer{body: stubs, next: next}, err
}

func (h *handler) readPolicy(r *http.Request, _ *query) (answer, error) {
	list, err := h.policies(r)
	if err != nil {
		return answer{}, err
	}
	for _, p := range list {
		if p.Name == r.PathValue("name") {
			return answer{body: aclPolicy(p), index: p.ModifyIndex}, nil
		}
	}
	if !callerOf(r).enough {
		return answer{}, access.ErrDenied
	}
	return answer{}, notFound("ACL policy not found")
}

// putPolicy makes a policy, or changes one. As in Nomad, the answer has no body.
func (h *handler) putPolicy(w http.ResponseWriter, r *http.Request) error {
	if !h.ACL {
		return structs.ErrACLDisabled
	}
	var p nomad.ACLPolicy
	if err := decode(r, &p); err != nil {
		return err
	}
	if p.Name != r.PathValue("name") {
		return badRequest("ACL policy name does not match request path")
	}
	if _, err := acl.ParseRules(p.Rules); err != nil {
		return badRequest("policy %q: %v", p.Name, err)
	}
	wanted := structs.ACLPolicy{Name: p.Name, Description: p.Description, Rules: p.Rules}
	if j := p.JobACL; j != nil && *j != (nomad.JobACL{}) {
		wanted.Tasks = &structs.ACLTaskRule{Namespace: j.Namespace, JobID: j.JobID, Group: j.Group, Task: j.Task}
	}
	return done(w)(h.ControlPlane.PutACLPolicy(wanted))
}

func (h *handler) deletePolicy(w http.ResponseWriter, r *http.Request) error {
	if !h.ACL {
		return structs.ErrACLDisabled
	}
	return done(w)(h.ControlPlane.DeleteACLPolicy(r.PathValue("name")))
}

func aclPolicy(p *structs.ACLPolicy) *nomad.ACLPolicy {
	return &nomad.ACLPolicy{Name: p.Name, Description: p.Description, Rules: p.Rules, JobACL: jobACL(p.Tasks), CreateIndex: p.CreateIndex, ModifyIndex: p.ModifyIndex}
}

// jobACL renders which tasks a policy is attached to; nil: to none.
func jobACL(r *structs.ACLTaskRule) *nomad.JobACL {
	if r == nil {
		return nil
	}
	return &nomad.JobACL{Namespace: r.Namespace, JobID: r.JobID, Group: r.Group, Task: r.Task}
}
