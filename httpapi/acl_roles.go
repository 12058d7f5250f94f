package httpapi

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/httpapi/access"
	"github.com/wasmnode/wasmnode/structs"
)

func (h *handler) aclRoleRoutes() {
	h.getACL("/v1/acl/roles", tableACLRoles, h.listRoles)
	h.put("/v1/acl/role", h.withACL(h.createRole))
	h.getACL("/v1/acl/role/{id}", tableACLRoles, h.readRole)
	h.put("/v1/acl/role/{id}", h.withACL(h.updateRole))
	h.method("/v1/acl/role/{id}", h.deleteRole, http.MethodDelete)
	h.getACL("/v1/acl/role/name/{name}", tableACLRoles, h.readRoleByName)
}

// roles are those that the caller may see: those of its token or, if it may read everything, all.
func (h *handler) roles(r *http.Request) ([]*structs.ACLRole, error) {
	all := h.ControlPlane.ACLRoles()
	if callerOf(r).enough {
		return all, nil
	}
	by, err := h.policy.Caller(r)
	if err != nil || by.Token == nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(role *structs.ACLRole) bool { return !slices.Contains(by.Token.Roles, role.ID) }), nil
}

func (h *handler) listRoles(r *http.Request, q *query) (answer, error) {
	list, err := h.roles(r)
	if err != nil {
		return answer{}, err
	}
	list = slices.DeleteFunc(list, func(role *structs.ACLRole) bool { return !strings.HasPrefix(role.ID, q.prefix) })
	slices.SortFunc(list, func(a, b *structs.ACLRole) int { return cmp.Compare(a.ID, b.ID) })
	stubs, next, err := page(q, list,
		func(role *structs.ACLRole) string { return role.ID },
		func(role *structs.ACLRole) any { return aclRole(role) },
		func(role *structs.ACLRole) *nomad.ACLRoleListStub { return (*nomad.ACLRoleListStub)(aclRole(role)) })
	return answer{body: stubs, next: next}, err
}

func (h *handler) readRole(r *http.Request, _ *query) (answer, error) {
	return h.findRole(r, func(role *structs.ACLRole) bool { return role.ID == r.PathValue("id") })
}

func (h *handler) readRoleByName(r *http.Request, _ *query) (answer, error) {
	return h.findRole(r, func(role *structs.ACLRole) bool { return role.Name == r.PathValue("name") })
}

func (h *handler) findRole(r *http.Request, is func(*structs.ACLRole) bool) (answer, error) {
	list, err := h.roles(r)
	if err != nil {
		return answer{}, err
	}
	if i := slices.IndexFunc(list, is); i >= 0 {
		return answer{body: aclRole(list[i]), index: list[i].ModifyIndex}, nil
	}
	if !callerOf(r).enough {
		return answer{}, access.ErrDenied
	}
	return answer{}, notFound("ACL role not found")
}

func (h *handler) createRole(r *http.Request) (any, error) {
	role, err := wantedRole(r)
	if err != nil {
		return nil, err
	}
	if role.ID != "" {
		return nil, badRequest("cannot find role %s: the ID of a new one is made by the node", role.ID)
	}
	return h.putRole(role)
}

func (h *handler) updateRole(r *http.Request) (any, error) {
	role, err := wantedRole(r)
	if err != nil {
		return nil, err
	}
	if role.ID != r.PathValue("id") {
		return nil, badRequest("ACL role ID does not match request path")
	}
	return h.putRole(role)
}

// wantedRole is what a request says of a role.
func wantedRole(r *http.Request) (structs.ACLRole, error) {
	var req nomad.ACLRole
	if err := decode(r, &req); err != nil {
		return structs.ACLRole{}, err
	}
	role := structs.ACLRole{ID: req.ID, Name: req.Name, Description: req.Description}
	for _, link := range req.Policies {
		if link != nil {
			role.Policies = append(role.Policies, link.Name)
		}
	}
	return role, nil
}

func (h *handler) putRole(wanted structs.ACLRole) (any, error) {
	role, err := h.ControlPlane.PutACLRole(wanted)
	if err != nil {
		return nil, err
	}
	h.Logger.Info("an ACL role was made or changed", "id", role.ID, "name", role.Name)
	return aclRole(role), nil
}

func (h *handler) deleteRole(w http.ResponseWriter, r *http.Request) error {
	if !h.ACL {
		return structs.ErrACLDisabled
	}
	return done(w)(h.ControlPlane.DeleteACLRole(r.PathValue("id")))
}

func aclRole(r *structs.ACLRole) *nomad.ACLRole {
	links := make([]*nomad.ACLRolePolicyLink, 0, len(r.Policies))
	for _, name := range r.Policies {
		links = append(links, &nomad.ACLRolePolicyLink{Name: name})
	}
	return &nomad.ACLRole{
		ID: r.ID, Name: r.Name, Description: r.Description, Policies: links, CreateIndex: r.CreateIndex, ModifyIndex: r.ModifyIndex,
	}
}
