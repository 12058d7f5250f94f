package tracing

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"net/http"
	"time"

	"github.com/google/uuid"
	"github.com/hashicorp/go-hclog"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// scope is whose spans they are, in OpenTelemetry's words.
const scope = "github.com/wasmnode/wasmnode"

// maxQueued bounds the spans that wait to be sent: what comes then is dropped.
const maxQueued = 4096

// Config configures a [Tracer].
type Config struct {
	// Endpoint is the collector's address without a path, as in OTEL_EXPORTER_OTLP_ENDPOINT.
	Endpoint string
	// Headers are sent beside those of the protocol.
	Headers map[string]string
	// Node and Version say whose spans they are.
	Node, Version string
	Logger        hclog.Logger
}

// Tracer begins spans, and sends what has ended. A nil one does nothing. It is safe for concurrent use.
type Tracer struct {
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
}

// New returns a tracer. Nothing is asked of the collector yet.
func New(cfg Config) *Tracer {
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithBatcher(newExporter(cfg), sdktrace.WithMaxQueueSize(maxQueued)),
		sdktrace.WithIDGenerator(ids{}),
		sdktrace.WithSampler(sdktrace.AlwaysSample()),
		sdktrace.WithResource(resource.NewSchemaless(
			attribute.String("service.name", "wasmnode"), attribute.String("service.version", cfg.Version),
			attribute.String("service.instance.id", cfg.Node),
		)),
	)
	return &Tracer{provider, provider.Tracer(scope, trace.WithInstrumentationVersion(cfg.Version))}
}

// Close sends what has ended, as far as that is done before ctx is.
func (t *Tracer) Close(ctx context.Context) error {
	if t == nil {
		return nil
	}
	return t.provider.Shutdown(ctx)
}

// Begin begins a span of an evaluation, below that of its request. The context is for what happens in
// it; end is called once, with what went wrong or nil.
func (t *Tracer) Begin(ctx context.Context, evalID, name string, attributes ...attribute.KeyValue) (_ context.Context, end func(error)) {
	if t == nil {
		return ctx, func(error) {}
	}
	id, ok := traceOf(evalID)
	if !ok {
		return ctx, func(error) {}
	}
	ctx = trace.ContextWithRemoteSpanContext(ctx, trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: id, SpanID: topOf(id), TraceFlags: trace.FlagsSampled, Remote: true,
	}))
	ctx, span := t.tracer.Start(ctx, name, trace.WithAttributes(attributes...))
	return ctx, ending(span)
}

// Request notes the request that made an evaluation, after it was answered. It is linked to the span
// that its header "traceparent" names, if it does.
func (t *Tracer) Request(ctx context.Context, evalID, route string, began time.Time, header http.Header) {
	id, ok := traceOf(evalID)
	if t == nil || !ok {
		return
	}
	options := []trace.SpanStartOption{trace.WithNewRoot(), trace.WithTimestamp(began), trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(attribute.String("http.route", route))}
	asked := trace.SpanContextFromContext(propagation.TraceContext{}.Extract(ctx, propagation.HeaderCarrier(header)))
	if asked.IsValid() {
		options = append(options, trace.WithLinks(trace.Link{SpanContext: asked}))
	}
	_, span := t.tracer.Start(context.WithValue(ctx, topKey{}, id), route, options...)
	span.End()
}

// Child begins a span below that of a context, as [Tracer.Begin] does; without one it begins none.
func Child(ctx context.Context, name string, attributes ...attribute.KeyValue) (_ context.Context, end func(error)) {
	above := trace.SpanFromContext(ctx)
	if !above.IsRecording() {
		return ctx, func(error) {}
	}
	ctx, span := above.TracerProvider().Tracer(scope).Start(ctx, name, trace.WithAttributes(attributes...))
	return ctx, ending(span)
}

func ending(span trace.Span) func(error) {
	return func(err error) {
		if err != nil && !errors.Is(err, context.Canceled) {
			span.SetStatus(codes.Error, err.Error())
		}
		span.End()
	}
}

// traceOf is the trace of an evaluation; not ok: it is none's ID.
func traceOf(evalID string) (id trace.TraceID, ok bool) {
	u, err := uuid.Parse(evalID)
	return trace.TraceID(u), err == nil
}

// topOf is the span at the top of a trace.
func topOf(id trace.TraceID) (top trace.SpanID) {
	sum := sha256.Sum256(id[:])
	copy(top[:], sum[:])
	return top
}

// topKey is the trace, in a context, whose top span is to be begun.
type topKey struct{}

// ids makes the IDs of spans.
type ids struct{}

// NewIDs implements [sdktrace.IDGenerator].
func (g ids) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	if id, is := ctx.Value(topKey{}).(trace.TraceID); is {
		return id, topOf(id)
	}
	id := trace.TraceID(uuid.New())
	return id, g.NewSpanID(ctx, id)
}

// NewSpanID implements [sdktrace.IDGenerator].
func (ids) NewSpanID(context.Context, trace.TraceID) (id trace.SpanID) {
	_, _ = rand.Read(id[:]) // never fails
	return id
}

// Below is a context in which what [Child] begins is below another context's span.
func Below(ctx, above context.Context) context.Context {
	return trace.ContextWithSpan(ctx, trace.SpanFromContext(above))
}
