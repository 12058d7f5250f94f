package abi

import (
	"errors"
	"strings"

	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
)

// Code is a gRPC status code.
type Code = wasmnodev1.ErrorCode

// The codes in use, short.
const (
	Cancelled          = wasmnodev1.ErrorCode_ERROR_CODE_CANCELLED
	Unknown            = wasmnodev1.ErrorCode_ERROR_CODE_UNKNOWN
	InvalidArgument    = wasmnodev1.ErrorCode_ERROR_CODE_INVALID_ARGUMENT
	DeadlineExceeded   = wasmnodev1.ErrorCode_ERROR_CODE_DEADLINE_EXCEEDED
	NotFound           = wasmnodev1.ErrorCode_ERROR_CODE_NOT_FOUND
	AlreadyExists      = wasmnodev1.ErrorCode_ERROR_CODE_ALREADY_EXISTS
	PermissionDenied   = wasmnodev1.ErrorCode_ERROR_CODE_PERMISSION_DENIED
	ResourceExhausted  = wasmnodev1.ErrorCode_ERROR_CODE_RESOURCE_EXHAUSTED
	FailedPrecondition = wasmnodev1.ErrorCode_ERROR_CODE_FAILED_PRECONDITION
	Aborted            = wasmnodev1.ErrorCode_ERROR_CODE_ABORTED
	Unimplemented      = wasmnodev1.ErrorCode_ERROR_CODE_UNIMPLEMENTED
	Internal           = wasmnodev1.ErrorCode_ERROR_CODE_INTERNAL
	Unavailable        = wasmnodev1.ErrorCode_ERROR_CODE_UNAVAILABLE
)

// CodeName returns a code's gRPC name, such as "NOT_FOUND".
func CodeName(c Code) string {
	return strings.TrimPrefix(c.String(), "ERROR_CODE_")
}

// Error is an error that crosses the sandbox, in either direction.
type Error struct {
	Code        Code
	Message     string
	Recoverable bool // trying the same again can help
}

// NewError returns an error that retrying does not fix.
func NewError(code Code, message string) *Error {
	return &Error{Code: code, Message: message}
}

// NewRecoverableError returns an error that retrying can fix.
func NewRecoverableError(code Code, message string) *Error {
	return &Error{Code: code, Message: message, Recoverable: true}
}

// Error returns the message; the code is for programs.
func (e *Error) Error() string { return e.Message }

// Is reports whether target is an [Error] with the same code, so that
// errors.Is(err, abi.ErrPermissionDenied) asks for the code, never for the text.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code
}

// What an error of a capability, or of an operation, is asked for with errors.Is. Only the code is
// compared: to answer with one of these tells nobody what went wrong, which [NewError] does.
var (
	ErrInvalidArgument    = NewError(InvalidArgument, "invalid argument")
	ErrDeadlineExceeded   = NewError(DeadlineExceeded, "the time is over")
	ErrNotFound           = NewError(NotFound, "not found")
	ErrAlreadyExists      = NewError(AlreadyExists, "there already")
	ErrPermissionDenied   = NewError(PermissionDenied, "not granted")
	ErrResourceExhausted  = NewError(ResourceExhausted, "beyond a bound")
	ErrFailedPrecondition = NewError(FailedPrecondition, "not in this state")
	ErrUnimplemented      = NewError(Unimplemented, "not implemented")
	ErrUnavailable        = NewError(Unavailable, "not available now")
)

// ErrTaskNotFound is what a driver answers for a task that it does not know.
var ErrTaskNotFound = NewError(NotFound, "task not found for given id")

// CodeOf returns the code of the first [Error] in err's chain, Unknown when there
// is none, and 0 for nil.
func CodeOf(err error) Code {
	if err == nil {
		return 0
	}
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return Unknown
}

// IsRecoverable reports whether retrying can help after err. Errors that
// do not say so cannot be recovered from (as in Nomad).
func IsRecoverable(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Recoverable
}

// Flat returns err, which is not nil, as one [Error] with the whole of its text, for
// clients of the node get it. An error that is not an [Error] becomes UNKNOWN.
func Flat(err error) *Error {
	return &Error{Code: CodeOf(err), Message: err.Error(), Recoverable: IsRecoverable(err)}
}

// Proto returns err as the message that crosses the sandbox, flattened by [Flat].
func Proto(err error) *wasmnodev1.Error {
	e := Flat(err)
	return &wasmnodev1.Error{Code: e.Code, Message: e.Message, Recoverable: e.Recoverable}
}

// FromProto is the inverse of [Proto].
func FromProto(m *wasmnodev1.Error) *Error {
	return &Error{Code: m.GetCode(), Message: m.GetMessage(), Recoverable: m.GetRecoverable()}
}
