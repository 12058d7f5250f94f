package httpapi

import (
	"net/http"
	"strings"

	"github.com/wasmnode/wasmnode/httpapi/ui"
)

// withPages serves the node's web page beside the API, which it asks for all that it shows.
// Browsers that ask for the node's address alone are led to it, as by Nomad.
func withPages(api http.Handler, cfg Config) http.Handler {
	pages := ui.Handler(ui.Config{
		Logger: cfg.Logger, API: api, NodeID: cfg.Agent.NodeID, Name: cfg.Agent.Name, Version: cfg.Agent.Version,
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasPrefix(r.URL.Path, ui.Prefix):
			pages.ServeHTTP(w, r)
		case r.URL.Path+"/" == ui.Prefix, r.URL.Path == "/" && r.Method == http.MethodGet && wantsPage(r):
			http.Redirect(w, r, ui.Prefix, http.StatusTemporaryRedirect)
		default:
			api.ServeHTTP(w, r)
		}
	})
}

// wantsPage reports whether a request is of who would rather see a page: browsers say so.
func wantsPage(r *http.Request) bool { return strings.Contains(r.Header.Get("Accept"), "text/html") }
