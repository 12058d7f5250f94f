package host

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/host/stream"
	"github.com/wasmnode/wasmnode/internal/plaintext"
	"github.com/wasmnode/wasmnode/internal/tracing"
	"github.com/wasmnode/wasmnode/sandbox"
	"github.com/wasmnode/wasmnode/workload"
)

// TaskScope is the task that a call is about: it bounds what capabilities do.
type TaskScope struct {
	// Config is the task's; read-only.
	Config *wasmnodev1.TaskConfig

	did Started
}

// Started is what a guest has started in a call.
type Started struct {
	// Own: the task's own workload, or it has tried to and that was there. The caller need not ask for it.
	Own bool
	// Named: likewise, one that stands beside the task's own.
	Named bool
	// Lost: a start failed with [workload.ErrLost], and what had been started before it may have ended.
	Lost bool
}

// names are the fields of a log line that tell which task it is about.
func (s *TaskScope) names() []any {
	if s == nil || s.Config.GetAllocId() == "" {
		return nil
	}
	return []any{"alloc_id", s.Config.GetAllocId(), "task", s.Config.GetName()}
}

// started notes how a start of the task's workload ended, or of one beside it.
func (s *TaskScope) started(spec *workload.Spec, err error) {
	switch {
	case errors.Is(err, workload.ErrLost):
		s.did.Lost = true
	case err != nil && abi.CodeOf(err) != abi.AlreadyExists:
	case spec.Beside == "":
		s.did.Own = true
	default:
		s.did.Named = true
	}
}

// Message is an encoded message of the contract.
type Message interface {
	MarshalVT() ([]byte, error)
	UnmarshalVT([]byte) error
}

// Call is one call of an operation.
type Call struct {
	Op string
	// Task is the task that the call is about, nil for none: capabilities work on its
	// behalf.
	Task *wasmnodev1.TaskConfig
	// Events takes the task events that the guest sends in the call. Nil: they are refused,
	// with an error to the guest.
	Events EventSink
	// Started, if it is not nil, is set to what the guest has started in the call.
	Started *Started
	// Streams, if it is not nil, opens the streams of the command that the call is about, once
	// and only if the guest asks for them. Such a call has no deadline but its context's.
	Streams func() CommandStreams
	Request Message
	Answer  Message
}

// Invoke calls an operation with a message and decodes its answer. See [Plugin.Call].
func (p *Plugin) Invoke(ctx context.Context, c Call) error {
	var scope *TaskScope
	if c.Task != nil {
		scope = &TaskScope{Config: c.Task}
	}
	if c.Events != nil {
		ctx = WithEvents(ctx, c.Events)
	}
	if c.Streams != nil {
		ctx = WithStreams(ctx, c.Streams)
	}
	out, err := p.Call(ctx, c.Op, marshal(c.Request), scope)
	if c.Started != nil && scope != nil {
		*c.Started = scope.did
	}
	if err != nil {
		return err
	}
	if err := decode(out, c.Answer); err != nil {
		return p.tell(ctx, scope, &FaultError{Plugin: p.Name(), Op: c.Op, Kind: FaultProtocol, Err: fmt.Errorf("its answer cannot be decoded: %w", err)})
	}
	return nil
}

// marshal encodes a message; encoding fails for no message of ours.
func marshal(m Message) []byte {
	b, err := m.MarshalVT()
	if err != nil {
		panic(fmt.Sprintf("encoding a %T: %v", m, err))
	}
	return b
}

// Call calls an operation. Calls run in parallel, each in an instance of its own.
// Scope names the task that the call is about; nil: none. The context bounds the
// call, host calls included; without a deadline the configured one applies, but for
// wait_task and commands with streams.
//
// # Errors
//
// An [abi.Error] is what the plugin answered, UNIMPLEMENTED when it does not export the
// operation. A [BudgetError] means that the plugin has used up what it may of the machine. A [FaultError] means that the guest misbehaved or was too
// slow; its instance is gone and the next call gets another. Otherwise the context's.
func (p *Plugin) Call(ctx context.Context, op string, input []byte, scope *TaskScope) (output []byte, err error) {
	ctx, endSpan := tracing.Child(ctx, op, attribute.String("plugin", p.Name()))
	defer func() { endSpan(err) }()
	caller := ctx
	ctx, input, end := p.watchCall(ctx, op, input, scope)
	if end != nil {
		defer func() { end(output, err) }()
	}
	if !p.Has(op) {
		return nil, abi.NewError(abi.Unimplemented, fmt.Sprintf("plugin %s does not export %s", p.Name(), op))
	}
	if len(input) > p.host.cfg.Limits.InputBytes {
		return nil, abi.NewError(abi.ResourceExhausted, fmt.Sprintf("plugin %s: %s: the input has %d bytes, the limit is %d", p.Name(), op, len(input), p.host.cfg.Limits.InputBytes))
	}
	if op == abi.OpDriverDestroyTask && scope != nil {
		defer p.maskers.forget(scope.Config)
	}
	if wait := p.budget.Wait(); wait > 0 && !mustRun(op) {
		return nil, p.outOfTime(wait)
	}
	if _, bounded := ctx.Deadline(); !bounded && op != abi.OpDriverWaitTask && streamsOf(ctx) == nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, p.host.cfg.Limits.CallTimeout, errTooSlow)
		defer cancel()
	}
	began := time.Now()
	if ends, bounded := ctx.Deadline(); bounded {
		running := &RunningCall{Operation: op, Began: began, Ends: ends}
		if scope != nil && scope.Config != nil {
			running.AllocID, running.Task = scope.Config.AllocId, scope.Config.Name
		}
		defer p.running.begin(running)()
	}
	if output, err = p.callLeased(ctx, op, input, scope); err == nil {
		return output, nil
	}
	if fault := (*FaultError)(nil); errors.As(err, &fault) && fault.Kind == FaultTimeout {
		deadline, _ := ctx.Deadline() // that passed
		fault.Deadline = deadline.Sub(began).Round(time.Millisecond)
	}
	return nil, p.tell(caller, scope, err)
}

// callLeased calls an operation in an instance of the pool.
func (p *Plugin) callLeased(ctx context.Context, op string, input []byte, scope *TaskScope) (output []byte, err error) {
	ctx, l, err := p.pool.lease(ctx, op)
	if err != nil {
		return nil, err
	}
	defer l.release(ctx)
	output, l.reusable, err = p.callInstance(ctx, l.inst, op, input, scope)
	return output, err
}

// call is the state of one call, for the host functions that the guest calls in it.
type call struct {
	plugin *Plugin
	inst   *instance
	op     string
	scope  *TaskScope
	input  []byte

	output   []byte
	answered bool
	staged   []byte // the last capability's answer
	logs     []taskLog
	table    *stream.Table // nil: it has had no stream yet
	command  bool          // the streams of its command were opened
	starts   int           // of workloads that were tried
	observer *Observer     // nil: nobody watches
}

// maxStarts bounds the starts of workloads that are tried in a call: one that fails has cost the
// node a process or a compilation, which is not the plugin's time.
const maxStarts = 32

// countStart refuses one start too many.
func (c *call) countStart() error {
	if c.starts++; c.starts > maxStarts {
		return abi.NewError(abi.ResourceExhausted, fmt.Sprintf("more than %d starts in one call", maxStarts))
	}
	return nil
}

func newCall(p *Plugin, inst *instance, op string, input []byte, scope *TaskScope) *call {
	inst.op, inst.scope, inst.refused, inst.secrets = op, scope, "", nil
	inst.words.forget()
	return &call{plugin: p, inst: inst, op: op, input: input, scope: scope}
}

type callKey struct{}

func withCall(ctx context.Context, c *call) context.Context {
	c.observer, _ = ctx.Value(observerKey{}).(*Observer)
	c.inst.masked = c.observer != nil && c.observer.Masked
	return context.WithValue(ctx, callKey{}, c)
}

// callOf returns the call that a host function runs in.
func callOf(ctx context.Context) *call { return ctx.Value(callKey{}).(*call) }

// callInstance enters the guest. The instance is reusable when the guest returned by
// itself, whatever it answered.
func (p *Plugin) callInstance(ctx context.Context, inst *instance, op string, input []byte, scope *TaskScope) (output []byte, reusable bool, err error) {
	c := newCall(p, inst, op, input, scope)
	before, began := inst.module.Usage(), time.Now()
	defer func() {
		used := inst.module.Usage()
		p.counters.called(time.Since(began), used.Time-before.Time, used.LongestGap, err)
		c.observer.returned(CallUsage{Op: op, Guest: used.Time - before.Time, Fuel: used.Yields - before.Yields, Memory: inst.guest.Memory.Size()})
	}()
	defer c.closeLogs()
	inst.task.enter(scope)
	defer func() { reusable = inst.task.leave() == 0 && reusable }()
	returned := false
	defer func() { c.endStreams(ctx, returned) }()
	f := inst.funcs[op]
	if f == nil {
		f = inst.module.ExportedFunction(op)
		inst.funcs[op] = f
	}
	stack := [1]uint64{uint64(len(input))}
	if err := inst.module.Call(withCall(ctx, c), f, stack[:]); err != nil {
		return nil, false, p.fault(ctx, c, inst, err)
	}
	returned = true
	status := uint32(stack[0])
	if !c.answered {
		return nil, false, c.protocol(inst, "returned %d without handing an answer over", status)
	}
	if status == 0 {
		return c.output, true, nil
	}
	var m wasmnodev1.Error
	if err := decode(c.output, &m); err != nil || m.Code == 0 {
		return nil, false, c.protocol(inst, "returned %d with an answer that is not an Error message", status)
	}
	answer := abi.FromProto(&m)
	answer.Message = plaintext.Line(inst.shown(answer.Message, false), maxErrorText)
	if !strings.Contains(answer.Message, inst.refused) { // a file's the guest does not know, and others it may keep to itself
		answer.Message += " (" + inst.refused + ")"
	}
	return nil, true, answer
}

// maxErrorText bounds the text of an error that a guest answers.
const maxErrorText = 4 << 10

func (c *call) protocol(inst *instance, format string, args ...any) error {
	f := &FaultError{Plugin: c.plugin.Name(), Op: c.op, Kind: FaultProtocol, Err: fmt.Errorf(format, args...)}
	f.last(inst)
	return f
}

// errTooSlow is the cause of a deadline of the host's own.
var errTooSlow = fmt.Errorf("took too long: %w", context.DeadlineExceeded)

// fault classifies an error of a guest call.
func (p *Plugin) fault(ctx context.Context, c *call, inst *instance, err error) error {
	f := &FaultError{Plugin: p.Name(), Op: c.op, Err: err, Stack: stackOf(p.module, err)}
	var refused *protocolError
	switch {
	case isHostBug(err):
		f.Kind = FaultHost
		p.logger.Error("a host function failed: this is a bug of the node, not of the plugin", "op", c.op, "error", err)
	case errors.As(err, &refused):
		f.Kind, f.Err = FaultProtocol, refused
	case ctx.Err() != nil:
		if p.pool.lifetime.Err() != nil {
			return errClosed
		}
		f.Err = interruption(ctx)
		if !errors.Is(f.Err, context.DeadlineExceeded) {
			return fmt.Errorf("plugin %s: %s: %w", p.Name(), c.op, f.Err)
		}
		f.Kind = FaultTimeout
	case errors.Is(err, sandbox.ErrTimeBudget):
		return p.outOfTime(p.budget.Wait())
	case errors.Is(err, sandbox.ErrMemoryBudget) || inst.guest.Memory.Starved():
		return p.outOfMemory()
	case exited(err):
		f.Kind = FaultExit
	case inst.guest.Memory.Refused():
		f.Kind, f.Err = FaultTrap, fmt.Errorf("out of memory, of which it may have %d bytes: %w", p.host.cfg.Limits.MemoryBytes, err)
	default:
		f.Kind = FaultTrap
	}
	f.last(inst)
	return f
}

// interruption returns why a context ended a call, and how late after its deadline.
func interruption(ctx context.Context) error {
	cause := context.Cause(ctx)
	deadline, ok := ctx.Deadline()
	if !ok || !errors.Is(cause, context.DeadlineExceeded) {
		return cause
	}
	late := max(0, time.Since(deadline)).Round(10 * time.Microsecond)
	return fmt.Errorf("ended %v after its deadline: %w", late, context.DeadlineExceeded)
}
