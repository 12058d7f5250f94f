package host

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/wasmnode/wasmnode/internal/plaintext"
	"github.com/wasmnode/wasmnode/sandbox"
)

// FaultKind is how a guest call went wrong.
type FaultKind string

// The kinds.
const (
	FaultTrap     FaultKind = "trapped"
	FaultTimeout  FaultKind = "was too slow"
	FaultExit     FaultKind = "exited"
	FaultProtocol FaultKind = "broke the contract"
	FaultHost     FaultKind = "hit a bug of the node"
)

// FaultError is a guest call that broke the contract. It is short with
// %v; %+v adds the guest's stack and its last lines.
type FaultError struct {
	Plugin string // empty: its name is not known yet
	Op     string
	Kind   FaultKind
	Err    error
	// Panic is what the guest's runtime wrote of a panic, one line; empty: nothing.
	Panic string
	// Deadline is how long the call had, of one that was too slow; 0: no deadline of its own.
	Deadline time.Duration
	// Stack are the functions that the guest was in, the innermost first, at most 16 and then
	// "…"; none of a guest that exited, or that returned.
	Stack []string
	// Logs are the last lines that the guest wrote in the call, oldest first, at most 12 and
	// 24 of a panic; of what its initialiser or configuration wrote in theirs.
	Logs []string
}

// Error returns one line.
func (e *FaultError) Error() string {
	text, _, _ := strings.Cut(e.Err.Error(), "\n")
	plugin := strings.TrimSpace("plugin " + e.Plugin)
	text = fmt.Sprintf("%s %s in %s: %s", plugin, e.Kind, e.Op, plaintext.Line(text, maxErrorText))
	if e.Deadline > 0 {
		text += fmt.Sprintf("; it had %v", e.Deadline)
	}
	if e.Panic != "" {
		text += ": " + e.Panic
	}
	return text
}

// last notes what the instance wrote last.
func (e *FaultError) last(inst *instance) {
	inst.flush()
	e.Logs, e.Panic = inst.words.said(inst.shown), inst.words.panicText(inst.shown)
}

// The bounds of a fault's lists in an event, in bytes: what was escaped is longer than it was.
const (
	maxStackDetail = 4 << 10
	maxLogDetail   = 10 << 10
)

// FaultDetails are the parts of a fault for an event of the task that it was about: together
// less than 20 KiB.
func (e *FaultError) FaultDetails() map[string]string {
	details := map[string]string{
		"plugin": e.Plugin, "plugin_operation": e.Op, "plugin_fault": string(e.Kind), "plugin_panic": e.Panic,
		"plugin_stack": firstLines(e.Stack, maxStackDetail), "plugin_log": firstLines(e.Logs, maxLogDetail), "plugin_deadline": "",
	}
	if e.Deadline > 0 {
		details["plugin_deadline"] = e.Deadline.String()
	}
	maps.DeleteFunc(details, func(_, value string) bool { return value == "" })
	return details
}

// firstLines joins lines, as many of the first as have at most so many bytes.
func firstLines(lines []string, bytes int) string {
	text := strings.Join(lines, "\n")
	if len(text) <= bytes {
		return text
	}
	cut := strings.LastIndexByte(text[:bytes+1], '\n')
	return text[:max(cut, 0)] + "\n…"
}

const failedInCall = "the plugin failed in a call"

// tell logs a fault, with the task that the call was about, once. Who observes a call has its
// error.
func (p *Plugin) tell(ctx context.Context, scope *TaskScope, err error) error {
	var f *FaultError
	if !errors.As(err, &f) || ctx.Value(observerKey{}) != nil {
		return err
	}
	dropped, may := p.faults.allow()
	if !may {
		return err
	}
	args := append(scope.names(), "op", f.Op, "error", f.Error())
	if len(f.Stack) > 0 {
		args = append(args, "stack", strings.Join(f.Stack, " < "))
	}
	if dropped > 0 {
		args = append(args, "faults_not_told", dropped)
	}
	p.logger.Warn(failedInCall, args...)
	p.keepLine(lineOf(scope, hclog.Warn, failedInCall, args[len(scope.names()):]))
	return err
}

// Unwrap returns the cause.
func (e *FaultError) Unwrap() error { return e.Err }

// Format implements [fmt.Formatter].
func (e *FaultError) Format(s fmt.State, verb rune) {
	fmt.Fprint(s, e.Error())
	if verb == 'v' && s.Flag('+') {
		for _, frame := range e.Stack {
			fmt.Fprintf(s, "\nin: %s", frame)
		}
		for _, line := range e.Logs {
			fmt.Fprintf(s, "\nlog: %s", line)
		}
	}
}

// protocolError ends a guest that broke the contract within a host function.
type protocolError struct{ text string }

func (e *protocolError) Error() string { return e.text }

// isHostBug distinguishes a failure of ours from a guest's: only our own code raises a
// runtime error or panics through wazero.
func isHostBug(err error) bool {
	var bug runtime.Error
	var p *sandbox.PanicError
	return errors.As(err, &bug) || errors.As(err, &p)
}

func exited(err error) bool {
	_, ok := sandbox.ExitCode(err)
	return ok
}
