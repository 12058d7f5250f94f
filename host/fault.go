package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/tetratelabs/wazero/api"

	"github.com/wasmnode/wasmnode/host/engine"
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

// FaultError is a guest call that did not end as the contract says. It is short with
// %v; %+v adds the guest's stack.
type FaultError struct {
	Plugin string
	Op     string
	Kind   FaultKind
	Err    error
}

// Error returns one line.
func (e *FaultError) Error() string {
	text, _, _ := strings.Cut(e.Err.Error(), "\n")
	return fmt.Sprintf("plugin %s %s in %s: %s", e.Plugin, e.Kind, e.Op, printable(text, maxErrorText))
}

// Unwrap returns the cause.
func (e *FaultError) Unwrap() error { return e.Err }

// Format implements [fmt.Formatter].
func (e *FaultError) Format(s fmt.State, verb rune) {
	io.WriteString(s, e.Error())
	if verb == 'v' && s.Flag('+') {
		if _, stack, ok := strings.Cut(e.Err.Error(), "\n"); ok {
			io.WriteString(s, "\n"+stack)
		}
	}
}

// protocolError ends a guest that broke the contract within a host function.
type protocolError struct{ text string }

func (e *protocolError) Error() string { return e.text }

// enter calls into a guest. wazero recovers panics in host functions; one of its own
// is recovered here.
func enter(ctx context.Context, f api.Function, arg uint64) (status uint32, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &hostPanic{p, string(debug.Stack())}
		}
	}()
	results, err := f.Call(ctx, arg)
	if err != nil {
		return 0, err
	}
	return uint32(results[0]), nil
}

// hostPanic is a panic that wazero did not recover.
type hostPanic struct {
	value any
	stack string
}

func (e *hostPanic) Error() string { return fmt.Sprintf("panic: %v\n%s", e.value, e.stack) }

// isHostBug tells a failure of ours from a guest's: only our own code raises a
// runtime error or panics through wazero.
func isHostBug(err error) bool {
	var bug runtime.Error
	var p *hostPanic
	return errors.As(err, &bug) || errors.As(err, &p)
}

func exited(err error) bool {
	_, ok := engine.ExitCode(err)
	return ok
}
