package httpapi_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/clientapi"
	"github.com/wasmnode/wasmnode/httpapi"
	"github.com/wasmnode/wasmnode/structs"
)

// logging is an API with a log that says nothing itself.
func logging(t *testing.T, debug bool) (hclog.InterceptLogger, *nomad.Client, string) {
	t.Helper()
	log := hclog.NewInterceptLogger(&hclog.LoggerOptions{Level: hclog.Error, Output: io.Discard})
	s := httptest.NewServer(httpapi.Handler(httpapi.Config{
		Logger: hclog.NewNullLogger(), ControlPlane: plane(t), Node: idle{}, Plugins: noPlugins{}, Logs: log, Debug: debug,
		Machine: func() clientapi.Machine { return aMachine }, Journal: aJournal,
		Agent:      httpapi.AgentInfo{Name: "here", NodeID: "node", Region: "global"},
		Conditions: func() []structs.Condition { return nil },
	}))
	t.Cleanup(s.Close)
	c, err := nomad.NewClient(&nomad.Config{Address: s.URL})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return log, c, s.URL
}

func TestNomadsClientMonitorsTheLog(t *testing.T) {
	log, c, _ := logging(t, false)
	stop := make(chan struct{})
	defer close(stop)
	frames, errs := c.Agent().Monitor(stop, &nomad.QueryOptions{Params: map[string]string{"log_level": "debug"}})
	var seen strings.Builder
	deadline := time.After(time.Minute)
	tick := time.NewTicker(5 * time.Millisecond) // until it listens, nothing is sent
	defer tick.Stop()
	for !strings.Contains(seen.String(), "answer=42") {
		select {
		case f := <-frames:
			seen.Write(f.Data)
		case err := <-errs:
			require.NoError(t, err)
		case <-tick.C:
			log.Trace("too detailed")
			log.Named("part").Debug("a question", "answer", 42)
		case <-deadline:
			require.FailNow(t, "nothing was sent", seen.String())
		}
	}
	require.Contains(t, seen.String(), "[DEBUG]")
	require.NotContains(t, seen.String(), "too detailed")
}

// Who logs does not wait for who reads.
func TestASlowMonitorLosesLinesAndIsTold(t *testing.T) {
	log, _, url := logging(t, false)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/v1/agent/monitor?plain=true&log_json=true&follow=true&offset=50000&origin=end", nil)
	require.NoError(t, err)
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	r, err := client.Do(req)
	require.NoError(t, err)
	defer r.Body.Close()
	line := strings.Repeat("x", 1<<16)
	for range 1000 { // more than all buffers hold
		log.Warn(line)
	}
	lines := bufio.NewReaderSize(r.Body, 1<<20)
	for {
		text, err := lines.ReadBytes('\n')
		require.NoError(t, err)
		if bytes.Contains(text, []byte("lines are lost")) {
			break
		}
		require.True(t, json.Valid(text))
	}
}

func TestWhatCannotBeMonitoredIsRefused(t *testing.T) {
	_, _, url := logging(t, false)
	for query, want := range map[string]string{
		"log_level=nope":                "Unknown log level: nope",
		"log_json=nope":                 `Unknown option for log json: strconv.ParseBool: parsing "nope": invalid syntax`,
		"node_id=other":                 `Unknown node "other"`,
		"client_id=other&follow=true":   `Unknown node "other"`,
		"server_id=other":               "unknown Nomad server other",
		"server_id=leader&node_id=node": "Cannot target node and server simultaneously",
		"log_include_location=perhaps":  `Unknown option for log location: strconv.ParseBool: parsing "perhaps": invalid syntax`,
		"plain=perhaps":                 "Expect `true` or `false` for `plain` query string parameter, got \"perhaps\"",
	} {
		r, err := http.Get(url + "/v1/agent/monitor?" + query)
		require.NoError(t, err)
		b, err := io.ReadAll(r.Body)
		require.NoError(t, err)
		r.Body.Close()
		require.Contains(t, []int{400, 404}, r.StatusCode)
		require.Equal(t, want, string(b))
	}
	http.DefaultClient.CloseIdleConnections()
}

func TestProfilesAreShownWhereTheConfigurationHasIt(t *testing.T) {
	for _, debug := range []bool{false, true} {
		_, _, url := logging(t, debug)
		for path, want := range map[string]int{"cmdline": 200, "goroutine?debug=1&seconds=1": 200, "heap?gc=x": 400, "heap": 200, "nope": 404, "trace?seconds=0.01": 200} {
			if !debug {
				want = 403
			}
			r, err := http.Get(url + "/v1/agent/pprof/" + path)
			require.NoError(t, err)
			r.Body.Close()
			require.Equal(t, want, r.StatusCode, path)
		}
	}
	http.DefaultClient.CloseIdleConnections()
}
