package httpapi

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	"github.com/go-jose/go-jose/v4"
)

// Where others look for what they verify the tokens of tasks with.
const (
	jwksPath      = "/.well-known/jwks.json"
	discoveryPath = "/.well-known/openid-configuration"
)

func (h *handler) identityRoutes() {
	h.method(jwksPath, h.listPublicKeys, http.MethodGet)
	h.method(discoveryPath, h.discover, http.MethodGet)
}

// listPublicKeys are the public keys, by their IDs. A token of a key that is newer than what
// somebody has kept names one that they do not know, and has them ask again.
func (h *handler) listPublicKeys(w http.ResponseWriter, r *http.Request) error {
	set := h.ControlPlane.IdentityKeys()
	slices.SortFunc(set.Keys, func(a, b jose.JSONWebKey) int { return cmp.Compare(a.KeyID, b.KeyID) })
	w.Header().Set("Cache-Control", "max-age=900")
	return h.reply(w, r, set)
}

// discovery is what OpenID Connect Discovery asks for, as far as tokens of tasks have it.
type discovery struct {
	Issuer        string   `json:"issuer"`
	JWKS          string   `json:"jwks_uri"`
	Algorithms    []string `json:"id_token_signing_alg_values_supported"`
	ResponseTypes []string `json:"response_types_supported"`
	SubjectTypes  []string `json:"subject_types_supported"`
}

func (h *handler) discover(w http.ResponseWriter, r *http.Request) error {
	if h.Issuer == "" {
		return notFound("OIDC Discovery endpoint disabled: set oidc_issuer in the agent's server block")
	}
	return h.reply(w, r, discovery{
		Issuer: h.Issuer, JWKS: strings.TrimSuffix(h.Issuer, "/") + jwksPath,
		Algorithms: []string{string(jose.RS256)}, ResponseTypes: []string{"code"}, SubjectTypes: []string{"public"},
	})
}
