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

	"github.com/stretchr/testify/require"
)

const requestsFile = "testdata/requests.txt"

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
	waits   = regexp.MustCompile(`&?wait=[0-9]+ms`)
)

// save writes what was asked for, with the IDs made what they are of.
func (r *recorder) save(t *testing.T) {
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
	require.NoError(t, os.WriteFile(requestsFile, []byte(b.String()), 0o644))
}

// general names what the IDs of a request are of.
func general(line string) string {
	line = indexes.ReplaceAllString(line, "${1}index=1")
	line = waits.ReplaceAllString(line, "")
	last := 0
	var b strings.Builder
	for _, at := range uuids.FindAllStringIndex(line, -1) {
		before := line[:at[0]]
		b.WriteString(line[last:at[0]])
		last = at[1]
		switch {
		case strings.Contains(before, "/evaluation"), strings.Contains(before, `"EvalIDs"`):
			b.WriteString("{eval}")
		case strings.Contains(before, "deployment"), strings.Contains(before, `"DeploymentID"`):
			b.WriteString("{deployment}")
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
	text, err := os.ReadFile(requestsFile)
	require.NoError(t, err)
	to := ours(t)
	table := map[string]*command{}
	for _, c := range commands(t) {
		table[c.line] = c
	}
	var current *command
	began := time.Now()
	finish := func() {
		if current != nil && current.fails == "" {
			for _, w := range current.after {
				require.NoError(t, to.await(t.Context(), w, began), current.line)
			}
		}
	}
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	count := 0
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case line == "" || line[0] == '#':
		case line[0] == '$':
			finish()
			current, began = table[line[2:]], time.Now()
			require.NotNil(t, current, "testdata/requests.txt is older than the commands: record it again: %s", line)
		case current.fails != "": // what it asked for was not answered as it has to be
		default:
			count++
			if got, want := to.send(t, client, current, line); got != want {
				t.Errorf("nomad %s: %s: %d, not %d", current.line, line, got, want)
			}
		}
	}
	t.Logf("%d requests", count)
	require.Greater(t, count, 300)
}

var recorded = regexp.MustCompile(`^(\S+) (\S+) ([0-9]+) ?(.*)$`)

// send sends a request again, and returns its status, and the one that it had.
func (to *target) send(t *testing.T, client *http.Client, c *command, line string) (got, want int) {
	t.Helper()
	m := recorded.FindStringSubmatch(line)
	require.NotNil(t, m, line)
	want, err := strconv.Atoi(m[3])
	require.NoError(t, err)
	if want == http.StatusSwitchingProtocols {
		return want, want // commands in tasks have tests of their own
	}
	fill := strings.NewReplacer("{node}", to.orNone("node", ""), "{alloc}", to.orNone("alloc", subject(c.line)), "{eval}", to.orNone("eval", subject(c.line)),
		"{deployment}", to.orNone("deployment", subject(c.line)), "{id}", noID)
	limit := patience
	if c.runs > 0 || strings.Contains(m[2], "index=1") {
		limit = time.Second // it has no end
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, m[1], to.url+fill.Replace(m[2]), strings.NewReader(fill.Replace(m[4])))
	require.NoError(t, err)
	resp, err := client.Do(req)
	if errors.Is(err, context.DeadlineExceeded) {
		return want, want // it waits for what does not come
	}
	require.NoError(t, err, line)
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, want
}

// subject is the job that a command is about.
func subject(line string) string {
	for _, job := range []string{"rolled", "once", "large", "param", "cron"} {
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
