package httpapi

import "net/http"

// operatorRoutes are of what a person has to decide. They are not Nomad's.
func (h *handler) operatorRoutes() {
	h.get("/v1/operator/unclaimed", tableNodes, func(r *http.Request, _ *query) (answer, error) {
		return answer{body: h.Node.Unclaimed(r.Context())}, nil
	})
	h.put("/v1/operator/unclaimed/{id}/adopt", func(r *http.Request) (any, error) {
		return struct{}{}, h.Node.Adopt(r.Context(), r.PathValue("id"))
	})
	h.put("/v1/operator/unclaimed/{id}/discard", func(r *http.Request) (any, error) {
		return struct{}{}, h.Node.Discard(r.Context(), r.PathValue("id"))
	})
}
