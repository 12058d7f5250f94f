package ui

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"net/http"
	"runtime/debug"
	"strings"

	"github.com/hashicorp/go-hclog"
)

// Config configures the page. All fields are required.
type Config struct {
	Logger hclog.Logger
	// API is Nomad's API, which decides who may ask for what.
	API http.Handler
	// NodeID, Name and Version are the node's.
	NodeID, Name, Version string
}

// Prefix is the path below which the pages are.
const Prefix = "/ui/"

// site answers requests for pages. It has no state of its own but what it has seen of figures.
type site struct {
	Config
	templates pages
	seen      *history
}

// Handler returns the pages below [Prefix]. It is safe for concurrent use.
func Handler(cfg Config) http.Handler {
	return &site{Config: cfg, templates: parsePages(), seen: newHistory()}
}

// view is a page before it is rendered.
type view struct {
	status   int    // of HTTP; 0: it is all there
	template string // its name
	// Title is the page's own, and Section the link to it of the navigation.
	Title, Section string
	// Parents are the pages that this one is below.
	Parents []link
	// Poll has the page rendered again as often, in milliseconds, besides when something
	// changes; 0: only then. Still has it never rendered again.
	Poll  int
	Still bool
	Body  any
	// JSON are the paths of the API that the page was made from.
	JSON []string
	// Node, NodeID and Version are the node's.
	Node, NodeID, Version string
}

// link is a text and where it leads.
type link struct{ Text, To string }

// poll is how often what has no events is looked at again, in milliseconds.
const poll = 3000

// ServeHTTP implements [http.Handler].
func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	guard(w.Header())
	a := &asker{api: s.API, request: r}
	if wantsData(r) {
		a.data = &data{Answers: map[string]json.RawMessage{}, Figures: map[string][]dataFigure{}}
	}
	defer func() {
		switch p := recover(); p {
		case nil:
		case any(http.ErrAbortHandler):
			panic(p)
		default:
			s.Logger.Error("page panicked", "path", r.URL.Path, "panic", p, "stack", string(debug.Stack()))
			s.render(w, r, refused(a, &refusal{http.StatusInternalServerError, fmt.Sprintf("internal error: %v", p), r.URL.Path}))
		}
	}()
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		s.render(w, r, refused(a, &refusal{http.StatusMethodNotAllowed, "pages are read with GET: what changes something is asked of the API", r.URL.Path}))
		return
	}
	if name, is := strings.CutPrefix(r.URL.Path, Prefix+"static/"); is && serveStatic(w, r, name) {
		return
	}
	v, err := s.page(a) //nolint:contextcheck // the context is that of the request, which the asker has
	if err != nil {
		v = refused(a, err)
	}
	if a.data != nil {
		a.sendData(w, v)
		return
	}
	s.render(w, r, v)
}

// page finds the page of a path. The IDs of jobs and the names of files may have any
// characters, slashes among them, so that the path is not cleaned.
func (s *site) page(a *asker) (*view, error) {
	section, rest, _ := strings.Cut(strings.TrimPrefix(a.request.URL.Path, Prefix), "/")
	id, more, _ := strings.Cut(rest, "/")
	kind, name, _ := strings.Cut(more, "/")
	switch {
	case section == "":
		return s.overview(a)
	case section == "jobs" && rest == "":
		return s.jobs(a)
	case section == "jobs":
		return s.job(a, rest)
	case section == "allocations" && id != "" && more == "":
		return s.allocation(a, id)
	case section == "allocations" && kind == "logs" && name != "":
		return s.logs(a, id, name)
	case section == "allocations" && kind == "exec" && name != "":
		return s.terminal(a, id, name)
	case section == "allocations" && kind == "fs":
		return s.files(a, id, name)
	case section == "deployments" && rest == "":
		return s.deployments(a)
	case section == "evaluations" && rest == "":
		return s.evaluations(a)
	case section == "plugins" && rest == "":
		return s.plugins(a)
	case section == "devices" && rest == "":
		return s.devices(a)
	case section == "clients" && (rest == "" || rest == s.NodeID):
		return s.node(a)
	}
	return nil, &refusal{http.StatusNotFound, "there is no such page", a.request.URL.Path}
}

// policy has the browser load and run nothing but the files of this package, whatever a
// page should come to contain, and has no other page show this one in a frame.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; " +
	"form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types page"

func guard(h http.Header) {
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Frame-Options", "DENY")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=(), payment=(), usb=()")
	h.Set("Cache-Control", "no-store")
}

// render sends a page whole, or none of it.
func (s *site) render(w http.ResponseWriter, r *http.Request, v *view) {
	v.Node, v.NodeID, v.Version = s.Name, s.NodeID, s.Version
	var b bytes.Buffer
	if err := s.templates[v.template].ExecuteTemplate(&b, "layout", v); err != nil {
		s.Logger.Error("page not rendered", "path", r.URL.Path, "error", err)
		http.Error(w, "internal error: the page could not be rendered: the agent's log says why", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	if v.status != 0 {
		w.WriteHeader(v.status)
	}
	_, _ = w.Write(b.Bytes()) // errors: the browser is gone
}

//go:embed static
var static embed.FS

// serveStatic sends a file of this package, and reports whether there is one. It is the same
// for everybody and tells nothing of the node.
func serveStatic(w http.ResponseWriter, r *http.Request, name string) bool {
	b, err := static.ReadFile("static/" + name)
	if err != nil {
		return false
	}
	w.Header().Set("Cache-Control", "no-cache")
	w.Header().Set("ETag", fmt.Sprintf("%q", digest(b)))
	http.ServeContent(w, r, name, started, bytes.NewReader(b))
	return true
}
