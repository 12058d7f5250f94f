package httpapi

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"strings"

	nomad "github.com/hashicorp/nomad/api"
)

func (h *handler) namespaceRoutes() {
	h.get("/v1/namespaces", tableNamespaces, h.listNamespaces)
	h.method("/v1/namespace", h.putNamespace, http.MethodPut, http.MethodPost)
	h.get("/v1/namespace/{name}", tableNamespaces, h.readNamespace)
	h.method("/v1/namespace/{name}", h.putNamespace, http.MethodPut, http.MethodPost)
	h.method("/v1/namespace/{name}", h.deleteNamespace, http.MethodDelete)
}

// listNamespaces lists those in which the caller may do anything.
func (h *handler) listNamespaces(_ *http.Request, q *query) (answer, error) {
	list := slices.DeleteFunc(h.ControlPlane.Namespaces(), func(n *nomad.Namespace) bool {
		return !strings.HasPrefix(n.Name, q.prefix) || !q.caller.seesNamespace(n.Name)
	})
	slices.SortFunc(list, func(a, b *nomad.Namespace) int { return cmp.Compare(a.Name, b.Name) })
	all, next, err := page(q, list,
		func(n *nomad.Namespace) string { return n.Name },
		func(n *nomad.Namespace) any { return n },
		func(n *nomad.Namespace) *nomad.Namespace { return n })
	return answer{body: all, next: next}, err
}

func (h *handler) readNamespace(r *http.Request, _ *query) (answer, error) {
	n := h.ControlPlane.Namespace(r.PathValue("name"))
	if n == nil {
		return answer{}, notFound("Namespace not found")
	}
	return answer{body: n, index: n.ModifyIndex}, nil
}

// putNamespace makes a namespace, or changes one. As in Nomad, the answer has no body.
func (h *handler) putNamespace(w http.ResponseWriter, r *http.Request) error {
	var n nomad.Namespace
	if err := decode(r, &n); err != nil {
		return err
	}
	if name := r.PathValue("name"); name != "" && n.Name != name {
		return badRequest("Namespace name does not match request path")
	}
	return done(w)(h.ControlPlane.PutNamespace(n))
}

func (h *handler) deleteNamespace(w http.ResponseWriter, r *http.Request) error {
	return done(w)(h.ControlPlane.DeleteNamespace(r.PathValue("name"), h.Agent.Region))
}

// done answers a write of which there is nothing to tell but its index.
func done(w http.ResponseWriter) func(index uint64, err error) error {
	return func(index uint64, err error) error {
		if err != nil {
			return err
		}
		w.Header().Set("X-Nomad-Index", strconv.FormatUint(index, 10))
		w.WriteHeader(http.StatusOK)
		return nil
	}
}
