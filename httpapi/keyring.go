package httpapi

import (
	"cmp"
	"net/http"
	"slices"

	nomad "github.com/hashicorp/nomad/api"
)

// keyringRoutes are of the keys that variables are sealed with. None of them shows a key.
func (h *handler) keyringRoutes() {
	h.get("/v1/operator/keyring/keys", tableRootKeys, h.listRootKeys)
	h.put("/v1/operator/keyring/rotate", h.rotateRootKey)
	h.method("/v1/operator/keyring/key/{id}", h.writing(h.deleteRootKey), http.MethodDelete)
}

func (h *handler) listRootKeys(*http.Request, *query) (answer, error) {
	keys := append([]*nomad.RootKeyMeta{}, h.ControlPlane.RootKeys()...)
	slices.SortFunc(keys, func(a, b *nomad.RootKeyMeta) int { return cmp.Compare(a.CreateIndex, b.CreateIndex) })
	return answer{body: keys}, nil
}

func (h *handler) rotateRootKey(r *http.Request) (any, error) {
	v := r.URL.Query()
	if algorithm := v.Get("algo"); algorithm != "" && algorithm != string(nomad.EncryptionAlgorithmAES256GCM) {
		return nil, badRequest("root keys are of the algorithm %q, not %q", nomad.EncryptionAlgorithmAES256GCM, algorithm)
	}
	if at := v.Get("publish_time"); at != "" && at != "0" {
		return nil, badRequest("a root key is used and published at once, and the ones before it stay published: rotate it when it is to be used")
	}
	full, err := boolParameter(r, "full")
	if err != nil {
		return nil, err
	}
	full = full || v.Has("full") && v.Get("full") == "" // the bare word is Nomad's
	key, err := h.ControlPlane.RotateRootKey(full)
	if err != nil {
		return nil, err
	}
	h.Logger.Info("the root key was rotated", "key", key.KeyID, "full", full)
	return indexed{struct{ Key *nomad.RootKeyMeta }{key}, key.ModifyIndex}, nil
}

func (h *handler) deleteRootKey(r *http.Request) (any, error) {
	force, err := boolParameter(r, "force")
	if err != nil {
		return nil, err
	}
	id := r.PathValue("id")
	if err := h.ControlPlane.DeleteRootKey(id, force); err != nil {
		return nil, err
	}
	h.Logger.Info("a root key was removed", "key", id, "force", force)
	return struct{}{}, nil
}
