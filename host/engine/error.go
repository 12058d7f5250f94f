package engine

import (
	"errors"
	"fmt"

	"github.com/tetratelabs/wazero/sys"
)

// Stage is a step of the load pipeline.
type Stage string

// The stages, in their order.
const (
	StageRead     Stage = "read"
	StageScan     Stage = "scan"
	StagePolicy   Stage = "policy"
	StageMeter    Stage = "meter"
	StageCompile  Stage = "compile"
	StageDescribe Stage = "describe"
)

// StageError says at which stage a module was refused, and why.
type StageError struct {
	Stage Stage
	Err   error
}

// Error returns the stage and the cause.
func (e *StageError) Error() string { return fmt.Sprintf("%s: %v", e.Stage, e.Err) }

// Unwrap returns the cause.
func (e *StageError) Unwrap() error { return e.Err }

func exitError(err error) (*sys.ExitError, bool) {
	var exit *sys.ExitError
	return exit, errors.As(err, &exit)
}
