package httpapi

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/hashicorp/go-hclog"
	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/httpapi/access"
	"github.com/wasmnode/wasmnode/structs"
)

func (h *handler) aclPolicyRoutes() {
	h.getACL("/v1/acl/policies", h.listPolicies)
	h.getACL("/v1/acl/policy/{name}", h.readPolicy)
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

// policies are those that the caller may see: its own or, if it may read everything, all.
func (h *handler) policies(r *http.Request) ([]*structs.ACLPolicy, error) {
	all := append(h.ControlPlane.ACLPolicies(), readOnly)
	if callerOf(r).enough {
		return all, nil
	}
	by, err := h.policy.Caller(r)
	if err != nil || by.Token == nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(p *structs.ACLPolicy) bool { return !slices.Contains(by.Token.Policies, p.Name) }), nil
}

func (h *handler) listPolicies(r *http.Request, q *query) (answer, error) {
	list, err := h.policies(r)
	if err != nil {
		return answer{}, err
	}
	list = slices.DeleteFunc(list, func(p *structs.ACLPolicy) bool { return !strings.HasPrefix(p.Name, q.prefix) })
	slices.SortFunc(list, func(a, b *structs.ACLPolicy) int { return cmp.Compare(a.Name, b.Name) })
	stubs, next, err := page(q, list,
		func(p *structs.ACLPolicy) string { return p.Name },
		func(p *structs.ACLPolicy) any { return aclPolicy(p) },
		func(p *structs.ACLPolicy) *nomad.ACLPolicyListStub {
			return &nomad.ACLPolicyListStub{Name: p.Name, Description: p.Description, CreateIndex: p.CreateIndex, ModifyIndex: p.ModifyIndex}
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
	if p.JobACL != nil {
		return badRequest("policy %q is for the identities of a job's workloads: these have Nomad's own rights alone", p.Name)
	}
	if _, err := access.ParseRules(p.Rules); err != nil {
		return badRequest("policy %q: %v", p.Name, err)
	}
	return done(w)(h.ControlPlane.PutACLPolicy(structs.ACLPolicy{Name: p.Name, Description: p.Description, Rules: p.Rules}))
}

func (h *handler) deletePolicy(w http.ResponseWriter, r *http.Request) error {
	if !h.ACL {
		return structs.ErrACLDisabled
	}
	return done(w)(h.ControlPlane.DeleteACLPolicy(r.PathValue("name")))
}

func aclPolicy(p *structs.ACLPolicy) *nomad.ACLPolicy {
	return &nomad.ACLPolicy{Name: p.Name, Description: p.Description, Rules: p.Rules, CreateIndex: p.CreateIndex, ModifyIndex: p.ModifyIndex}
}

// ruleBook has the rules of policies, each read once. It is safe for concurrent use.
type ruleBook struct {
	plane  ControlPlane
	logger hclog.Logger

	mu    sync.Mutex
	known map[string]ruledPolicy // by name
}

type ruledPolicy struct {
	index uint64
	rules *access.Rules
}

func newRuleBook(plane ControlPlane, logger hclog.Logger) *ruleBook {
	return &ruleBook{plane: plane, logger: logger, known: map[string]ruledPolicy{}}
}

// of are the rules of a token's policies. A policy that is not there, or cannot be read, allows
// nothing.
func (b *ruleBook) of(t *structs.ACLToken) (all []*access.Rules) {
	for _, name := range t.Policies {
		all = append(all, b.rules(name))
	}
	return all
}

func (b *ruleBook) rules(name string) *access.Rules {
	p := b.plane.ACLPolicy(name)
	b.mu.Lock()
	defer b.mu.Unlock()
	switch known, is := b.known[name]; {
	case p == nil:
		delete(b.known, name)
		return nil
	case is && known.index == p.ModifyIndex:
		return known.rules
	}
	rules, err := access.ParseRules(p.Rules)
	if err != nil {
		b.logger.Error("an ACL policy cannot be read, and allows nothing", "policy", name, "error", err)
		rules = nil
	}
	b.known[name] = ruledPolicy{p.ModifyIndex, rules}
	return rules
}
