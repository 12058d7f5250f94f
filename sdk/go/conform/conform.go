package conform

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
)

// Node is what calls the plugin that is checked. Its plugin is configured already.
type Node interface {
	// Operations are those that the plugin exports.
	Operations() []string
	// Call calls an operation. Its context has a deadline.
	Call(ctx context.Context, c Call) Outcome
	// Fit checks a configuration, JSON, against a schema, as a node does, and returns it with the
	// schema's defaults.
	Fit(schema string, config []byte) ([]byte, error)
	// NewTask returns a task that is new, with directories of its own.
	NewTask() (*wasmnodev1.TaskConfig, error)
	// HasWorkload reports whether a task has a workload, running or ended.
	HasWorkload(ctx context.Context, taskID string) bool
	// EndWorkload stops a task's workload; the next one lets the node forget it. A workload that
	// is not there is ended and forgotten.
	EndWorkload(ctx context.Context, taskID string)
	ForgetWorkload(ctx context.Context, taskID string)
}

// Call is one call of an operation.
type Call struct {
	Op      string
	Request []byte // encoded
	// Task is the task that the call is about; nil: none.
	Task *wasmnodev1.TaskConfig
	// Fresh: the instance is a new one, and no earlier one is left.
	Fresh bool
	// Fail is which use of a capability fails.
	Fail Fault
	// Streams are those of the command that the call is about; nil: it has none.
	Streams *Streams
}

// Outcome is what became of a call.
type Outcome struct {
	Answer []byte
	// Err is an [abi.Error] that the plugin answered, or why it answered nothing: a fault, in
	// whose chain is [context.DeadlineExceeded] when the plugin was too slow.
	Err error
	// Asked is how many uses of capabilities there were that could fail.
	Asked int
	// Events are those that the plugin sent, before a node cut or refused anything, and Lines the
	// lengths of the lines that it logged by log/v1, in bytes.
	Events []*wasmnodev1.TaskEvent
	Lines  []int
}

// Options are what a plugin is checked with.
type Options struct {
	PluginConfig []byte // as the plugin was given it: JSON, with defaults
	TaskConfig   []byte // of a task's config block: JSON, not yet checked; nil: {}
	// Timeout bounds each call; 0: 5 seconds.
	Timeout time.Duration
}

// Status is how a check ended.
type Status string

// The ways.
const (
	OK   Status = "ok"
	Fail Status = "FAIL"
	Skip Status = "skip"
)

// Check is one thing that was checked.
type Check struct {
	Status Status
	Name   string
	// Why it failed or was skipped; of one that is ok, what was seen. It may be empty.
	Why string
}

// Report is what was found.
type Report struct {
	Plugin, Version string
	Checks          []Check
}

// Count is how many checks ended so.
func (r *Report) Count(s Status) (n int) {
	for _, c := range r.Checks {
		if c.Status == s {
			n++
		}
	}
	return n
}

// Run checks a plugin. It calls each of its operations many times, with tasks of its own, whose
// workloads it ends.
func Run(ctx context.Context, n Node, o Options) *Report {
	if o.Timeout == 0 {
		o.Timeout = 5 * time.Second
	}
	if o.TaskConfig == nil {
		o.TaskConfig = []byte("{}")
	}
	r := &run{ctx: ctx, node: n, opts: o, report: &Report{}}
	r.kind = "driver_"
	if slices.Contains(n.Operations(), abi.OpDeviceDescribe) && !slices.Contains(n.Operations(), abi.OpDriverDescribe) {
		r.kind = "device_"
	}
	r.all() //nolint:contextcheck // it has the context
	return r.report
}

// run is a check of a plugin under way.
type run struct {
	ctx    context.Context
	node   Node
	opts   Options
	kind   string // what the names of its operations begin with
	report *Report

	description wasmnodev1.DriverDescribeResponse
	wrong       []string // errors that do not say what they have to
	idle        []string // what uses no capability that can fail
	events      []string // of which a node would not show all
	lines       []string // of the log, likewise
	odd         bool     // what is sent now no node sends
}

// all makes all checks.
func (r *run) all() {
	r.describe()
	r.configure()
	r.fingerprint()
	if r.kind == "device_" {
		r.devices()
	} else {
		r.driver()
	}
	r.idles()
	r.told()
	r.requests()
	r.words()
}

// done notes how a check ended: well, unless there is a problem.
func (r *run) done(name string, problem error) {
	if problem != nil {
		r.add(Fail, name, problem.Error())
		return
	}
	r.add(OK, name, "")
}

func (r *run) skip(name, why string) { r.add(Skip, name, why) }

func (r *run) add(s Status, name, why string) {
	why, _, _ = strings.Cut(why, "\n")
	r.report.Checks = append(r.report.Checks, Check{s, name, why})
}

func (r *run) has(op string) bool { return slices.Contains(r.node.Operations(), op) }

// message is a message of the contract.
type message interface {
	MarshalVT() ([]byte, error)
	UnmarshalVT([]byte) error
}

// encode encodes a message; that fails for none of the contract's.
func encode(m message) []byte {
	b, err := m.MarshalVT()
	if err != nil {
		panic(fmt.Sprintf("encoding a %T: %v", m, err))
	}
	return b
}

// call makes a call within the time for one, and notes an error that says too little.
func (r *run) call(c Call) Outcome { return r.callWithin(r.opts.Timeout, c) }

// callWithin is call with a time of its own.
func (r *run) callWithin(limit time.Duration, c Call) Outcome {
	ctx, cancel := context.WithTimeout(r.ctx, limit)
	defer cancel()
	out := r.node.Call(ctx, c)
	if !r.odd {
		r.listen(c, out)
	}
	if e, answered := asAnswer(out.Err); answered {
		_, known := wasmnodev1.ErrorCode_name[int32(e.Code)]
		switch {
		case !known:
			r.wrong = append(r.wrong, fmt.Sprintf("%s answers the code %d, which is none", c.Op, e.Code))
		case strings.TrimSpace(e.Message) == "" && e.Code != abi.Unimplemented:
			r.wrong = append(r.wrong, fmt.Sprintf("%s answers %s without a word", c.Op, abi.CodeName(e.Code)))
		}
	}
	return out
}

// ask makes a call and decodes its answer. A fault is a [*faultError].
func (r *run) ask(c Call, answer message) error { return r.askWithin(r.opts.Timeout, c, answer) }

// askWithin is ask with a time of its own.
func (r *run) askWithin(limit time.Duration, c Call, answer message) error {
	out := r.callWithin(limit, c)
	switch _, answered := asAnswer(out.Err); {
	case answered:
		return out.Err
	case out.Err != nil:
		return &faultError{out.Err}
	}
	if err := answer.UnmarshalVT(out.Answer); err != nil {
		return &faultError{fmt.Errorf("%s: its answer cannot be decoded", c.Op)}
	}
	return nil
}

// words checks the errors of all calls before it.
func (r *run) words() {
	slices.Sort(r.wrong)
	if wrong := slices.Compact(r.wrong); len(wrong) > 0 {
		r.add(Fail, "errors", strings.Join(wrong, "; "))
		return
	}
	r.add(OK, "errors", "each has a code and says why")
}

// faultError is a call that ended without an answer.
type faultError struct{ err error }

func (e *faultError) Error() string { return e.err.Error() }

// Unwrap returns the cause.
func (e *faultError) Unwrap() error { return e.err }
