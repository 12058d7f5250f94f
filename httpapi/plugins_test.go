package httpapi_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/host/recent"
	"github.com/wasmnode/wasmnode/httpapi"
	"github.com/wasmnode/wasmnode/structs"
)

// onePlugin is a node with one plugin, "web", of which something is told.
type onePlugin struct {
	noPlugins
	log    *recent.List[string]
	closed chan struct{}
}

type lineReader struct {
	*recent.Reader[string]
	closed chan struct{}
}

func (r lineReader) Read() (any, uint64, error)                    { return r.Reader.Read() }
func (r lineReader) Wait(ctx context.Context) (any, uint64, error) { return r.Reader.Wait(ctx) }
func (r lineReader) Close()                                        { close(r.closed) }

func (p onePlugin) Log(name string, lines int) httpapi.PluginStream {
	if name != "web" {
		return nil
	}
	return lineReader{p.log.Last(lines), p.closed}
}

func (p onePlugin) Trace(name string) httpapi.PluginStream { return p.Log(name, 0) }

func (p onePlugin) serve(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(httpapi.Handler(httpapi.Config{
		Logger: hclog.NewNullLogger(), ControlPlane: plane(t), Node: idle{}, Plugins: p,
		Agent: httpapi.AgentInfo{Name: "here", Region: "global"}, Conditions: func() []structs.Condition { return nil },
	}))
	t.Cleanup(s.Close)
	return s.URL + "/v1/agent/plugin/"
}

func TestTheLastLinesOfAPluginAreSent(t *testing.T) {
	p := onePlugin{log: recent.New[string](1 << 10)}
	for i := range 200 {
		p.log.Add(strings.Repeat("x", i%10), 1)
	}
	for query, want := range map[string]int{"": 100, "?lines=0": 0, "?lines=3": 3, "?lines=1000&follow=false": 200} {
		p.closed = make(chan struct{})
		r, err := http.Get(p.serve(t) + "web/logs" + query)
		require.NoError(t, err)
		body, err := io.ReadAll(r.Body)
		require.NoError(t, err)
		require.NoError(t, r.Body.Close())
		require.Equal(t, 1+want, strings.Count(string(body), "\n"), "with the first, which says that it is heard: %s", body)
		<-p.closed
	}
}

func TestWhatIsToldOfAPluginIsFollowed(t *testing.T) {
	for _, path := range []string{"web/logs?lines=0&follow=true", "web/trace"} {
		p := onePlugin{log: recent.New[string](10), closed: make(chan struct{})}
		ctx, cancel := context.WithCancel(t.Context())
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.serve(t)+path, nil)
		require.NoError(t, err)
		r, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		lines := bufio.NewReader(r.Body)
		next := func() string {
			line, err := lines.ReadString('\n')
			require.NoError(t, err)
			return line
		}
		require.Equal(t, "{}\n", next())
		p.log.Add("first", 1)
		require.Equal(t, "\"first\"\n", next())
		cancel()
		<-p.closed
		require.NoError(t, r.Body.Close())
	}
}

// Whoever tells something does not wait for who reads.
func TestASlowReaderOfAPluginLosesTheOldestAndIsTold(t *testing.T) {
	p := onePlugin{log: recent.New[string](4 << 16), closed: make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.serve(t)+"web/trace", nil)
	require.NoError(t, err)
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	r, err := client.Do(req)
	require.NoError(t, err)
	defer r.Body.Close()
	text := strings.Repeat("x", 1<<16)
	const all = 1000 // more than all buffers hold
	for range all {
		p.log.Add(text, len(text))
	}
	p.log.Add("last", 4)
	seen, lost := 0, 0
	decoder := json.NewDecoder(r.Body)
	for {
		var line any
		require.NoError(t, decoder.Decode(&line))
		if m, is := line.(map[string]any); is {
			if n, told := m["Lost"].(float64); told {
				lost += int(n)
			}
			continue
		}
		if line == "last" {
			break
		}
		seen++
	}
	require.Positive(t, lost)
	require.Equal(t, all, seen+lost)
}

func TestWrongRequestsForAPluginsLinesAreRefused(t *testing.T) {
	url := onePlugin{log: recent.New[string](10)}.serve(t)
	for path, want := range map[string]string{
		"none/logs":            `no plugin "none" has been loaded since the agent was started`,
		"none/trace":           `no plugin "none" has been loaded since the agent was started`,
		"web/logs?lines=-1":    `lines: "-1" is not a number of lines`,
		"web/logs?lines=x":     `lines: "x" is not a number of lines`,
		"web/logs?follow=x":    "Expect `true` or `false`",
		"web/logs?tail=1":      `unknown parameter "tail"`,
		"web/trace?follow=yes": `unknown parameter "follow"`,
		"web":                  "no such endpoint",
	} {
		r, err := http.Get(url + path)
		require.NoError(t, err)
		body, err := io.ReadAll(r.Body)
		require.NoError(t, err)
		require.NoError(t, r.Body.Close())
		require.Contains(t, []int{400, 404}, r.StatusCode)
		require.Contains(t, string(body), want)
	}
}

func TestARecordingIsBoundedAndHasToBeAllowed(t *testing.T) {
	for _, c := range []struct {
		debug      bool
		query      string
		wantStatus int
		want       string
	}{
		{false, "", 403, "set enable_debug in the agent's configuration"},
		{true, "?for=61m", 400, `for: "61m" is not a time of at most 1h0m0s, such as 10m`},
		{true, "?for=-1s", 400, `for: "-1s" is not a time`},
		{true, "?for=x", 400, `for: "x" is not a time`},
		{true, "?bytes=0", 400, `bytes: "0" is not a number of bytes of at most 268435456`},
		{true, "?bytes=268435457", 400, `bytes: "268435457" is not`},
		{true, "?lines=1", 400, `unknown parameter "lines"`},
		{true, "", 404, `no plugin "web" that records for 10m0s 67108864 bytes`},
		{true, "?for=1h&bytes=268435456", 404, `no plugin "web" that records for 1h0m0s 268435456 bytes`},
	} {
		s := httptest.NewServer(httpapi.Handler(httpapi.Config{
			Logger: hclog.NewNullLogger(), ControlPlane: plane(t), Node: idle{}, Plugins: noPlugins{}, Debug: c.debug,
			Agent: httpapi.AgentInfo{Name: "here", Region: "global"}, Conditions: func() []structs.Condition { return nil },
		}))
		r, err := http.Get(s.URL + "/v1/agent/plugin/web/record" + c.query)
		require.NoError(t, err)
		body, err := io.ReadAll(r.Body)
		require.NoError(t, err)
		require.NoError(t, r.Body.Close())
		s.Close()
		require.Equal(t, c.wantStatus, r.StatusCode, c.query)
		require.Contains(t, string(body), c.want)
	}
}
