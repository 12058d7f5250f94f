package httpapi_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto"
	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"
)

var screenshots = flag.Bool("screenshots", false, "make the pictures of docs/page.md again")

// browser is a tab of a real browser, and what went wrong in it.
type browser struct {
	t      *testing.T
	ctx    context.Context
	mu     sync.Mutex
	errors []string
}

func newBrowser(t *testing.T) *browser {
	t.Helper()
	path, err := exec.LookPath("chromium")
	require.NoError(t, err, "it is Debian's package chromium: make browser installs it")
	profile, err := os.MkdirTemp("", "browser-")
	require.NoError(t, err)
	t.Cleanup(func() { // its helpers may be writing still
		require.Eventually(t, func() bool { return os.RemoveAll(profile) == nil }, time.Minute, 10*time.Millisecond)
	})
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.UserDataDir(profile),
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true), chromedp.Env("HOME="+profile, "TMPDIR="+profile))
	allocator, end := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(end)
	quiet := func(string, ...any) {} // it does not know all that newer browsers tell
	ctx, _ := chromedp.NewContext(allocator, chromedp.WithErrorf(quiet), chromedp.WithLogf(quiet))
	t.Cleanup(func() { _ = chromedp.Cancel(ctx) }) // the allocator ends it otherwise
	timed, cancel := context.WithTimeout(ctx, 5*time.Minute)
	t.Cleanup(cancel)
	b := &browser{t: t, ctx: timed}
	chromedp.ListenTarget(ctx, b.hear)
	require.NoError(t, chromedp.Run(ctx, log.Enable()))
	return b
}

// hear takes down what a page complains of: errors of scripts, what its policy blocked, and
// answers that were none.
func (b *browser) hear(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		b.errors = append(b.errors, e.ExceptionDetails.Error())
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.APITypeError || e.Type == runtime.APITypeWarning {
			b.errors = append(b.errors, fmt.Sprint(e.Args))
		}
	case *log.EventEntryAdded:
		if e.Entry.Level == log.LevelError {
			b.errors = append(b.errors, e.Entry.Text+" "+e.Entry.URL)
		}
	}
}

// complaints are what was heard since the last time.
func (b *browser) complaints() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := b.errors
	b.errors = nil
	return all
}

func (b *browser) do(actions ...chromedp.Action) {
	b.t.Helper()
	require.NoError(b.t, chromedp.Run(b.ctx, actions...))
}

// await waits until an expression is true of the page, and looks at each change of it.
func (b *browser) await(expression string) {
	b.t.Helper()
	wait := `new Promise((done) => {
  const look = () => { try { return !!(` + expression + `); } catch { return false; } };
  if (look()) return done(true);
  new MutationObserver((_, o) => { if (look()) { o.disconnect(); done(true); } })
    .observe(document, {subtree: true, childList: true, characterData: true, attributes: true});
})`
	var is bool
	err := errors.New("not tried")
	for gone := (*cdproto.Error)(nil); err != nil && b.ctx.Err() == nil; {
		err = chromedp.Run(b.ctx, chromedp.Evaluate(wait, &is, func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }))
		if !errors.As(err, &gone) { // the page that was asked is left for the next
			break
		}
	}
	if err != nil {
		var text string
		ctx, cancel := context.WithTimeout(context.WithoutCancel(b.ctx), 10*time.Second)
		defer cancel()
		_ = chromedp.Run(ctx, chromedp.Evaluate("document.documentElement.outerHTML", &text)) // it is only shown
		require.NoError(b.t, err, "waiting for %s in\n%s", expression, text)
	}
}

// is evaluates an expression that must be true.
func (b *browser) is(expression string) {
	b.t.Helper()
	var is bool
	b.do(chromedp.Evaluate("!!("+expression+")", &is))
	require.True(b.t, is, expression)
}

// luminance has a page compute how bright a color is, as WCAG says, and what is behind an element.
const luminance = `
  const bright = (color) => {
    const [r, g, b] = color.match(/[0-9.]+/g).slice(0, 3).map((c) => c / 255).map((c) => c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (e) => {
    for (; e; e = e.parentElement) {
      const color = getComputedStyle(e).backgroundColor;
      if (color !== "rgba(0, 0, 0, 0)" && color !== "transparent") return color;
    }
    return "rgb(255, 255, 255)";
  };
`

// brightness is an expression of how bright it is behind an element.
func brightness(selector string) string {
	return `(() => {` + luminance + `return bright(behind(document.querySelector("` + selector + `"))); })()`
}

// faintTexts are those that are shown with less contrast than WCAG AA asks for.
const faintTexts = `(() => {` + luminance + `
  const faint = [];
  for (const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT); walker.nextNode();) {
    const e = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || !e.checkVisibility() || !e.getClientRects().length) continue;
    const [a, b] = [bright(getComputedStyle(e).color), bright(behind(e))].sort((a, b) => b - a);
    if ((a + 0.05) / (b + 0.05) < 4.5) faint.push(e.tagName + ": " + walker.currentNode.data.trim());
  }
  return faint;
})()`

// TestThePageInABrowser looks at the pages of one agent with one browser, as people do.
func TestThePageInABrowser(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts a browser")
	}
	w := newWorld(t, "mock", "raw_exec")
	alloc := w.run(t, hostileJob(hostile), "running")
	ticking := w.run(t, mock("ticking", map[string]any{"stdout_string": "tick\n", "stdout_repeat": 100000, "stdout_repeat_duration": "50ms"}), "running")
	b := newBrowser(t)
	pages := []string{"/ui/", "/ui/jobs", "/ui/jobs/ticking@default", "/ui/deployments", "/ui/evaluations", "/ui/allocations/" + alloc.ID, "/ui/plugins", "/ui/devices", "/ui/clients/" + alloc.NodeID}
	// A directory, a file and a log are not what events tell of.
	files := "/ui/allocations/" + ticking.ID + "/fs/"
	still := []string{files, files + "alloc/logs", files + "alloc/logs/task.stdout.0", "/ui/allocations/" + ticking.ID + "/logs/task?type=stderr"}
	everything := append(slices.Clone(pages), still...)

	t.Run("every page is live, and fits a telephone", func(t *testing.T) {
		b.t = t
		b.do(chromedp.EmulateViewport(360, 740))
		for _, path := range pages {
			b.do(chromedp.Navigate(w.URL + path))
			b.await(`document.getElementById("live").textContent === "Live"`)
			b.is(`document.documentElement.scrollWidth <= 360`)
			b.is(`window.stolen === undefined && document.images.length === 0 && document.scripts.length === 1`)
			require.Empty(t, b.complaints(), path)
		}
		b.do(chromedp.EmulateViewport(1100, 760))
	})
	t.Run("files and logs fit a telephone", func(t *testing.T) {
		b.t = t
		b.do(chromedp.EmulateViewport(360, 740))
		for _, path := range still {
			b.do(chromedp.Navigate(w.URL + path))
			b.is(`document.querySelector("h1").textContent && document.documentElement.scrollWidth <= 360`)
			require.Empty(t, b.complaints(), path)
		}
		b.do(chromedp.EmulateViewport(1100, 760))
	})
	t.Run("every page is dark for who wants that", func(t *testing.T) {
		b.t = t
		for _, scheme := range []string{"light", "dark"} {
			b.do(emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}))
			for _, path := range everything {
				var faint []string
				b.do(chromedp.Navigate(w.URL+path), chromedp.Evaluate(faintTexts, &faint))
				require.Empty(t, faint, "%s, %s", path, scheme)
				b.is(`matchMedia("(prefers-color-scheme: dark)").matches === (` + brightness("main") + ` < 0.2)`)
			}
		}
		b.do(emulation.SetEmulatedMedia().WithFeatures(nil))
		require.Empty(t, b.complaints())
	})
	t.Run("a job that is registered appears", func(t *testing.T) {
		b.t = t
		b.do(chromedp.Navigate(w.URL+"/ui/jobs"), chromedp.Evaluate(`window.same = true; document.querySelector("header nav a").focus()`, nil))
		b.await(`document.getElementById("live").textContent === "Live"`)
		w.run(t, mock("appearing", nil), "running")
		b.await(`[...document.querySelectorAll("tr")].some((row) => row.textContent.includes("appearing") && row.textContent.includes("1 of 1"))`)
		b.is(`window.same && document.activeElement.textContent === "Overview"`)
		_, _, err := w.Client.Jobs().Deregister("appearing", true, nil)
		require.NoError(t, err)
		b.await(`!document.body.textContent.includes("appearing")`)
		require.Empty(t, b.complaints())
	})
	t.Run("what a task uses is drawn", func(t *testing.T) {
		b.t = t
		b.do(chromedp.Navigate(w.URL + "/ui/allocations/" + ticking.ID))
		b.await(`document.querySelectorAll("svg.spark polyline").length === 2 && document.querySelector("svg.spark").namespaceURI.endsWith("svg")`)
		require.Empty(t, b.complaints())
	})
	t.Run("a log is followed", func(t *testing.T) {
		b.t = t
		b.do(chromedp.Navigate(w.URL + "/ui/allocations/" + ticking.ID + "/logs/task?type=stdout"))
		b.await(`document.getElementById("log").dataset.followed`)
		b.do(chromedp.Evaluate(`window.before = document.getElementById("log").textContent.length`, nil))
		b.await(`document.getElementById("log").textContent.length > window.before + 20`)
		b.is(`/^(tick\n)+(t(i(ck?)?)?)?$/.test(document.getElementById("log").textContent)`)
		require.Empty(t, b.complaints())
	})
	t.Run("a terminal", func(t *testing.T) {
		b.t = t
		b.terminal(w, w.run(t, shell("shell"), "running").ID)
	})
	t.Run("without a mouse", func(t *testing.T) {
		b.t = t
		b.do(chromedp.Navigate(w.URL+"/ui/jobs"), chromedp.KeyEvent(kb.Tab))
		b.is(`document.activeElement.textContent === "Skip to the content" && document.activeElement.getBoundingClientRect().left >= 0`)
		b.do(chromedp.KeyEvent(kb.Enter))
		b.await(`document.activeElement.id === "content"`)
		b.do(chromedp.KeyEvent(kb.Tab))
		b.is(`document.activeElement.closest("tbody a")`)
	})
	t.Run("for who does not see it", func(t *testing.T) {
		b.t = t
		b.do(chromedp.Navigate(w.URL + "/ui/"))
		names := b.accessible()
		for role, name := range map[string]string{
			"navigation": "Pages", "heading": "Overview", "link": "Jobs", "meter": "Memory", "columnheader": "Status", "rowheader": "ticking", "status": "", "region": "Health",
		} {
			require.Contains(t, names[role], name, "%s of %v", role, names)
		}
		require.NotEmpty(t, names["table"])
		outline := b.outline()
		for _, line := range []string{"RootWebArea \"Overview", "\n    navigation \"Pages\"\n", "\n  main\n    heading \"Overview\"\n", "\n    region \"Health\"\n      heading \"Health\"\n"} {
			require.Contains(t, outline, line)
		}
	})
	t.Run("each page, for who does not see it", func(t *testing.T) {
		b.t = t
		for _, path := range everything {
			b.do(chromedp.Navigate(w.URL + path))
			names := b.accessible()
			for _, role := range []string{"banner", "navigation", "main", "contentinfo", "heading"} {
				require.NotEmpty(t, names[role], "%s of %s: %v", role, path, names)
			}
			for _, role := range []string{"link", "heading", "meter", "button", "textbox", "combobox", "image", "region", "rowheader"} {
				require.NotContains(t, names[role], "", "a %s without a name at %s", role, path)
			}
		}
	})
	t.Run("without a script", func(t *testing.T) {
		b.t = t
		b.do(emulation.SetScriptExecutionDisabled(true))
		for _, path := range everything {
			b.do(chromedp.Navigate(w.URL + path))
			b.is(`document.querySelector("h1").textContent && document.querySelector("main").textContent.length > 60`)
			b.is(`document.getElementById("live").textContent === ""`)
		}
		b.do(emulation.SetScriptExecutionDisabled(false))
		require.Empty(t, b.complaints())
	})
	t.Run("with a token", func(t *testing.T) {
		b.t = t
		b.signIn()
	})
	if *screenshots {
		b.t = t
		b.pictures(w)
	}
}

// accessibleNode is what a screen reader is told of: the library refuses what newer browsers tell.
type accessibleNode struct {
	ID       string          `json:"nodeId"`
	Children []string        `json:"childIds"`
	Ignored  bool            `json:"ignored"`
	Role     accessibleValue `json:"role"`
	Name     accessibleValue `json:"name"`
}

type accessibleValue struct {
	Value string `json:"value"`
}

// accessibility is all that a screen reader is told of, the page itself first.
func (b *browser) accessibility() []accessibleNode {
	b.t.Helper()
	var tree struct {
		Nodes []accessibleNode `json:"nodes"`
	}
	b.do(chromedp.ActionFunc(func(ctx context.Context) error {
		return cdp.Execute(ctx, accessibility.CommandGetFullAXTree, nil, &tree)
	}))
	require.NotEmpty(b.t, tree.Nodes)
	return tree.Nodes
}

// accessible are the names of what a screen reader is told of, by their roles.
func (b *browser) accessible() (names map[string][]string) {
	b.t.Helper()
	names = map[string][]string{}
	for _, n := range b.accessibility() {
		if !n.Ignored {
			names[n.Role.Value] = append(names[n.Role.Value], n.Name.Value)
		}
	}
	return names
}

// outline is what a screen reader tells of a page, a line each, those within another one further in.
func (b *browser) outline() string {
	b.t.Helper()
	all := b.accessibility()
	byID := map[string]accessibleNode{}
	for _, n := range all {
		byID[n.ID] = n
	}
	var out strings.Builder
	var tell func(n accessibleNode, depth int)
	tell = func(n accessibleNode, depth int) {
		told := !n.Ignored && !slices.Contains([]string{"generic", "InlineTextBox", "StaticText", "none"}, n.Role.Value)
		if told {
			line := strings.Repeat("  ", depth) + n.Role.Value
			if n.Name.Value != "" {
				line += " " + strconv.Quote(n.Name.Value)
			}
			fmt.Fprintln(&out, line)
			depth++
		}
		for _, id := range n.Children {
			tell(byID[id], depth)
		}
	}
	tell(all[0], 0)
	return out.String()
}

// terminal runs a shell in a task, and types.
func (b *browser) terminal(w *world, alloc string) {
	b.t.Helper()
	shown := func(text string) string {
		return `document.querySelector("#terminal .xterm-rows").textContent.includes("` + text + `")`
	}
	told := func(text string) string { return `document.getElementById("told").textContent === "` + text + `"` }
	b.do(chromedp.Navigate(w.URL + "/ui/allocations/" + alloc + "/exec/task"))
	b.await(`!document.getElementById("execute").hidden && document.querySelector("#terminal .xterm-rows")`)
	b.do(chromedp.SendKeys("#command", kb.Enter))
	b.await(told("Connected") + ` && document.activeElement.closest("#terminal")`)
	b.do(chromedp.KeyEvent("echo $((6 * 7))-$(stty size | wc -w); printf '\\e[38;2;1;200;3mcolor\\e[0m\\n'" + kb.Enter))
	b.await(shown("42-2") + ` && [...document.querySelectorAll("#terminal .xterm-rows span")].some((s) => s.textContent === "color" && s.style.color)`)
	b.is(`document.querySelector("#terminal .xterm-accessibility")`)
	b.do(chromedp.KeyEvent(kb.F6))
	b.is(`document.activeElement.id === "end"`)
	b.do(chromedp.Focus("#terminal textarea"), chromedp.KeyEvent("exit 3"+kb.Enter))
	b.await(told("The command has ended with the code 3") + ` && document.activeElement.id === "command"`)
	for _, c := range []struct{ command, told string }{
		{"no-such-command", "command no-such-command is not on the task's PATH"}, {"[1]", "This is no command: it is no list of texts"},
	} {
		b.do(chromedp.SetValue("#command", c.command), chromedp.SendKeys("#command", kb.Enter))
		b.await(`document.getElementById("told").textContent.startsWith("` + c.told + `")`)
	}
	b.do(chromedp.SetValue("#command", `["sh", "-c", "echo one  two"]`), chromedp.SendKeys("#command", kb.Enter))
	b.await(told("The command has ended with the code 0") + " && " + shown("one two"))
	require.Empty(b.t, b.complaints())
}

// signIn goes to a node that wants a token.
func (b *browser) signIn() {
	d := divide(b.t)
	b.t.Cleanup(func() { b.do(chromedp.Navigate("about:blank")) }) // the node waits for the end of its streams
	jobs := `[...document.querySelectorAll("tbody tr")].map((row) => row.cells[1].textContent).sort().join()`
	b.do(chromedp.Navigate(d.URL + "/ui/jobs"))
	b.is(`document.getElementById("sign-in") && document.getElementById("sign-out").hidden`)
	b.do(chromedp.SendKeys("#token", "11111111-2222-3333-4444-555555555555"+kb.Enter))
	b.await(`document.querySelector("main").textContent.includes("ACL token not found")`)
	b.is(`document.getElementById("sign-in") && document.getElementById("token").value === ""`)
	b.do(chromedp.SendKeys("#token", d.reader+kb.Enter))
	b.await(jobs + ` === "default,mine,theirs" && document.getElementById("live").textContent === "Live"`)
	b.is(`document.cookie === "" && localStorage.length === 0 && document.activeElement.id === "content" && !document.getElementById("sign-out").hidden`)
	b.do(chromedp.Navigate(d.URL + "/ui/jobs/mine@default"))
	b.await(`document.querySelector("h1").textContent === "mine"`)
	b.do(chromedp.Evaluate(`document.querySelector("details").open = true`, nil), chromedp.Click("a[data-api]"))
	b.await(`JSON.parse(document.querySelector("main pre").textContent).ID === "mine"`)
	b.do(chromedp.Click("main p a"))
	b.await(`document.querySelector("h1").textContent === "mine" && !document.querySelector("main pre")`)
	b.managesTerminal(d)
	b.do(chromedp.Click("#sign-out"))
	b.await(`document.getElementById("sign-in") && document.getElementById("sign-out").hidden && sessionStorage.length === 0`)
	b.do(chromedp.Navigate(d.URL+"/ui/jobs"), chromedp.SendKeys("#token", d.team+kb.Enter))
	b.await(jobs + ` === "mine" && document.getElementById("live").textContent !== ""`)
	for _, complaint := range b.complaints() {
		require.Contains(b.t, complaint, "403", "what it was refused")
	}
}

// managesTerminal is refused a terminal as who reads, and given one as a manager.
func (b *browser) managesTerminal(d *divided) {
	b.t.Helper()
	alloc := d.of["mine"].alloc
	d.runs(b.t, alloc)
	before := d.node.executed.Load()
	b.do(chromedp.Navigate(d.URL + "/ui/allocations/" + alloc + "/exec/task"))
	b.await(`document.querySelector("main").textContent.includes("A terminal is for management tokens") && !document.getElementById("terminal")`)
	b.do(chromedp.SendKeys("#token", d.manager+kb.Enter))
	b.await(`!document.getElementById("execute").hidden`)
	b.do(chromedp.SetValue("#command", "true"), chromedp.SendKeys("#command", kb.Enter))
	b.await(`document.getElementById("told").textContent === "The command has ended with the code 0"`)
	require.Equal(b.t, before+1, d.node.executed.Load())
}

// pictures makes those of docs/page.md, of a node with ordinary jobs.
func (b *browser) pictures(w *world) {
	b.t.Helper()
	for _, id := range []string{hostile, "ticking"} {
		_, _, err := w.Client.Jobs().Deregister(id, true, nil)
		require.NoError(b.t, err)
	}
	for _, id := range []string{"worker", "web"} {
		job := mock(id, nil)
		job.Type, job.TaskGroups[0].Count = new("service"), new(3)
		job.Update = &nomad.UpdateStrategy{MaxParallel: new(1), MinHealthyTime: new(time.Second)}
		w.run(b.t, job, "running")
	}
	b.do(chromedp.EmulateViewport(860, 640))
	for _, p := range []struct{ name, scheme, path, shown string }{
		{"page", "light", "/ui/", "3 of 3"}, {"page-job", "dark", "/ui/jobs/web@default", "Deployment completed successfully"},
	} {
		b.do(emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: p.scheme}}),
			chromedp.Navigate(w.URL+p.path))
		b.await(`document.getElementById("live").textContent === "Live" && document.querySelector("main").textContent.includes("` + p.shown + `")`)
		b.picture(p.name)
		if p.name == "page" {
			require.NoError(b.t, os.WriteFile(filepath.Join("..", "docs", "page-outline.txt"), []byte(b.outline()), 0o644))
		}
	}
	b.do(chromedp.Navigate(w.URL + "/ui/allocations/" + w.Await(b.t, "shell", "running")[0].ID + "/exec/task"))
	b.await(`!document.getElementById("execute").hidden`)
	b.do(chromedp.SetValue("#command", `["sh", "-c", "ls --color=always --format=commas /usr; exec sh"]`), chromedp.SendKeys("#command", kb.Enter))
	b.await(`document.querySelector("#terminal .xterm-rows").textContent.includes("$ ") || document.querySelector("#terminal .xterm-rows").textContent.includes("# ")`)
	b.do(chromedp.KeyEvent("stty size"+kb.Enter), chromedp.Evaluate(`scrollTo(0, 0)`, nil))
	b.await(`/size *[0-9]+ [0-9]+/.test(document.querySelector("#terminal .xterm-rows").textContent)`)
	b.picture("page-terminal")
}

// picture keeps what is shown.
func (b *browser) picture(name string) {
	b.t.Helper()
	var png []byte
	b.do(chromedp.CaptureScreenshot(&png))
	require.Less(b.t, len(png), 75_000, "pictures are small")
	require.NoError(b.t, os.WriteFile(filepath.Join("..", "docs", name+".png"), png, 0o644))
}
