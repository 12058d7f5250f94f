package tracing_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.uber.org/goleak"

	"github.com/wasmnode/wasmnode/internal/tracing"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const evaluation = "3f0fc854-5c2d-4170-9f05-3abe8d60637a"

// collector takes spans as a collector of OpenTelemetry does.
type collector struct {
	*httptest.Server
	mu     sync.Mutex
	status int // of its answers; 0: 200
	spans  []span
	header http.Header
	whose  map[string]string
}

type span struct {
	TraceID, SpanID, ParentSpanID, Name string
	Kind                                int
	StartTimeUnixNano, EndTimeUnixNano  string
	Attributes                          []keyValue
	Links                               []struct{ TraceID, SpanID string }
	Status                              struct {
		Code    int
		Message string
	}
}

type keyValue struct {
	Key   string
	Value struct{ StringValue string }
}

func values(list []keyValue) map[string]string {
	out := map[string]string{}
	for _, one := range list {
		out[one.Key] = one.Value.StringValue
	}
	return out
}

func newCollector(t *testing.T) *collector {
	t.Helper()
	c := &collector{}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			ResourceSpans []struct {
				Resource   struct{ Attributes []keyValue }
				ScopeSpans []struct{ Spans []span }
			}
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.status != 0 {
			w.WriteHeader(c.status)
			return
		}
		if r.URL.Path != "/v1/traces" || r.Header.Get("Content-Type") != "application/json" || json.NewDecoder(r.Body).Decode(&body) != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		c.header = r.Header
		for _, one := range body.ResourceSpans {
			c.whose = values(one.Resource.Attributes)
			for _, s := range one.ScopeSpans {
				c.spans = append(c.spans, s.Spans...)
			}
		}
	}))
	t.Cleanup(c.Close)
	return c
}

// taken are the spans by their names, once a tracer is closed.
func (c *collector) taken(t *testing.T, tracer *tracing.Tracer) map[string]span {
	t.Helper()
	require.NoError(t, tracer.Close(t.Context()))
	c.mu.Lock()
	defer c.mu.Unlock()
	out := map[string]span{}
	for _, s := range c.spans {
		out[s.Name] = s
	}
	require.Len(t, out, len(c.spans))
	return out
}

func (c *collector) tracer(logger hclog.Logger) *tracing.Tracer {
	return tracing.New(tracing.Config{
		Endpoint: c.URL + "/", Headers: map[string]string{"Authorization": "Bearer x"}, Node: "n", Version: "1.2.3", Logger: logger,
	})
}

func TestATraceIsAnEvaluation(t *testing.T) {
	c := newCollector(t)
	tracer := c.tracer(hclog.NewNullLogger())
	began := time.Now().Add(-time.Second)
	ctx, end := tracer.Begin(t.Context(), evaluation, "start", attribute.String("task", "web"))
	below, endCall := tracing.Child(ctx, "call")
	_, endLeaf := tracing.Child(tracing.Below(t.Context(), below), "leaf")
	endLeaf(nil)
	endCall(errors.New("refused"))
	end(context.Canceled)
	tracer.Request(t.Context(), evaluation, "PUT /v1/jobs", began, http.Header{"Traceparent": {"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}})
	spans := c.taken(t, tracer)
	require.Len(t, spans, 4)
	for name, s := range spans {
		require.Equal(t, strings.ReplaceAll(evaluation, "-", ""), s.TraceID, name)
	}
	top, start, call, leaf := spans["PUT /v1/jobs"], spans["start"], spans["call"], spans["leaf"]
	require.Empty(t, top.ParentSpanID)
	require.Equal(t, top.SpanID, start.ParentSpanID, "though that began before it was known")
	require.Equal(t, start.SpanID, call.ParentSpanID)
	require.Equal(t, call.SpanID, leaf.ParentSpanID)
	require.Equal(t, 2, top.Kind, "of a server")
	require.Equal(t, 1, start.Kind)
	require.Equal(t, []struct{ TraceID, SpanID string }{{"0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"}}, top.Links)
	require.Equal(t, map[string]string{"http.route": "PUT /v1/jobs"}, values(top.Attributes))
	require.Equal(t, map[string]string{"task": "web"}, values(start.Attributes))
	require.Equal(t, 2, call.Status.Code)
	require.Equal(t, "refused", call.Status.Message)
	require.Zero(t, start.Status.Code, "who gives up has not failed")
	require.Less(t, top.StartTimeUnixNano, start.StartTimeUnixNano)
	require.LessOrEqual(t, start.StartTimeUnixNano, start.EndTimeUnixNano)
	require.Equal(t, map[string]string{"service.name": "wasmnode", "service.version": "1.2.3", "service.instance.id": "n"}, c.whose)
	require.Equal(t, "Bearer x", c.header.Get("Authorization"))
}

func TestNothingIsTracedWithoutATracerOrAnEvaluation(t *testing.T) {
	var none *tracing.Tracer
	ctx, end := none.Begin(t.Context(), evaluation, "start")
	require.Equal(t, t.Context(), ctx)
	end(nil)
	none.Request(t.Context(), evaluation, "PUT /v1/jobs", time.Now(), nil)
	require.NoError(t, none.Close(t.Context()))
	under, end := tracing.Child(ctx, "call")
	require.Equal(t, ctx, under)
	end(nil)

	c := newCollector(t)
	tracer := c.tracer(hclog.NewNullLogger())
	for _, id := range []string{"", "x"} {
		_, end := tracer.Begin(t.Context(), id, "start")
		end(nil)
		tracer.Request(t.Context(), id, "PUT /v1/jobs", time.Now(), nil)
	}
	require.Empty(t, c.taken(t, tracer))
}

// TestACollectorThatTakesNothingIsToldOfOnce, and is in nobody's way.
func TestACollectorThatTakesNothingIsToldOfOnce(t *testing.T) {
	c := newCollector(t)
	c.status = http.StatusServiceUnavailable
	var log strings.Builder
	tracer := c.tracer(hclog.New(&hclog.LoggerOptions{Output: &log}))
	for range 10_000 { // more than wait, so that some are dropped
		_, end := tracer.Begin(t.Context(), evaluation, "start")
		end(nil)
	}
	require.NoError(t, tracer.Close(t.Context()))
	require.Equal(t, 1, strings.Count(log.String(), "[WARN]"), log.String())
	require.Contains(t, log.String(), "traces are lost: the collector does not take them")
	require.Contains(t, log.String(), "it answers 503 Service Unavailable")
	require.NotContains(t, log.String(), "Bearer")
}
