package httpapi_test

import (
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"github.com/wasmnode/wasmnode/agent/agenttest"
	"github.com/wasmnode/wasmnode/httpapi"
	"github.com/wasmnode/wasmnode/httpapi/access"
	"github.com/wasmnode/wasmnode/structs"
)

// hostile is what a page must show as it is: of an attacker who can name a job, a group, a
// task or a check, or write a log.
const hostile = `"'><script>window.stolen=1</script><img/src=x/onerror=window.stolen=1>`

// hostileJob has that for all names that may have it, and prints it.
func hostileJob(id string) *nomad.Job {
	job := agenttest.Job(id, "mock_driver", map[string]any{"run_for": "1h", "stdout_string": hostile + "\n"})
	group := job.TaskGroups[0]
	name, task := strings.ReplaceAll(hostile, "/", ""), strings.ReplaceAll(hostile, "/", "")
	group.Name, group.Tasks[0].Name = &name, task
	return job
}

// all calls visit for a node and those below it.
func all(n *html.Node, visit func(*html.Node)) {
	visit(n)
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		all(c, visit)
	}
}

func attribute(n *html.Node, name string) (value string, is bool) {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val, true
		}
	}
	return "", false
}

func textOf(n *html.Node) string {
	var b strings.Builder
	all(n, func(n *html.Node) {
		if n.Type == html.TextNode {
			b.WriteString(n.Data)
		}
	})
	return b.String()
}

// pageOf parses a page, and looks at what holds for each: its header, its form, and that it
// has nothing from elsewhere and nothing that runs or styles but the files of the package.
func pageOf(t *testing.T, path string, r reply) (links []string) {
	t.Helper()
	require.Equal(t, "text/html; charset=utf-8", r.header.Get("Content-Type"), path)
	csp := r.header.Get("Content-Security-Policy")
	for _, want := range []string{"default-src 'none'", "script-src 'self'", "style-src 'self'", "frame-ancestors 'none'", "form-action 'none'", "base-uri 'none'"} {
		require.Contains(t, csp, want, path)
	}
	require.NotContains(t, csp, "unsafe", path)
	for name, want := range map[string]string{
		"X-Frame-Options": "DENY", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store",
	} {
		require.Equal(t, want, r.header.Get(name), "%s of %s", name, path)
	}
	doc, err := html.Parse(strings.NewReader(r.body))
	require.NoError(t, err)
	count, level, ids := map[string]int{}, 0, map[string]bool{}
	all(doc, func(n *html.Node) {
		if n.Type != html.ElementNode {
			return
		}
		count[n.Data]++
		for _, a := range n.Attr {
			require.False(t, strings.HasPrefix(a.Key, "on"), "%s has %s", path, a.Key)
			switch a.Key {
			case "style":
				require.Fail(t, "a style of its own", "%s: %s", path, a.Val)
			case "href", "src", "action":
				require.Regexp(t, `^(/[^/]|/ui/$|#)`, a.Val, "%s leads elsewhere", path)
				if n.DataAtom == atom.A && strings.HasPrefix(a.Val, "/") {
					links = append(links, a.Val)
				}
			case "id":
				require.False(t, ids[a.Val], "%s has two of the id %s", path, a.Val)
				ids[a.Val] = true
			}
		}
		described(t, path, n)
		if h := "h123456"; len(n.Data) == 2 && n.Data[0] == 'h' && strings.IndexByte(h, n.Data[1]) > 0 {
			now := strings.IndexByte(h, n.Data[1])
			require.LessOrEqual(t, now, level+1, "%s: the heading %q is below none", path, textOf(n))
			level = now
		}
	})
	for _, name := range []string{"main", "header", "footer", "h1", "title", "script"} {
		require.Equal(t, 1, count[name], "%s of %s", name, path)
	}
	for _, name := range []string{"img", "iframe", "object", "embed", "style", "base"} {
		require.Zero(t, count[name], "%s of %s", name, path)
	}
	return links
}

// described checks that who does not see the page is told what there is.
func described(t *testing.T, path string, n *html.Node) {
	t.Helper()
	switch n.DataAtom {
	case atom.Html:
		lang, _ := attribute(n, "lang")
		require.Equal(t, "en", lang, path)
	case atom.Th:
		_, is := attribute(n, "scope")
		require.True(t, is, "%s: the header %q is of no row and no column", path, textOf(n))
	case atom.A, atom.Button, atom.H1, atom.H2, atom.H3, atom.Title, atom.Summary:
		require.NotEmpty(t, strings.TrimSpace(textOf(n)), "%s: a %s without a text", path, n.Data)
	case atom.Meter, atom.Progress, atom.Nav:
		label, _ := attribute(n, "aria-label")
		require.NotEmpty(t, label, "%s: a %s without a name", path, n.Data)
	case atom.Svg:
		role, _ := attribute(n, "role")
		label, _ := attribute(n, "aria-label")
		require.Equal(t, "img", role, path)
		require.NotEmpty(t, label, "%s: a picture without words", path)
	case atom.Pre:
		_, is := attribute(n, "tabindex")
		require.True(t, is, "%s: a text that the keyboard does not reach", path)
	case atom.Script:
		require.Empty(t, textOf(n), "%s: a script of its own", path)
	}
}

// TestEveryLinkOfThePageLeadsSomewhere walks through all pages of a node with a hostile job, one
// that is not placed, and plugins.
func TestEveryLinkOfThePageLeadsSomewhere(t *testing.T) {
	w := newWorld(t, "mock")
	const id = hostile
	alloc := w.run(t, hostileJob(id), "running")
	big := mock("big", nil)
	huge := 1 << 30
	big.TaskGroups[0].Tasks[0].Resources.MemoryMB = &huge
	_, _, err := w.Client.Jobs().Register(big, nil)
	require.NoError(t, err)
	seen, queue, shown := map[string]bool{"/ui/": true}, []string{"/ui/"}, map[string]string{}
	for len(queue) > 0 {
		path := queue[0]
		queue = queue[1:]
		r := w.get(t, path)
		if strings.HasSuffix(path, "/secrets") || strings.HasSuffix(path, "%2Fsecrets") {
			require.Equal(t, http.StatusForbidden, r.status, path)
			require.Contains(t, r.body, "secrets are not readable", path)
			require.NotContains(t, r.body, "sign-in", path)
			continue
		}
		require.Equal(t, http.StatusOK, r.status, "GET %s: %s", path, r.body)
		if !strings.HasPrefix(path, "/ui/") {
			require.NotContains(t, r.header.Get("Content-Type"), "html", path)
			continue
		}
		shown[path] = r.body
		for _, to := range pageOf(t, path, r) {
			if !seen[to] {
				seen[to] = true
				queue = append(queue, to)
			}
		}
	}
	for _, want := range []string{
		"/ui/", "/ui/jobs", "/ui/deployments", "/ui/evaluations", "/ui/evaluations?status=blocked", "/ui/plugins", "/ui/devices", "/ui/allocations/" + alloc.ID, "/ui/allocations/" + alloc.ID + "/fs/alloc/logs",
	} {
		require.Contains(t, shown, want)
	}
	texts := map[string]string{}
	for path, body := range shown {
		doc, err := html.Parse(strings.NewReader(body))
		require.NoError(t, err)
		texts[path] = textOf(doc)
	}
	require.Contains(t, texts["/ui/jobs"], hostile)
	for _, path := range []string{"/ui/jobs/big@default", "/ui/evaluations", "/ui/evaluations?status=blocked"} {
		require.Contains(t, texts[path], "Not enough is free: memory", path)
	}
	require.NotContains(t, texts["/ui/evaluations?status=blocked"], "complete")
	require.Regexp(t, `How long calls took *\d+ within`, texts["/ui/plugins"])
	task := url.PathEscape(strings.ReplaceAll(hostile, "/", ""))
	log := slices.IndexFunc(slices.Collect(keys(texts)), func(path string) bool {
		return strings.Contains(path, "/logs/"+task) && strings.Contains(path, "stdout") && strings.Contains(texts[path], hostile)
	})
	require.GreaterOrEqual(t, log, 0, "a log as it is, of %v", slices.Collect(keys(texts)))
}

func keys(m map[string]string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// asked sends a request, and returns what pageOf takes.
func (g *guarded) asked(t *testing.T, method, path string, headers ...string) reply {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, g.URL+path, nil)
	require.NoError(t, err)
	for i := 0; i < len(headers); i += 2 {
		if req.Header.Set(headers[i], headers[i+1]); headers[i] == "Host" {
			req.Host = headers[i+1]
		}
	}
	client := *g.Client()
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	resp, err := client.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return reply{resp.StatusCode, resp.Header, string(b)}
}

func TestAPageShowsNoMoreThanItsToken(t *testing.T) {
	d := divide(t)
	mine, theirs := "/ui/jobs/web@mine", "/ui/jobs/web@theirs"
	pages := []string{"/ui/", "/ui/jobs", "/ui/deployments", "/ui/evaluations", "/ui/plugins", "/ui/devices", "/ui/clients/node", mine, theirs,
		"/ui/allocations/" + d.of["mine"].alloc, "/ui/allocations/" + d.of["theirs"].alloc}
	for _, path := range pages {
		r := d.asked(t, http.MethodGet, path)
		pageOf(t, path, r)
		require.Equal(t, http.StatusForbidden, r.status, path)
		require.Contains(t, r.body, `<form id="sign-in"`, path)
		r = d.asked(t, http.MethodGet, path, "X-Nomad-Token", "11111111-2222-3333-4444-555555555555")
		require.Contains(t, r.body, "ACL token not found", path)
		require.Contains(t, r.body, `<form id="sign-in"`, path)
		require.Empty(t, d.told(r.body, path), path)
		// A cookie is no token: other ports of the host, which tasks serve, are sent the same.
		r = d.asked(t, http.MethodGet, path, "Cookie", "X-Nomad-Token="+d.manager+"; wasmnode-token="+d.manager)
		require.Equal(t, http.StatusForbidden, r.status, path)
		r = d.asked(t, http.MethodGet, path, access.TokenHeader, d.reader)
		require.Equal(t, http.StatusOK, r.status, path)
		pageOf(t, path, r)
		r = d.asked(t, http.MethodGet, path, access.TokenHeader, d.team)
		pageOf(t, path, r)
		other := path == theirs || strings.HasSuffix(path, d.of["theirs"].alloc)
		require.Equal(t, !other, r.status == http.StatusOK, "%s: %d", path, r.status)
		require.Empty(t, d.told(r.body, path), path)
	}
}

func TestAPageIsForNoOtherSite(t *testing.T) {
	g := serveGuarded(t, nil)
	for name, c := range map[string]struct {
		headers []string
		text    string
	}{
		"a link of another site":   {[]string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate"}, "Open the page"},
		"a link of another port":   {[]string{"Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "navigate"}, "Open the page"},
		"a script of another site": {[]string{"Origin", "http://evil.test", "Sec-Fetch-Site", "cross-site"}, "Open the page"},
		"a name that leads here":   {[]string{"Host", "evil.test", "Sec-Fetch-Site", "same-origin"}, "http_hosts"},
		"a name without a fetch":   {[]string{"Host", "evil.test"}, "http_hosts"},
		"a name that is not one":   {[]string{"Host", "<b>"}, "not a name"},
		"a path of no page":        {nil, ""},
		"a site that is not told":  {[]string{"Origin", "null"}, "Open the page"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.headers == nil {
				r := g.asked(t, http.MethodGet, "/ui/%3Cscript%3E")
				require.Equal(t, http.StatusNotFound, r.status)
				pageOf(t, "/ui/none", r)
				require.Contains(t, r.body, "there is no such page")
				return
			}
			for _, path := range []string{"/ui/", "/ui/jobs", "/ui/jobs/mine@default", "/ui/allocations/" + g.alloc} {
				r := g.asked(t, http.MethodGet, path, c.headers...)
				if name == "a name that is not one" && r.status == http.StatusBadRequest {
					return // the HTTP server knows it itself
				}
				require.Equal(t, http.StatusForbidden, r.status, path)
				pageOf(t, path, r)
				require.Contains(t, r.body, c.text)
				require.NotContains(t, r.body, "mine.group", path)
				require.NotContains(t, r.body, "sign-in", path)
			}
		})
	}
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete} {
		r := g.asked(t, method, "/ui/jobs")
		require.Equal(t, http.StatusMethodNotAllowed, r.status)
		require.Equal(t, "GET, HEAD", r.header.Get("Allow"))
		pageOf(t, "/ui/jobs", r)
	}
}

func TestWhatIsNotThereIsAPage(t *testing.T) {
	g := serveGuarded(t, nil)
	const none = "11111111-2222-3333-4444-555555555555"
	for _, path := range []string{
		"/ui/none", "/ui/jobs/none@default", "/ui/jobs/mine@none", "/ui/allocations/" + none, "/ui/allocations/" + none + "/logs/task", "/ui/clients/" + none,
		"/ui/allocations/" + g.alloc + "/none", "/ui/allocations/" + g.alloc + "/fs/none", "/ui/static/none", "/ui/plugins/none", "/ui/allocations/",
		"/ui/jobs/a%2F%2Fb@default", "/ui/jobs/..%2Fnodes@default",
	} {
		r := g.asked(t, http.MethodGet, path)
		require.Equal(t, http.StatusNotFound, r.status, path)
		for _, to := range pageOf(t, path, r) {
			if !strings.HasPrefix(to, "/v1/") {
				require.Equal(t, http.StatusOK, g.asked(t, http.MethodGet, to).status, "%s of %s", to, path)
			}
		}
	}
}

// TestAPageWithoutAPartOfItsData has conditions, and a node that measures nothing.
func TestAPageWithoutAPartOfItsData(t *testing.T) {
	g := serveGuarded(t, func(c *httpapi.Config) {
		c.Conditions = func() []structs.Condition {
			return []structs.Condition{{Text: "the disk is <b>full</b>; nothing is stored", Remedy: "make <i>room</i>", Unhealthy: true}, {Text: "a second thing", Server: true}}
		}
	})
	r := g.asked(t, http.MethodGet, "/ui/")
	require.Equal(t, http.StatusOK, r.status)
	pageOf(t, "/ui/", r)
	require.Contains(t, r.body, `<span class="status unwell">client</span> <bdi>the disk is &lt;b&gt;full&lt;/b&gt;; nothing is stored</bdi><br>What to do: <bdi>make &lt;i&gt;room&lt;/i&gt;</bdi></li>`)
	require.Contains(t, r.body, `<span class="status waiting">control plane</span> <bdi>a second thing</bdi></li>`)
	require.Contains(t, r.body, "unhealthy")
}

func TestBrowsersAreLedToThePage(t *testing.T) {
	g := serveGuarded(t, nil)
	const browser = "text/html,application/xhtml+xml;q=0.9,*/*;q=0.8"
	for _, path := range []string{"/", "/ui"} {
		r := g.asked(t, http.MethodGet, path, "Accept", browser)
		require.Equal(t, http.StatusTemporaryRedirect, r.status, path)
		require.Equal(t, "/ui/", r.header.Get("Location"))
	}
	r := g.asked(t, http.MethodGet, "/", "Accept", "*/*")
	require.Equal(t, http.StatusNotFound, r.status)
	require.Equal(t, "no such endpoint: /", r.body)
}

func TestANodeWithoutAPage(t *testing.T) {
	g := serveGuarded(t, func(c *httpapi.Config) { c.NoPage = true })
	for _, path := range []string{"/", "/ui", "/ui/", "/ui/jobs", "/ui/static/page.css"} {
		r := g.asked(t, http.MethodGet, path, "Accept", "text/html")
		require.Equal(t, http.StatusNotFound, r.status, path)
		require.Equal(t, "no such endpoint: "+path, r.body)
	}
	require.Contains(t, g.asked(t, http.MethodGet, "/v1/agent/self").body, `"UI":{"Enabled":false,`)
	require.Contains(t, serveGuarded(t, nil).asked(t, http.MethodGet, "/v1/agent/self").body, `"UI":{"Enabled":true,`)
}

func TestTheFilesOfThePage(t *testing.T) {
	g := serveGuarded(t, func(c *httpapi.Config) { c.ACL = true })
	for name, kind := range map[string]string{"page.css": "text/css; charset=utf-8", "page.js": "text/javascript; charset=utf-8", "icon.svg": "image/svg+xml"} {
		r := g.asked(t, http.MethodGet, "/ui/static/"+name)
		require.Equal(t, http.StatusOK, r.status, name)
		require.Equal(t, kind, r.header.Get("Content-Type"), name)
		require.Equal(t, "nosniff", r.header.Get("X-Content-Type-Options"), name)
		require.NotContains(t, strings.ReplaceAll(r.body, "http://www.w3.org/2000/svg", ""), "://", "%s asks another host", name)
		again := g.asked(t, http.MethodGet, "/ui/static/"+name, "If-None-Match", r.header.Get("ETag"))
		require.Equal(t, http.StatusNotModified, again.status, name)
	}
}
