package agent

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/wasmnode/wasmnode/internal/tracing"
	"github.com/wasmnode/wasmnode/workload"
)

// traceGrace is how long a collector may take for what is sent when the agent ends.
const traceGrace = 2 * time.Second

// openTraces begins to trace how jobs come to run, if the configuration says where to.
func (a *agent) openTraces() {
	if a.cfg.Tracing.Endpoint == "" {
		return
	}
	a.traces = tracing.New(tracing.Config{
		Endpoint: a.cfg.Tracing.Endpoint, Headers: a.cfg.Tracing.Headers, Node: a.cfg.Name, Version: Version,
		Logger: a.logger.Named("tracing"),
	})
	a.closing("traces", func() error {
		ctx, cancel := context.WithTimeout(context.Background(), traceGrace)
		defer cancel()
		_ = a.traces.Close(ctx) // what a collector does not take is lost
		return nil
	})
}

// tracedWorkloads begin a span for each start.
type tracedWorkloads struct{ workload.Runtime }

// Start implements [workload.Runtime].
func (w tracedWorkloads) Start(ctx context.Context, spec *workload.Spec) error {
	name := "start program"
	if spec.Process != nil {
		name = "start process"
	}
	ctx, end := tracing.Child(ctx, name, attribute.String("workload", spec.ID))
	err := w.Runtime.Start(ctx, spec)
	end(err)
	return err
}
