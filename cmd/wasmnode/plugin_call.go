package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/trial"
)

type pluginCallCommand struct{ meta }

// Synopsis implements [subcommand].
func (*pluginCallCommand) Synopsis() string {
	return "Call an operation of a plugin, without a node"
}

// Help implements [subcommand].
func (*pluginCallCommand) Help() string {
	return `Usage: wasmnode plugin call [options] FILE OPERATION

  Calls one operation of a plugin's file, as a node would, and prints the answer, what
  the plugin asked the node for, and what the call cost. No node is needed. What the
  plugin may do is what is granted here; its capabilities are real. A task has a directory
  of its own. A workload that the call starts ends with this command.

  The request is JSON, with the names of the messages in the contract: a handle that an
  answer has can be given to the next call. What a request leaves out of its task is made
  up. The exit code is 0 if the plugin answers, and 1 if it answers an error or faults.

Options:

  -input=FILE      The request; "-" for standard input. Without it, an empty one.
  -config=PATH     A file or directory of an agent's configuration: the plugin's block
                   in it has what it is granted and its own configuration.
  -grant=TEXT      What the plugin is granted, as in the grant block of a configuration:
                   'kv { enabled = true }'. It may be given several times.
  -alloc-dir=DIR   The directory of the allocation: the task's is DIR/task. Without it, a
                   temporary one, which is removed.
  -record=FILE     Add the call to a recording, which is made if there is none: see
                   plugin record. The call is made in a new instance.
  -replay=FILE     Answer what the plugin asks the node for as in a recording, where it
                   asked for the same, and with UNAVAILABLE else. Nothing is real then but
                   the files that fs in -grant or -config grants.
  -timeout=30s     How long the call may take.
  -wait=1s         How long a workload that the call starts may run.
  -json            Print JSON.`
}

// called is the outcome of a call, for programs. Times are in nanoseconds.
type called struct {
	Operation    string
	Answer       json.RawMessage
	Error        *calledError
	Took, Guest  time.Duration
	Fuel, Memory uint64
	Capabilities []calledCapability
	Events       []*wasmnodev1.TaskEvent
	Workload     *endedWorkload
	Stdout       string
	Stderr       string
}

// calledError is why there is no answer. Without a code it is a fault.
type calledError struct {
	Code        string
	Message     string
	Recoverable bool
	Panic       string   // what the plugin wrote of one
	Stack       []string // the functions that it was in at a fault, the innermost first
	Log         []string // its last lines before a fault
}

type calledCapability struct {
	Operation, Capability string
	Took                  time.Duration
	Error                 string
}

// Run implements [subcommand].
func (c *pluginCallCommand) Run(args []string) int {
	f := c.flags("plugin call")
	set := trialFlags(f.FlagSet)
	input := f.String("input", "", "")
	dir := f.String("alloc-dir", "", "")
	record := f.String("record", "", "")
	replay := f.String("replay", "", "")
	timeout := f.Duration("timeout", 30*time.Second, "")
	wait := f.Duration("wait", time.Second, "")
	if !c.parse(f, args, 2, 2, c.Help()) {
		return 1
	}
	if *record != "" && *replay != "" {
		return c.fail(f, errors.New("either -record or -replay"))
	}
	request, err := readRequest(*input)
	if err != nil {
		return c.fail(f, err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), *timeout+*wait+compileTime)
	defer cancel()
	t, err := set.open(ctx, f.Arg(0), trial.Config{Limits: host.Limits{CallTimeout: *timeout}, Repeatable: *record != ""}, true)
	if err != nil {
		return c.fail(f, err)
	}
	defer func() { _ = t.Close() }() // the answer is there
	alloc, remove, err := allocDir(*dir)
	if err != nil {
		return c.fail(f, err)
	}
	defer remove()
	out, err := call(ctx, t, set, pluginRequest{op: f.Arg(1), input: *input, text: request, alloc: alloc, timeout: *timeout, wait: *wait, record: *record, replay: *replay})
	if err != nil {
		return c.fail(f, err)
	}
	return c.print(f, out)
}

// inputName is what a request is called in messages.
func inputName(file string) string {
	switch file {
	case "":
		return "-input"
	case "-":
		return "standard input"
	}
	return file
}

// compileTime is what compiling a plugin may take.
const compileTime = 5 * time.Minute

// maxRequestBytes bounds what is read as a request: base64 takes a third more than a request
// may have.
const maxRequestBytes = 8 << 20

// readRequest reads a request's text; no file is an empty request.
func readRequest(file string) ([]byte, error) {
	if file == "" {
		return []byte("{}"), nil
	}
	from := os.Stdin
	if file != "-" {
		var err error
		if from, err = os.Open(file); err != nil {
			return nil, err
		}
		defer from.Close()
	}
	text, err := io.ReadAll(io.LimitReader(from, maxRequestBytes+1))
	if err == nil && len(text) > maxRequestBytes {
		err = fmt.Errorf("%s: a request has at most %d bytes", inputName(file), maxRequestBytes)
	}
	return text, err
}

// allocDir is the directory of the allocation, and what removes it if it is a temporary one.
func allocDir(given string) (string, func(), error) {
	if given != "" {
		dir, err := filepath.Abs(given)
		return dir, func() {}, err
	}
	dir, err := os.MkdirTemp("", "wasmnode-call-")
	return dir, func() { os.RemoveAll(dir) }, err
}

// pluginRequest is what is to be called.
type pluginRequest struct {
	op, input     string
	text          []byte
	alloc         string
	timeout, wait time.Duration
	// Names of files; empty: it is not recorded, and its capabilities are real.
	record, replay string
}

// call calls a plugin that has been loaded.
func call(ctx context.Context, t *trial.Trial, set *trialSet, r pluginRequest) (*called, error) {
	op, err := t.Operation(r.op)
	if err != nil {
		return nil, err
	}
	make, done, err := maker(ctx, t, set, r, op)
	if err != nil {
		return nil, err
	}
	defer done()
	prepared, err := t.Prepare(op, r.text, r.alloc)
	var misplaced *trial.PositionError
	switch {
	case errors.As(err, &misplaced):
		return nil, fmt.Errorf("%s:%w", inputName(r.input), err)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", inputName(r.input), err)
	}
	callCtx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	result, err := make(callCtx, prepared)
	if err != nil {
		return nil, err
	}
	out := &called{
		Operation: op, Took: result.Took, Guest: result.Guest, Fuel: result.Fuel, Memory: result.Memory, Events: result.Events,
		Capabilities: usesOf(result.Uses),
	}
	if result.Err != nil {
		out.Error = errorOf(result.Err)
	} else if out.Answer, err = trial.Decode(op, result.Answer); err != nil {
		out.Error = &calledError{Message: err.Error()}
	}
	if prepared.Task != nil {
		out.Workload = awaitWorkload(ctx, t, prepared.Task.Id, r.wait)
		out.Stdout, out.Stderr = logText(prepared.Task.StdoutPath), logText(prepared.Task.StderrPath)
	}
	return out, nil
}

// maker configures the plugin, and returns what makes the call, and what is done after it.
func maker(ctx context.Context, t *trial.Trial, set *trialSet, r pluginRequest, op string) (func(context.Context, trial.Call) (*trial.Result, error), func(), error) {
	switch {
	case r.replay != "":
		recording, err := readRecording(r.replay)
		if err != nil {
			return nil, nil, err
		}
		if err := set.configurePlayed(t); err != nil {
			return nil, nil, err
		}
		return func(ctx context.Context, c trial.Call) (*trial.Result, error) {
			return t.CallRecorded(ctx, c, recording), nil
		}, func() {}, nil
	case r.record != "":
		if err := set.configure(ctx, t); err != nil {
			return nil, nil, err
		}
		recorder, file, err := openRecording(t, r.record)
		if err != nil {
			return nil, nil, err
		}
		return func(ctx context.Context, c trial.Call) (*trial.Result, error) { return t.Record(ctx, c, recorder) }, func() { file.Close() }, nil
	case op != abi.OpDriverDescribe && op != abi.OpDeviceDescribe:
		if err := set.configure(ctx, t); err != nil {
			return nil, nil, err
		}
	}
	return func(ctx context.Context, c trial.Call) (*trial.Result, error) { return t.Call(ctx, c), nil }, func() {}, nil
}

func usesOf(uses []host.CapabilityUse) []calledCapability {
	out := []calledCapability{}
	for _, u := range uses {
		c := calledCapability{Operation: u.Op, Capability: strings.TrimPrefix(u.Module, abi.ModulePrefix) + " " + u.Function, Took: u.Took}
		switch {
		case u.Err != nil:
			c.Error = strings.TrimSuffix(abi.CodeName(abi.CodeOf(u.Err))+": "+u.Err.Error(), ": ")
		case u.Ended:
			c.Error = "the call ended in it"
		}
		out = append(out, c)
	}
	return out
}

func errorOf(err error) *calledError {
	out := &calledError{Message: err.Error(), Recoverable: abi.IsRecoverable(err)}
	var answered *abi.Error
	var fault *host.FaultError
	switch {
	case errors.As(err, &fault):
		out.Panic, out.Stack, out.Log = fault.Panic, fault.Stack, fault.Logs
	case errors.As(err, &answered):
		out.Code = abi.CodeName(answered.Code)
	}
	return out
}

// print prints an outcome, and returns the exit code.
func (c *pluginCallCommand) print(f *flags, out *called) int {
	code := 0
	if out.Error != nil {
		code = 1
	}
	if *f.json {
		return max(code, c.printJSON(out))
	}
	if out.Error != nil {
		c.ui.Error("Error: " + out.Error.line())
		if grant, more := inside(out.Error.Message); out.Error.Code == abi.CodeName(abi.PermissionDenied) && grant != "" {
			c.ui.Error("  here: -grant " + grant + more)
		}
	} else {
		pretty, err := json.MarshalIndent(out.Answer, "", "  ")
		if err != nil {
			return c.fail(f, err)
		}
		c.ui.Output(string(pretty))
	}
	c.printCost(out)
	return code
}

func (e *calledError) line() string {
	switch {
	case e.Code == "":
		return harmless(e.Message)
	case e.Recoverable:
		return fmt.Sprintf("the plugin answers %s, recoverable: %s", e.Code, harmless(e.Message))
	}
	return fmt.Sprintf("the plugin answers %s: %s", e.Code, harmless(e.Message))
}

// printCost prints what a call did and took.
func (c *pluginCallCommand) printCost(out *called) {
	pairs := [][2]string{
		{"Operation", out.Operation},
		{"Time", brief(out.Took)},
		{"In the plugin", brief(out.Guest)},
		{"Fuel", fmt.Sprintf("given %d times", out.Fuel)},
		{"Memory", humanize.IBytes(out.Memory)},
	}
	if out.Workload != nil {
		pairs = append(pairs, [2]string{"Workload", out.Workload.text()})
	}
	c.ui.Output("")
	c.pairs(pairs)
	if len(out.Capabilities) > 0 {
		rows := [][]string{{"Operation", "Capability", "Time", "Answer"}}
		for _, u := range out.Capabilities {
			answer := "ok"
			if u.Error != "" {
				answer = u.Error
			}
			rows = append(rows, []string{u.Operation, u.Capability, brief(u.Took), answer})
		}
		c.ui.Output("\nCapabilities")
		c.table(rows)
	}
	if e := out.Error; e != nil && len(e.Stack)+len(e.Log) > 0 {
		c.ui.Output("")
		c.indented(stackTitle, strings.Join(e.Stack, "\n"))
		c.indented(linesTitle, strings.Join(e.Log, "\n"))
	}
	for _, e := range out.Events {
		c.ui.Output("\nEvent: " + harmless(e.Message))
	}
	for _, stream := range [][2]string{{"Standard output", out.Stdout}, {"Standard error", out.Stderr}} {
		if text := strings.TrimSuffix(stream[1], "\n"); text != "" {
			c.ui.Output("\n" + stream[0] + "\n" + harmless(text))
		}
	}
}

// brief rounds a duration to what matters of it.
func brief(d time.Duration) string {
	switch {
	case d > time.Second:
		return d.Round(10 * time.Millisecond).String()
	case d > time.Millisecond:
		return d.Round(10 * time.Microsecond).String()
	}
	return d.Round(100 * time.Nanosecond).String()
}

// endedWorkload is how a workload ended that a call started.
type endedWorkload struct {
	Ended    bool // false: it was still running, and is ended with the command
	ExitCode int
	Signal   int
	Error    string
}

func (w *endedWorkload) text() string {
	switch {
	case !w.Ended:
		return "runs still, and is ended now"
	case w.Error != "":
		return harmless(w.Error)
	case w.Signal != 0:
		return fmt.Sprintf("ended by signal %d", w.Signal)
	}
	return fmt.Sprintf("ended with exit code %d", w.ExitCode)
}

// awaitWorkload waits for a task's workload; nil: it has none.
func awaitWorkload(ctx context.Context, t *trial.Trial, id string, wait time.Duration) *endedWorkload {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	exit, err := t.Workloads().Wait(ctx, id)
	switch {
	case abi.CodeOf(err) == abi.NotFound:
		return nil
	case err != nil:
		return &endedWorkload{}
	}
	return &endedWorkload{Ended: true, ExitCode: exit.ExitCode, Signal: exit.Signal, Error: exit.Err}
}

// mostLogText is how much is shown of what a task wrote, in bytes.
const mostLogText = 64 << 10

// logText is the beginning of what a task wrote.
func logText(path string) string {
	f, err := os.Open(path + ".0")
	if err != nil {
		return ""
	}
	defer f.Close()
	text, _ := io.ReadAll(io.LimitReader(f, mostLogText)) // what could be read is shown
	return string(text)
}

// list is an option that may be given several times.
type list []string

var _ flag.Value = (*list)(nil)

func (l *list) String() string { return strings.Join(*l, " ") }

// Set implements [flag.Value].
func (l *list) Set(s string) error {
	*l = append(slices.Clip(*l), s)
	return nil
}
