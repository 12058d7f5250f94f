package httpapi

import (
	"cmp"
	"net"
	"net/http"
	"slices"
	"time"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/httpapi/access"
	"github.com/wasmnode/wasmnode/structs"
)

func (h *handler) aclRoutes() {
	h.put("/v1/acl/bootstrap", h.withACL(h.bootstrapACL))
	h.getACL("/v1/acl/tokens", tableACLTokens, h.listTokens)
	h.put("/v1/acl/token", h.withACL(h.createToken))
	h.get("/v1/acl/token/self", tableACLTokens, h.ownToken)
	h.getACL("/v1/acl/token/{accessor}", tableACLTokens, h.readToken)
	h.put("/v1/acl/token/{accessor}", h.withACL(h.updateToken))
	h.method("/v1/acl/token/{accessor}", h.writing(h.withACL(h.deleteToken)), http.MethodDelete)
}

// getACL registers a read of a table of ACLs, which is refused where they are off.
func (h *handler) getACL(pattern, table string, read func(*http.Request, *query) (answer, error)) {
	h.get(pattern, table, func(r *http.Request, q *query) (answer, error) {
		if !h.ACL {
			return answer{}, structs.ErrACLDisabled
		}
		return read(r, q)
	})
}

// withACL refuses a write where ACLs are off.
func (h *handler) withACL(serve func(*http.Request) (any, error)) func(*http.Request) (any, error) {
	return func(r *http.Request) (any, error) {
		if !h.ACL {
			return nil, structs.ErrACLDisabled
		}
		return serve(r)
	}
}

// errFirstToken refuses to make it for who is not on this machine.
var errFirstToken = &statusError{http.StatusForbidden, "the first token is made on the node itself: run acl bootstrap there, by way of 127.0.0.1 or the node's socket"}

// bootstrapACL makes the first token. It needs none itself, so it has to be asked for on
// this machine: also a node that lost its tokens must not be anybody's for the asking.
func (h *handler) bootstrapACL(r *http.Request) (any, error) {
	if h.policy.Tasks || !local(r) {
		return nil, errFirstToken
	}
	var req nomad.BootstrapRequest
	if err := decode(r, &req); err != nil {
		return nil, err
	}
	token, secret, err := h.ControlPlane.BootstrapACL(req.BootstrapSecret)
	if err != nil {
		return nil, err
	}
	h.Logger.Info("the first ACL token was made", "accessor_id", token.AccessorID)
	return h.aclToken(token, secret), nil
}

// local reports whether a request came from this machine itself, and not by way of a proxy
// on it that says so.
func local(r *http.Request) bool {
	for _, by := range []string{"Forwarded", "Via", "X-Forwarded-For", "X-Real-Ip"} {
		if len(r.Header[by]) > 0 {
			return false
		}
	}
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return true // a unix socket's: they have no address
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

func (h *handler) listTokens(_ *http.Request, q *query) (answer, error) {
	tokens := slices.DeleteFunc(h.ControlPlane.ACLTokens(), func(t *structs.ACLToken) bool { return !q.hasUUIDPrefix(t.AccessorID) })
	slices.SortFunc(tokens, func(a, b *structs.ACLToken) int { return cmp.Compare(a.CreateIndex, b.CreateIndex) })
	stubs, next, err := page(q, tokens,
		func(t *structs.ACLToken) string { return t.AccessorID },
		func(t *structs.ACLToken) any { return h.aclToken(t, "") },
		h.aclTokenStub)
	return answer{body: stubs, next: next}, err
}

func (h *handler) createToken(r *http.Request) (any, error) {
	var req nomad.ACLToken
	if err := decode(r, &req); err != nil {
		return nil, err
	}
	if req.AccessorID != "" || req.SecretID != "" {
		return nil, badRequest("a token's accessor and secret are made by the node: leave AccessorID and SecretID out")
	}
	wanted := wantedToken(&req)
	ttl := req.ExpirationTTL
	if at := req.ExpirationTime; at != nil {
		if ttl != 0 {
			return nil, badRequest("a token has an expiration time or a TTL, not both")
		}
		ttl = time.Until(*at)
		if ttl <= 0 {
			return nil, badRequest("the expiration time has passed")
		}
	}
	token, secret, err := h.ControlPlane.CreateACLToken(wanted, ttl)
	if err != nil {
		return nil, err
	}
	h.Logger.Info("an ACL token was made", "accessor_id", token.AccessorID, "name", token.Name, "type", token.Type)
	return h.aclToken(token, secret), nil
}

// wantedToken is what a request says of a token. A role is by its ID or, without one, by its name.
func wantedToken(req *nomad.ACLToken) *structs.ACLToken {
	t := &structs.ACLToken{Name: req.Name, Type: req.Type, Policies: req.Policies, Global: req.Global}
	for _, link := range req.Roles {
		if link != nil {
			t.Roles = append(t.Roles, cmp.Or(link.ID, link.Name))
		}
	}
	return t
}

// updateToken changes what a token is called and may do. As in Nomad, what is left out is taken
// away.
func (h *handler) updateToken(r *http.Request) (any, error) {
	var req nomad.ACLToken
	if err := decode(r, &req); err != nil {
		return nil, err
	}
	if req.AccessorID != "" && req.AccessorID != r.PathValue("accessor") {
		return nil, badRequest("Token accessor ID does not match")
	}
	old, err := h.token(r)
	if err != nil {
		return nil, err
	}
	switch {
	case req.Global != old.Global:
		return nil, badRequest("cannot toggle global mode of %s", old.AccessorID)
	case req.ExpirationTTL != 0 && req.ExpirationTTL != lifetime(old):
		return nil, badRequest("cannot update expiration TTL of %s", old.AccessorID)
	case req.ExpirationTime != nil && !req.ExpirationTime.Equal(old.Expires):
		return nil, badRequest("cannot update expiration time of %s", old.AccessorID)
	}
	token, err := h.ControlPlane.UpdateACLToken(old.AccessorID, wantedToken(&req))
	if err != nil {
		return nil, err
	}
	h.Logger.Info("an ACL token was changed", "accessor_id", token.AccessorID, "name", token.Name, "type", token.Type)
	return h.aclToken(token, ""), nil
}

func (h *handler) deleteToken(r *http.Request) (any, error) {
	id := r.PathValue("accessor")
	if err := h.ControlPlane.DeleteACLToken(id); err != nil {
		return nil, err
	}
	h.Logger.Info("an ACL token was deleted", "accessor_id", id)
	return struct{}{}, nil
}

// ownToken shows the token that the request came with.
func (h *handler) ownToken(r *http.Request, _ *query) (answer, error) {
	if !h.ACL {
		return answer{body: &nomad.ACLToken{AccessorID: "acls-disabled", Name: "ACLs disabled token", Type: structs.ACLClient}}, nil
	}
	caller, err := h.policy.Caller(r)
	if err != nil {
		return answer{}, err
	}
	token := caller.Token
	if token == nil {
		return answer{}, structs.ErrACLTokenNotFound
	}
	return answer{body: h.aclToken(token, access.Secret(r.Header)), index: token.ModifyIndex}, nil
}

// readToken shows any token to who may manage them, and others their own.
func (h *handler) readToken(r *http.Request, _ *query) (answer, error) {
	caller, err := h.policy.Caller(r)
	if err != nil {
		return answer{}, err
	}
	if t := caller.Token; t == nil || t.Type != structs.ACLManagement && t.AccessorID != r.PathValue("accessor") {
		return answer{}, structs.ErrACLDenied
	}
	token, err := h.token(r)
	if err != nil {
		return answer{}, err
	}
	return answer{body: h.aclToken(token, ""), index: token.ModifyIndex}, nil
}

// token is the one that the path names.
func (h *handler) token(r *http.Request) (*structs.ACLToken, error) {
	t := h.ControlPlane.ACLToken(r.PathValue("accessor"))
	if t == nil {
		return nil, notFound("%s", structs.ErrACLTokenNotFound)
	}
	return t, nil
}

// aclToken renders a token. Its secret is known when it is made, and to whoever shows it.
func (h *handler) aclToken(t *structs.ACLToken, secret string) *nomad.ACLToken {
	return aclToken(t, secret, h.ControlPlane.ACLRole)
}

// aclToken renders a token with the names of its roles; role may be nil.
func aclToken(t *structs.ACLToken, secret string, role func(id string) *structs.ACLRole) *nomad.ACLToken {
	return &nomad.ACLToken{
		AccessorID: t.AccessorID, SecretID: secret, Name: t.Name, Type: t.Type, Policies: t.Policies, Global: t.Global,
		Roles: roleLinks(t, role), CreateTime: t.Created, ExpirationTime: expiry(t), ExpirationTTL: lifetime(t),
		CreateIndex: t.CreateIndex, ModifyIndex: t.ModifyIndex,
	}
}

// roleLinks are a token's roles. As in Nomad, one that was deleted is not shown.
func roleLinks(t *structs.ACLToken, role func(id string) *structs.ACLRole) []*nomad.ACLTokenRoleLink {
	links := []*nomad.ACLTokenRoleLink{}
	for _, id := range t.Roles {
		if role == nil {
			links = append(links, &nomad.ACLTokenRoleLink{ID: id})
		} else if r := role(id); r != nil {
			links = append(links, &nomad.ACLTokenRoleLink{ID: id, Name: r.Name})
		}
	}
	return links
}

// lifetime is how long a token was made for; 0: it does not expire.
func lifetime(t *structs.ACLToken) time.Duration {
	if t.Expires.IsZero() {
		return 0
	}
	return t.Expires.Sub(t.Created)
}

func (h *handler) aclTokenStub(t *structs.ACLToken) *nomad.ACLTokenListStub {
	return &nomad.ACLTokenListStub{
		AccessorID: t.AccessorID, Name: t.Name, Type: t.Type, Policies: t.Policies, Global: t.Global,
		Roles: roleLinks(t, h.ControlPlane.ACLRole), CreateTime: t.Created, ExpirationTime: expiry(t),
		CreateIndex: t.CreateIndex, ModifyIndex: t.ModifyIndex,
	}
}

func expiry(t *structs.ACLToken) *time.Time {
	if t.Expires.IsZero() {
		return nil
	}
	return &t.Expires
}
