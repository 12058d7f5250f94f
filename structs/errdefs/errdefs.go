// Package errdefs has the classes of the node's errors. What a caller can do about an
// error, and the HTTP status that it is answered with, follow from its class and never
// from its text. Plugins have codes of their own (abi.Error), which are translated where
// a driver's answer leaves the node; this package knows nothing of them.
//
// Start reading at [New]; ask with [ClassOf] or errors.Is(err, errdefs.NotFound).
package errdefs

import (
	"errors"
	"fmt"
)

// Class is the class of an error. It is an error itself, so that errors.Is finds it.
type Class string

// The classes, after gRPC's status codes.
const (
	Canceled           Class = "canceled"
	Unknown            Class = "unknown" // of every error that has no class
	InvalidArgument    Class = "invalid argument"
	DeadlineExceeded   Class = "deadline exceeded"
	NotFound           Class = "not found"
	AlreadyExists      Class = "already exists"
	PermissionDenied   Class = "permission denied"
	ResourceExhausted  Class = "resource exhausted"
	FailedPrecondition Class = "failed precondition" // right, but not in this state
	Unimplemented      Class = "unimplemented"
	Internal           Class = "internal"
	Unavailable        Class = "unavailable" // now
)

// Error returns the class's name.
func (c Class) Error() string { return string(c) }

// Error is an error with a class.
type Error struct {
	Class       Class
	Message     string
	Recoverable bool // trying the same again can help
}

// New returns an error of a class that retrying does not fix.
func New(class Class, format string, args ...any) error {
	return &Error{Class: class, Message: fmt.Sprintf(format, args...)}
}

// NewRecoverable returns an error of a class that retrying can fix.
func NewRecoverable(class Class, format string, args ...any) error {
	return &Error{Class: class, Message: fmt.Sprintf(format, args...), Recoverable: true}
}

// Error returns the message; the class is for programs.
func (e *Error) Error() string { return e.Message }

// Is reports whether target is the error's class.
func (e *Error) Is(target error) bool {
	class, ok := target.(Class)
	return ok && class == e.Class
}

// ClassOf returns the class of the first [Error] in err's chain, [Unknown] when there is
// none, and "" for nil.
func ClassOf(err error) Class {
	if err == nil {
		return ""
	}
	var e *Error
	if errors.As(err, &e) {
		return e.Class
	}
	return Unknown
}

// IsRecoverable reports whether retrying can help after err.
func IsRecoverable(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Recoverable
}
