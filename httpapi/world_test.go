package httpapi_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/wasmnode/wasmnode/agent/agenttest"
	"github.com/wasmnode/wasmnode/internal/boltfile"
	"github.com/wasmnode/wasmnode/internal/codetest"
	"github.com/wasmnode/wasmnode/internal/leaktest"
	"github.com/wasmnode/wasmnode/jobspec"
)

// codeCache is shared by the agents of this package's tests: each plugin is compiled
// once.
var codeCache string

func TestMain(m *testing.M) {
	jobspec.EnterParser()
	dir, err := os.MkdirTemp("", "api-test-")
	if err == nil {
		err = os.Setenv(boltfile.StrictEnv, "1")
	}
	if err != nil {
		panic(err)
	}
	codeCache = dir
	codetest.Restore(dir)
	goleak.VerifyTestMain(leaktest.WithTimeout(m), goleak.Cleanup(func(code int) {
		codetest.Save(dir)
		_ = os.RemoveAll(dir)
		os.Exit(code)
	}))
}

// world is a whole agent, and two ways to talk to it: Nomad's Go client, and requests
// whose answers are looked at as they are.
type world struct {
	*agenttest.Agent
	t    testing.TB
	http *http.Client
}

func newWorld(t testing.TB, drivers ...string) *world {
	t.Helper()
	a := agenttest.Start(t, agenttest.Options{Drivers: drivers, CodeCache: codeCache})
	client := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(client.CloseIdleConnections)
	return &world{Agent: a, t: t, http: client}
}

// reply is an answer as it came.
type reply struct {
	status int
	header http.Header
	body   string
}

// do sends a request; its headers are pairs of a name and a value.
func (w *world) do(t testing.TB, method, path, body string, headers ...string) reply {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, w.URL+path, strings.NewReader(body))
	require.NoError(t, err)
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := w.http.Do(req)
	require.NoError(t, err, "%s %s", method, path)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	require.NoError(t, err, "%s %s", method, path)
	return reply{resp.StatusCode, resp.Header, string(b)}
}

func (w *world) get(t testing.TB, path string) reply {
	t.Helper()
	return w.do(t, http.MethodGet, path, "")
}

// json gets an answer that must be good, as untyped JSON.
func (w *world) json(t testing.TB, path string) any {
	t.Helper()
	r := w.get(t, path)
	require.Equal(t, http.StatusOK, r.status, "GET %s: %s", path, r.body)
	require.Equal(t, "application/json", r.header.Get("Content-Type"), path)
	var v any
	require.NoError(t, json.Unmarshal([]byte(r.body), &v), "GET %s: %s", path, r.body)
	return v
}

// run registers a job and waits until its allocations have a status; it returns the
// first of them.
func (w *world) run(t testing.TB, job *nomad.Job, status string) *nomad.AllocationListStub {
	t.Helper()
	_, _, err := w.Client.Jobs().Register(job, nil)
	require.NoError(t, err)
	return w.Await(t, *job.ID, status)[0]
}

// mock returns a job of the mock driver. Where the configuration has no run_for, the
// task runs until it is stopped.
func mock(id string, config map[string]any) *nomad.Job {
	all := map[string]any{"run_for": "1h"}
	for k, v := range config {
		all[k] = v
	}
	return agenttest.Job(id, "mock_driver", all)
}

// quoted renders a text as JSON.
func quoted(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}

// decoded reads JSON.
func decoded[T any](t testing.TB, body string) (v T) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(body), &v), body)
	return v
}
