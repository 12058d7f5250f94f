package node

import (
	"cmp"
	"errors"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/runners/alloc"
	"github.com/wasmnode/wasmnode/runners/task"
	"github.com/wasmnode/wasmnode/structs/errdefs"
)

// operationError gives an error of a runner its class.
func operationError(err error) error {
	switch {
	case errors.Is(err, alloc.ErrUnknownTask):
		return errdefs.New(errdefs.NotFound, "%v", err)
	case errors.Is(err, alloc.ErrNotRunning), errors.Is(err, task.ErrNotRunning):
		return errdefs.New(errdefs.FailedPrecondition, "%v", err)
	}
	var answer *abi.Error
	if errors.As(err, &answer) {
		return &driverError{err, &errdefs.Error{Class: cmp.Or(classes[answer.Code], errdefs.Unknown), Message: answer.Message, Recoverable: answer.Recoverable}}
	}
	return err
}

// driverError is an error with a driver's answer in its chain: its text is the whole
// one, its class and short message are the answer's.
type driverError struct {
	err    error
	answer *errdefs.Error
}

// Error returns the whole text.
func (e *driverError) Error() string { return e.err.Error() }

// Unwrap returns the answer, and then all that was there.
func (e *driverError) Unwrap() []error { return []error{e.answer, e.err} }

// classes translates the codes of the contract with plugins.
var classes = map[abi.Code]errdefs.Class{
	abi.Cancelled:          errdefs.Canceled,
	abi.Unknown:            errdefs.Unknown,
	abi.InvalidArgument:    errdefs.InvalidArgument,
	abi.DeadlineExceeded:   errdefs.DeadlineExceeded,
	abi.NotFound:           errdefs.NotFound,
	abi.AlreadyExists:      errdefs.AlreadyExists,
	abi.PermissionDenied:   errdefs.PermissionDenied,
	abi.ResourceExhausted:  errdefs.ResourceExhausted,
	abi.FailedPrecondition: errdefs.FailedPrecondition,
	abi.Unimplemented:      errdefs.Unimplemented,
	abi.Internal:           errdefs.Internal,
	abi.Unavailable:        errdefs.Unavailable,
}
