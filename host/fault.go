package host

import (
	"errors"
	"fmt"
	"runtime"
	"strings"

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
// %v; %+v adds the guest's stack and the
// plugin's last log lines.
type FaultError struct {
	Plugin string // empty: its name is not known yet
	Op     string
	Kind   FaultKind
	Err    error
	// Logs are the last lines that the plugin wrote before, oldest first: what a
	// guest's runtime prints of a crash is on its standard error.
	Logs []string
}

// Error returns one line.
func (e *FaultError) Error() string {
	text, _, _ := strings.Cut(e.Err.Error(), "\n")
	plugin := strings.TrimSpace("plugin " + e.Plugin)
	return fmt.Sprintf("%s %s in %s: %s", plugin, e.Kind, e.Op, plaintext.Line(text, maxErrorText))
}

// Unwrap returns the cause.
func (e *FaultError) Unwrap() error { return e.Err }

// Format implements [fmt.Formatter].
func (e *FaultError) Format(s fmt.State, verb rune) {
	fmt.Fprint(s, e.Error())
	if verb == 'v' && s.Flag('+') {
		if _, stack, ok := strings.Cut(e.Err.Error(), "\n"); ok {
			fmt.Fprintf(s, "\n%s", stack)
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
