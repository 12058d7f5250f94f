package compattest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"
)

// recorder passes on what the stock nomad asks, and remembers it.
type recorder struct {
	to     *target
	server *httptest.Server
	mu     sync.Mutex
	lines  []string
}

func newRecorder(t *testing.T, to *target) *recorder {
	t.Helper()
	r := &recorder{to: to}
	target, err := url.Parse(to.url)
	require.NoError(t, err)
	proxy := &httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(target)
			p.Out.Host = target.Host
			p.Out.Header.Del("Accept-Encoding")
		},
		FlushInterval:  -1,
		ModifyResponse: r.answered,
		ErrorHandler:   func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
	r.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		req.Body = io.NopCloser(bytes.NewReader(body))
		proxy.ServeHTTP(w, req.WithContext(context.WithValue(req.Context(), bodyKey{}, string(body))))
	}))
	t.Cleanup(r.server.Close)
	return r
}

type bodyKey struct{}

func (r *recorder) begin(c *command) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, "$ "+c.line)
}

// answered remembers a request, and has the stock nomad ask for files here, too.
func (r *recorder) answered(resp *http.Response) error {
	asked := resp.Request
	body, _ := asked.Context().Value(bodyKey{}).(string)
	r.mu.Lock()
	r.lines = append(r.lines, fmt.Sprintf("%s %s %d %s", asked.Method, asked.URL.RequestURI(), resp.StatusCode, oneLine(body)))
	r.mu.Unlock()
	if !strings.HasPrefix(asked.URL.Path, "/v1/node/") || resp.StatusCode != http.StatusOK || asked.Method != http.MethodGet {
		return nil
	}
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	text = regexp.MustCompile(`"HTTPAddr":"[^"]*"`).ReplaceAll(text, []byte(`"HTTPAddr":""`))
	resp.Body = io.NopCloser(bytes.NewReader(text))
	resp.ContentLength = int64(len(text))
	resp.Header.Set("Content-Length", strconv.Itoa(len(text)))
	return nil
}

func oneLine(body string) string {
	if strings.ContainsAny(body, "\n\r") {
		if !json.Valid([]byte(body)) {
			return ""
		}
		var b bytes.Buffer
		_ = json.Compact(&b, []byte(body)) // it is valid
		return b.String()
	}
	return body
}

var (
	uuids   = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	indexes = regexp.MustCompile(`([?&])index=[0-9]+`)
	configs = regexp.MustCompile(`(/scheduler/configuration\?cas=)[0-9]+`)
	waits   = regexp.MustCompile(`&?wait=[0-9]+ms`)
)

// save writes what was asked for, with the IDs made what they are of.
func (r *recorder) save(t *testing.T, file string) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	var b strings.Builder
	b.WriteString("# What the stock nomad asks for, a command at a time: method, path, status, body.\n# Written by: NOMAD_BIN=… go test ./internal/compattest -run StockCommands -update\n")
	seen := map[string]bool{}
	for _, line := range r.lines {
		if line[0] == '$' {
			seen = map[string]bool{}
		} else {
			line = general(line)
			if strings.HasPrefix(line, "GET ") && seen[line] {
				continue // it polls
			}
			seen[line] = true
		}
		b.WriteString(line + "\n")
	}
	require.NoError(t, os.WriteFile(file, []byte(b.String()), 0o644))
}

// firstRequest stands for the secret of the first token, so that it stays what it is.
const firstRequest = "{first}"

// unknownID is what commands name that is not there.
const unknownID = "11111111-1111-1111-1111-111111111111"

// general names what the IDs of a request are of.
func general(line string) string {
	line = strings.ReplaceAll(line, firstToken, firstRequest)
	line = indexes.ReplaceAllString(line, "${1}index=1")
	line = waits.ReplaceAllString(line, "")
	line = configs.ReplaceAllString(line, "${1}{index}")
	last := 0
	var b strings.Builder
	for _, at := range uuids.FindAllStringIndex(line, -1) {
		before := line[:at[0]]
		b.WriteString(line[last:at[0]])
		last = at[1]
		switch {
		case line[at[0]:at[1]] == unknownID:
			b.WriteString("{id}")
		case strings.Contains(before, "/evaluation"), strings.Contains(before, `"EvalIDs"`):
			b.WriteString("{eval}")
		case strings.Contains(before, "deployment"), strings.Contains(before, `"DeploymentID"`):
			b.WriteString("{deployment}")
		case strings.HasSuffix(before, "/volume/host/"), strings.HasSuffix(before, `{"Volume":{"Namespace":"","ID":"`):
			b.WriteString("{volume}")
		case strings.HasSuffix(before, "/volumes/claim/"):
			b.WriteString("{claim}")
		case strings.HasSuffix(before, "/scaling/policy/"):
			b.WriteString("{policy}")
		case strings.HasSuffix(before, "/keyring/key/"):
			b.WriteString("{key}")
		case strings.HasSuffix(before, "/acl/token/"), strings.HasSuffix(before, `"AccessorID":"`):
			b.WriteString("{token}")
		case strings.HasSuffix(before, "/acl/role/"), strings.HasPrefix(line, "PUT /v1/acl/role/") && strings.HasSuffix(before, `{"ID":"`):
			b.WriteString("{role}")
		case strings.HasSuffix(before, `"Lock":{"ID":"`):
			b.WriteString("{lock}")
		case strings.HasSuffix(before, "/_nomad-task-"):
			b.WriteString("{alloc}")
		case strings.Contains(before, "node"), strings.Contains(before, `"NodeID"`):
			b.WriteString("{node}")
		case strings.Contains(before, "alloc"), strings.Contains(before, "/client/fs/"):
			b.WriteString("{alloc}")
		default:
			b.WriteString("{id}")
		}
	}
	return b.String() + line[last:]
}

// TestTheRequestsOfStockCommands sends what the stock nomad was seen to ask for, in its order,
// to an agent of ours: each has the status that it had.
func TestTheRequestsOfStockCommands(t *testing.T) {
	for _, tab := range tables {
		t.Run(tab.name, func(t *testing.T) { tab.sendAll(t) })
	}
}

func (tab *table) sendAll(t *testing.T) {
	text, err := os.ReadFile(tab.requests())
	require.NoError(t, err)
	to := tab.ours(t)
	known := map[string]*command{}
	for _, c := range tab.commands(t) {
		known[c.line] = c
	}
	r := &replay{to: to, client: &http.Client{Transport: &http.Transport{}}}
	defer r.client.CloseIdleConnections()
	began := time.Now()
	finish := func() {
		if r.command != nil && r.command.fails == "" {
			to.afterwards(r.command)
			for _, w := range r.command.after {
				require.NoError(t, to.await(t.Context(), w, began), r.command.line)
			}
		}
	}
	count := 0
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case line == "" || line[0] == '#':
		case line[0] == '$':
			finish()
			r.command, began = known[line[2:]], time.Now()
			require.NotNil(t, r.command, "%s is older than the commands: record it again: %s", tab.requests(), line)
		case r.command.fails != "": // what it asked for was not answered as it has to be
		default:
			count++
			if got, want := r.send(t, line); got != want {
				t.Errorf("nomad %s: %s: %d, not %d", r.command.line, line, got, want)
			}
		}
	}
	t.Logf("%d requests", count)
	require.Greater(t, count, 25)
}

// replay sends recorded requests.
type replay struct {
	to      *target
	client  *http.Client
	command *command // that they were of
	lock    string   // the ID of the one that was acquired last
	saved   string   // the snapshot
	index   string   // of the scheduler's configuration
}

var recorded = regexp.MustCompile(`^(\S+) (\S+) ([0-9]+) ?(.*)$`)

// send sends a request again, and returns its status, and the one that it had.
func (r *replay) send(t *testing.T, line string) (got, want int) {
	t.Helper()
	to := r.to
	m := recorded.FindStringSubmatch(line)
	require.NotNil(t, m, line)
	want, err := strconv.Atoi(m[3])
	require.NoError(t, err)
	if want == http.StatusSwitchingProtocols {
		return want, want // commands in tasks have tests of their own
	}
	pairs := []string{firstRequest, firstToken, "{lock}", r.lock, "{index}", r.index, "{id}", noID}
	for _, kind := range kinds {
		if p := "{" + kind + "}"; strings.Contains(line, p) {
			pairs = append(pairs, p, to.orNone(kind, subject(kind, r.command.line)))
		}
	}
	fill := strings.NewReplacer(pairs...)
	limit := patience
	if r.command.runs > 0 || strings.Contains(m[2], "index=1") {
		limit = time.Second // it has no end
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	body := fill.Replace(m[4])
	if strings.HasPrefix(m[2], "/v1/operator/snapshot") {
		body = r.saved
	}
	req, err := http.NewRequestWithContext(ctx, m[1], to.url+fill.Replace(m[2]), strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("X-Nomad-Token", to.token)
	resp, err := r.client.Do(req)
	if errors.Is(err, context.DeadlineExceeded) {
		return want, want // it waits for what does not come
	}
	require.NoError(t, err, line)
	defer resp.Body.Close()
	if strings.HasPrefix(m[2], "/v1/event/stream") || strings.HasPrefix(m[2], "/v1/agent/monitor") {
		return resp.StatusCode, want // it has no end
	}
	answer, _ := io.ReadAll(resp.Body)
	switch {
	case strings.Contains(m[2], "lock-acquire"):
		var v nomad.Variable
		_ = json.Unmarshal(answer, &v) // a refusal is none
		r.lock = v.LockID()
	case m[1] == http.MethodGet && strings.HasPrefix(m[2], "/v1/operator/snapshot"):
		r.saved = string(answer)
	case m[1] == http.MethodGet && strings.HasPrefix(m[2], "/v1/operator/scheduler/configuration"):
		var c nomad.SchedulerConfigurationResponse
		require.NoError(t, json.Unmarshal(answer, &c))
		r.index = strconv.FormatUint(c.SchedulerConfig.ModifyIndex, 10)
	}
	return resp.StatusCode, want
}

// subject is the job that a command is about; of a token or role it is the newest.
func subject(kind, line string) string {
	if kind == "token" || kind == "role" {
		return ""
	}
	for _, job := range []string{"rolled", "once", "large", "param", "cron", "served"} {
		if strings.Contains(line, job) {
			return job
		}
	}
	return "web"
}

// orNone is the ID of what a job has of a kind, or else of any.
func (to *target) orNone(kind, job string) string {
	if id := to.id(kind, job); id != "" {
		return id
	}
	if evals, _, err := to.client.Evaluations().List(nil); kind == "eval" && err == nil && len(evals) > 0 {
		return evals[0].ID
	}
	return noID
}
