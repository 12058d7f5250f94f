package agent_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/agent/agenttest"
)

// tracedSpan is what is wanted of a span.
type tracedSpan struct{ TraceID, SpanID, ParentSpanID, Name string }

// collector takes traces.
type collector struct {
	mu    sync.Mutex
	spans map[string]tracedSpan // by trace and name
}

func (c *collector) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	var body struct {
		ResourceSpans []struct {
			ScopeSpans []struct{ Spans []tracedSpan }
		}
	}
	if json.NewDecoder(r.Body).Decode(&body) != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, one := range body.ResourceSpans {
		for _, of := range one.ScopeSpans {
			for _, s := range of.Spans {
				c.spans[s.TraceID+" "+s.Name] = s
			}
		}
	}
}

// above returns the names of the spans above one of an evaluation, the nearest first.
func (c *collector) above(evalID, name string) (names []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	trace := strings.ReplaceAll(evalID, "-", "")
	for at, known := c.spans[trace+" "+name]; known; {
		parent := at.ParentSpanID
		known = false
		for _, s := range c.spans {
			if s.TraceID == trace && s.SpanID == parent {
				names, at, known = append(names, s.Name), s, true
			}
		}
	}
	return names
}

func TestATraceLeadsFromTheRequestToTheProcess(t *testing.T) {
	c := &collector{spans: map[string]tracedSpan{}}
	server := httptest.NewServer(c)
	defer server.Close()
	a := agenttest.Start(t, agenttest.Options{
		Drivers: []string{"raw_exec"}, Config: "tracing {\n  endpoint = \"" + server.URL + "\"\n}\n",
	})
	job := agenttest.Job("traced", "raw_exec", map[string]any{"command": "/bin/true"})
	made, _, err := a.Client.Jobs().Register(job, nil)
	require.NoError(t, err)
	for span, want := range map[string][]string{
		"start process": {"driver_start_task", "start task", "PUT /v1/jobs"},
		"hook task_dir": {"start task", "PUT /v1/jobs"},
		"evaluate":      {"PUT /v1/jobs"},
	} {
		require.Eventually(t, func() bool { return slices.Equal(want, c.above(made.EvalID, span)) }, time.Minute, 50*time.Millisecond, span)
	}
	stopped, _, err := a.Client.Jobs().Deregister("traced", false, &nomad.WriteOptions{})
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		return len(c.above(stopped, "evaluate")) == 1
	}, time.Minute, 50*time.Millisecond)
}
