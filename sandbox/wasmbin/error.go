package wasmbin

import (
	"errors"
	"fmt"
)

// The kinds of [Error]; ask with errors.Is.
var (
	// ErrNotWasm: the first bytes are not those of a WebAssembly binary.
	ErrNotWasm = errors.New("not a WebAssembly module")
	// ErrTruncated: the file ends before what it announced. A copy in progress
	// looks like this.
	ErrTruncated = errors.New("truncated")
	// ErrComponent: the file is a component, which this node does not run.
	ErrComponent = errors.New("a component, not a core module")
	// ErrUnsupported: a feature outside the pinned set; the text names it.
	ErrUnsupported = errors.New("unsupported feature")
	// ErrLimit: a limit of [Limits] is exceeded; the text names it.
	ErrLimit = errors.New("limit exceeded")
	// ErrMalformed: anything else that the binary format does not allow.
	ErrMalformed = errors.New("malformed")
)

// Error is where a module is not acceptable, and why.
type Error struct {
	Offset int    // in bytes from the start of the module
	Where  string // the section or function, empty for the module itself
	Kind   error  // one of the sentinels above
	What   string // the reason, for people; starts in lower case
}

// Error returns the position, the section and the reason, in this order.
func (e *Error) Error() string {
	if e.Where == "" {
		return fmt.Sprintf("offset 0x%x: %s", e.Offset, e.What)
	}
	return fmt.Sprintf("offset 0x%x: %s: %s", e.Offset, e.Where, e.What)
}

// Unwrap returns the kind.
func (e *Error) Unwrap() error { return e.Kind }
