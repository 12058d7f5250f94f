package tracing

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/trace"
)

const (
	// exportTimeout bounds one request to the collector, with its answer.
	exportTimeout = 10 * time.Second
	// maxAnswer bounds what is read of an answer, in bytes. Nothing is made of it.
	maxAnswer = 64 << 10
)

// exporter posts spans as OTLP in JSON, which needs no library of gRPC. What a collector does not take
// is lost, and the log says so once until it takes some again.
type exporter struct {
	url     string
	headers map[string]string
	client  *http.Client
	logger  hclog.Logger

	mu     sync.Mutex
	failed bool
}

func newExporter(cfg Config) *exporter {
	return &exporter{
		url: strings.TrimSuffix(cfg.Endpoint, "/") + "/v1/traces", headers: cfg.Headers, logger: cfg.Logger,
		client: &http.Client{
			Timeout:       exportTimeout,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
			Transport:     &http.Transport{ForceAttemptHTTP2: true, IdleConnTimeout: time.Minute, MaxResponseHeaderBytes: maxAnswer},
		},
	}
}

// ExportSpans implements [trace.SpanExporter].
func (e *exporter) ExportSpans(ctx context.Context, spans []trace.ReadOnlySpan) error {
	err := e.post(ctx, spans)
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case err != nil && !e.failed:
		e.logger.Warn("traces are lost: the collector does not take them", "endpoint", e.url, "error", err)
	case err == nil && e.failed:
		e.logger.Info("the collector takes traces again", "endpoint", e.url)
	}
	e.failed = err != nil
	return nil
}

func (e *exporter) post(ctx context.Context, spans []trace.ReadOnlySpan) error {
	body, err := json.Marshal(render(spans))
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	for name, value := range e.headers {
		req.Header.Set(name, value)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := e.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, maxAnswer)) // the connection is used again
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("it answers %s", resp.Status)
	}
	return nil
}

// Shutdown implements [trace.SpanExporter].
func (e *exporter) Shutdown(context.Context) error {
	e.client.CloseIdleConnections()
	return nil
}

// The messages of OTLP that are sent, as their JSON has them: IDs in hexadecimal, and numbers of 64 bits
// as text.
type (
	request struct {
		ResourceSpans []resourceSpans `json:"resourceSpans"`
	}
	resourceSpans struct {
		Resource   attributes   `json:"resource"`
		ScopeSpans []scopeSpans `json:"scopeSpans"`
	}
	scopeSpans struct {
		Scope named  `json:"scope"`
		Spans []span `json:"spans"`
	}
	named struct {
		Name    string `json:"name"`
		Version string `json:"version,omitempty"`
	}
	attributes struct {
		Attributes []keyValue `json:"attributes,omitempty"`
	}
	keyValue struct {
		Key   string         `json:"key"`
		Value map[string]any `json:"value"`
	}
	span struct {
		TraceID  string     `json:"traceId"`
		SpanID   string     `json:"spanId"`
		ParentID string     `json:"parentSpanId,omitempty"`
		Name     string     `json:"name"`
		Kind     int        `json:"kind"`
		Start    string     `json:"startTimeUnixNano"`
		End      string     `json:"endTimeUnixNano"`
		Values   []keyValue `json:"attributes,omitempty"`
		Links    []link     `json:"links,omitempty"`
		Status   status     `json:"status"`
	}
	link struct {
		TraceID string `json:"traceId"`
		SpanID  string `json:"spanId"`
	}
	status struct {
		Code    int    `json:"code,omitempty"`
		Message string `json:"message,omitempty"`
	}
)

// statusError is STATUS_CODE_ERROR.
const statusError = 2

// render makes a message of spans, which are all of one tracer.
func render(list []trace.ReadOnlySpan) request {
	first := list[0]
	out := make([]span, len(list))
	for i, s := range list {
		at := s.SpanContext()
		out[i] = span{
			TraceID: at.TraceID().String(), SpanID: at.SpanID().String(), Name: s.Name(), Kind: int(s.SpanKind()),
			Start: nanoseconds(s.StartTime()), End: nanoseconds(s.EndTime()), Values: keyValues(s.Attributes()),
		}
		if parent := s.Parent(); parent.SpanID().IsValid() {
			out[i].ParentID = parent.SpanID().String()
		}
		for _, l := range s.Links() {
			out[i].Links = append(out[i].Links, link{l.SpanContext.TraceID().String(), l.SpanContext.SpanID().String()})
		}
		if st := s.Status(); st.Code == codes.Error {
			out[i].Status = status{statusError, st.Description}
		}
	}
	by := first.InstrumentationScope()
	return request{[]resourceSpans{{
		Resource:   attributes{keyValues(first.Resource().Attributes())},
		ScopeSpans: []scopeSpans{{named{by.Name, by.Version}, out}},
	}}}
}

func nanoseconds(t time.Time) string { return strconv.FormatInt(t.UnixNano(), 10) }

// keyValues renders attributes, which are texts.
func keyValues(list []attribute.KeyValue) (out []keyValue) {
	for _, a := range list {
		out = append(out, keyValue{string(a.Key), map[string]any{"stringValue": a.Value.String()}})
	}
	return out
}
