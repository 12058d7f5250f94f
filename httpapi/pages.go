package httpapi

import (
	"net/http"
	"strings"
	"time"

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
			inTime(w, r)
			pages.ServeHTTP(w, r)
		case r.URL.Path+"/" == ui.Prefix, r.URL.Path == "/" && r.Method == http.MethodGet && wantsPage(r):
			inTime(w, r)
			http.Redirect(w, r, ui.Prefix, http.StatusTemporaryRedirect)
		default:
			api.ServeHTTP(w, r)
		}
	})
}

// inTime bounds how long a client may take to read a page. None has a body: one that comes all
// the same ends its connection.
func inTime(w http.ResponseWriter, r *http.Request) {
	deadlines := http.NewResponseController(w)
	_ = deadlines.SetWriteDeadline(time.Now().Add(replyTimeout)) // errors: the client may take its time
	if r.ContentLength != 0 {
		w.Header().Set("Connection", "close")
		_ = deadlines.SetReadDeadline(time.Now().Add(lingerTime))
	}
}

// wantsPage reports whether a request is of who would rather see a page: browsers say so.
func wantsPage(r *http.Request) bool { return strings.Contains(r.Header.Get("Accept"), "text/html") }
