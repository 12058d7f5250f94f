package httpapi

import (
	"net/http"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/internal/absent"
)

// enterprise are what Nomad's community edition has no more than we do.
var enterprise = []string{
	"/v1/quotas", "/v1/quota", "/v1/quota/{name}", "/v1/quota/usage/{name}", "/v1/quota-usages",
	"/v1/sentinel/policies", "/v1/sentinel/policy/{name}",
	"/v1/recommendations", "/v1/recommendations/apply", "/v1/recommendation", "/v1/recommendation/{id}",
	"/v1/deployment/multiregion/{id}", "/v1/operator/snapshot/config", "/v1/operator/utilization",
}

// unmade is what nobody can make here, by the paths where Nomad's tools make it. They are told
// what there is not, rather than that a method is wrong.
var unmade = map[string]string{
	"/v1/volume/csi/{id}":                        "CSI volumes are not supported",
	"/v1/volume/csi/{id}/create":                 "CSI volumes are not supported",
	"/v1/volume/csi/{id}/delete":                 "CSI volumes are not supported",
	"/v1/volume/csi/{id}/detach":                 "CSI volumes are not supported",
	"/v1/volumes/snapshot":                       "CSI volumes are not supported",
	"/v1/acl/auth-method":                        "auth methods are not supported",
	"/v1/acl/auth-method/{name}":                 "auth methods are not supported",
	"/v1/acl/login":                              absent.Login,
	"/v1/acl/oidc/auth-url":                      absent.Login,
	"/v1/acl/oidc/complete-auth":                 absent.Login,
	"/v1/acl/token/onetime":                      "one-time tokens are not supported: a token's secret lets in",
	"/v1/acl/token/onetime/exchange":             "one-time tokens are not supported: a token's secret lets in",
	"/v1/acl/identity/client-introduction-token": absent.Introduction,
	"/v1/client/identity/renew":                  absent.Introduction,
	"/v1/acl/binding-rule":                       "binding rules are not supported",
	"/v1/acl/binding-rule/{id}":                  "binding rules are not supported",
}

var anyMethod = []string{http.MethodGet, http.MethodPut, http.MethodPost, http.MethodDelete}

// absentRoutes are of Nomad's things of which there is none here: they answer as Nomad does
// where it has none, so that tools which ask for everything go on.
func (h *handler) absentRoutes() {
	for _, path := range enterprise {
		h.method(path, func(http.ResponseWriter, *http.Request) error {
			return &statusError{http.StatusNotImplemented, "Nomad Enterprise only endpoint"}
		}, anyMethod...)
	}
	for path, text := range unmade {
		h.method(path, func(http.ResponseWriter, *http.Request) error {
			return &statusError{http.StatusNotImplemented, text}
		}, http.MethodPut, http.MethodPost, http.MethodDelete)
	}
	h.method("/v1/client/identity", func(http.ResponseWriter, *http.Request) error {
		return &statusError{http.StatusNotImplemented, absent.Introduction}
	}, http.MethodGet)
	h.get("/v1/operator/upgrade-check/vault-workload-identity", tableJobs, func(*http.Request, *query) (answer, error) {
		return answer{body: &nomad.VaultWorkloadIdentityUpgradeCheck{
			JobsWithoutVaultIdentity: []*nomad.JobListStub{}, OutdatedNodes: []*nomad.NodeListStub{}, VaultTokens: []*nomad.VaultAccessor{},
		}}, nil
	})
	h.method("/v1/operator/license", func(w http.ResponseWriter, _ *http.Request) error {
		w.WriteHeader(http.StatusNoContent)
		return nil
	}, http.MethodGet, http.MethodPut, http.MethodPost)
	h.get("/v1/plugins", tableJobs, none)
	for _, path := range []string{"/v1/volumes/external", "/v1/volumes/snapshot"} { // of a plugin of CSI's
		h.get(path, tableJobs, func(*http.Request, *query) (answer, error) {
			return answer{}, &statusError{http.StatusInternalServerError, "no such plugin"} // as in Nomad
		})
	}
	for path, text := range map[string]string{
		"/v1/volume/csi/{id}": "volume not found",
		"/v1/plugin/csi/{id}": "plugin not found",

		"/v1/acl/auth-method/{name}": "ACL auth-method not found",
		"/v1/acl/binding-rule/{id}":  "ACL binding rule not found",
	} {
		h.get(path, tableJobs, func(*http.Request, *query) (answer, error) { return answer{}, notFound("%s", text) })
	}
	for _, path := range []string{"/v1/acl/auth-methods", "/v1/acl/binding-rules"} {
		h.getACL(path, tableACLTokens, none)
	}
}

// none is the answer where there is none of what is asked for.
func none(*http.Request, *query) (answer, error) { return answer{body: []any{}}, nil }
