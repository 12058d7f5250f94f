package sandbox

import (
	"errors"
	"fmt"
	"strings"

	"github.com/tetratelabs/wazero/sys"

	"github.com/wasmnode/wasmnode/internal/plaintext"
)

// Stage is a step of the load pipeline.
type Stage string

// The stages, in their order.
const (
	StageRead     Stage = "read"     // the file itself
	StageScan     Stage = "scan"     // is it a module, within the limits?
	StagePolicy   Stage = "policy"   // is it one that this node runs?
	StageMeter    Stage = "meter"    // making it interruptible
	StageCompile  Stage = "compile"  // to native code, and linking
	StageDescribe Stage = "describe" // the first call into it
)

// StageError is the stage at which a module was refused, and the reason.
type StageError struct {
	Stage Stage
	Err   error
}

// maxErrorText bounds the text of a refusal, which may quote the module's names.
const maxErrorText = 4 << 10

// Error returns the stage and the cause, on one line that is safe to show: the names in a
// module are its author's.
func (e *StageError) Error() string {
	return fmt.Sprintf("%s: %s", e.Stage, plaintext.Line(oneLine.Replace(e.Err.Error()), maxErrorText))
}

// oneLine joins lines: wazero's errors have several.
var oneLine = strings.NewReplacer("\n\t", ", ", "\n", ", ")

// Unwrap returns the cause.
func (e *StageError) Unwrap() error { return e.Err }

// PanicError is a panic of the engine itself, or of a host function in a way that
// wazero does not recover: a bug of the node, not of the guest.
type PanicError struct {
	Value any
	Stack string // of the goroutine that panicked
}

// Error returns the panic's value, on one line.
func (e *PanicError) Error() string { return fmt.Sprintf("the engine panicked: %v", e.Value) }

// Unwrap returns the panic's value, where it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// Interrupted reports whether err is that of a guest that was ended by its context.
func Interrupted(err error) bool {
	exit, ok := exitError(err)
	return ok && (exit.ExitCode() == sys.ExitCodeContextCanceled || exit.ExitCode() == sys.ExitCodeDeadlineExceeded)
}

// ExitCode returns the code that a guest exited with.
func ExitCode(err error) (code uint32, ok bool) {
	exit, ok := exitError(err)
	if !ok || Interrupted(err) {
		return 0, false
	}
	return exit.ExitCode(), true
}

func exitError(err error) (*sys.ExitError, bool) {
	var exit *sys.ExitError
	return exit, errors.As(err, &exit)
}
