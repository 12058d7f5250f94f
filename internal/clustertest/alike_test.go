package clustertest

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/go-version"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/internal/recorded"
)

// ownCalls are what a node asks servers on its own behalf.
var ownCalls = []string{
	"Status.Leader", "Status.Ping", "Status.Peers", "Status.RaftStats", "Node.Register", "Node.UpdateStatus", "Node.GetClientAllocs", "Node.UpdateAlloc", "Alloc.GetAllocs",
	"Node.EmitEvents", "ServiceRegistration.Upsert", "ServiceRegistration.DeleteByID",
}

// passing is an agent, and what it passes on.
type passing struct {
	url, node string
	tap       *recorded.Tap
	seen      map[string]int // how often a question was heard
}

// TestWhatIsPassedOnIsWhatNomadsOwnClientPassesOn sends the same requests to Nomad's own client and to
// ours, and compares what they ask their servers for each, value by value, and the status of the answer.
func TestWhatIsPassedOnIsWhatNomadsOwnClientPassesOn(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can run Nomad's own client")
	}
	for _, binary := range binaries(t) {
		t.Run(filepath.Base(binary), func(t *testing.T) {
			theirs := listenTo(t, binary, "theirs", func(rpc string) string { return startTheirs(t, binary, rpc, "127.0.0.1:1") })
			ours := listenTo(t, binary, "ours", func(rpc string) string {
				return "http://" + nodeSpec{name: "ours", servers: []string{rpc}, more: "enable_debug = true"}.start(t).last(t, "the API answers: http_addr=")
			})
			older := versionOf(t, binary).LessThan(version.Must(version.NewVersion("1.10.0")))
			var unlike []string
			for _, r := range requests {
				their, own := theirs.ask(t, r.what, r.body), ours.ask(t, r.what, r.body)
				if older {
					own = newer.ReplaceAllString(own, "")
				}
				if their != own && !slices.ContainsFunc(meant, func(start string) bool { return strings.HasPrefix(r.what, start) }) {
					unlike = append(unlike, fmt.Sprintf("%s\n  theirs: %s\n    ours: %s", r.what, their, own))
				}
			}
			require.Empty(t, unlike, "%s", strings.Join(unlike, "\n"))
		})
	}
}

// newer is what an older client does not send of a job: its servers do not know it, and leave it out.
var newer = regexp.MustCompile(` Cluster:"default"| UI:\{.*?\]\}`)

// meant is how requests begin for which ours asks, or answers, something else.
var meant = []string{
	"GET /v1/evaluations/count?job=", // Nomad's client leaves the filter out
	// Nomad's client asks for streams by a connection of its own, and answers 200 or 500 for what is not there.
	"GET /v1/client/fs/", "GET /v1/agent/monitor",
	// It answers 500 for a node that is not there, where it answers 404 for others' figures.
	"GET /v1/client/metadata", "POST /v1/client/metadata", "GET /v1/client/gc",
}

// listenTo starts an agent beside a server of its own.
func listenTo(t *testing.T, binary, name string, start func(rpc string) string) *passing {
	t.Helper()
	p := startProxy(t)
	p.tap = &recorded.Tap{}
	s := startServers(t, binary, 1, "", p)[0]
	url := start(p.address())
	return &passing{url: url, node: s.ready(t, name), tap: p.tap, seen: map[string]int{}}
}

// ask sends a request, and tells what the agent has asked its server, and the status.
func (p *passing) ask(t *testing.T, what, body string) string {
	t.Helper()
	fill := strings.NewReplacer(`"N"`, `"`+p.node+`"`, "/N/", "/"+p.node+"/", `:J`, `:`+fullJob)
	method, path, _ := strings.Cut(fill.Replace(what+" "), " ")
	path = strings.TrimSuffix(strings.TrimSuffix(path, " "), "/N")
	if strings.HasSuffix(what, "/N") {
		path += "/" + p.node
	}
	if what == "PUT /v1/job/other" {
		body = strings.ReplaceAll(body, `J`, strings.Replace(fullJob, `"ID": "full"`, `"ID": "other"`, 1))
	}
	r, err := http.NewRequestWithContext(t.Context(), method, p.url+path, strings.NewReader(fill.Replace(body)))
	require.NoError(t, err)
	answer, err := http.DefaultClient.Do(r)
	require.NoError(t, err, what)
	said, err := io.ReadAll(answer.Body)
	require.NoError(t, err, what)
	require.NoError(t, answer.Body.Close())
	told := strings.ReplaceAll(strings.Join(p.news(t), "; "), p.node, "N")
	if answer.StatusCode >= 400 {
		t.Logf("%s: %d %s", what, answer.StatusCode, said)
	}
	return fmt.Sprintf("%d %s", answer.StatusCode, told)
}

// news are the questions that were passed on since it was looked last.
func (p *passing) news(t *testing.T) (list []string) {
	t.Helper()
	all, err := p.tap.Exchanges()
	require.NoError(t, err)
	heard := map[string]int{}
	for _, x := range all {
		if x.By == recorded.ByNode && !slices.Contains(ownCalls, x.Method) {
			heard[x.Method+" "+shown(x.Args)]++
		}
	}
	for _, question := range slices.Sorted(maps.Keys(heard)) {
		for range heard[question] - p.seen[question] {
			list = append(list, question)
		}
	}
	p.seen = heard
	return list
}

// noTime is that of a field that has none.
const noTime = "\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff"

// shown is a value without what is a zero in it, which is the same to servers; empty: it is one.
func shown(v any) string {
	switch v := v.(type) {
	case map[string]any:
		var parts []string
		for _, k := range slices.Sorted(maps.Keys(v)) {
			if s := shown(v[k]); s != "" && k != "MaxQueryTime" { // ours says how long it waits, which counts only with an index
				parts = append(parts, k+":"+s)
			}
		}
		if len(parts) == 0 {
			return ""
		}
		return "{" + strings.Join(parts, " ") + "}"
	case []any:
		if len(v) == 0 {
			return ""
		}
		parts := make([]string, 0, len(v))
		for _, in := range v {
			parts = append(parts, shown(in))
		}
		return "[" + strings.Join(parts, " ") + "]"
	case nil:
		return ""
	case string:
		if v == "" || v == noTime {
			return ""
		}
		return fmt.Sprintf("%q", v)
	case float64:
		return fmt.Sprintf("%gf", v)
	}
	if text := fmt.Sprint(v); text != "0" && text != "false" {
		return text
	}
	return ""
}
