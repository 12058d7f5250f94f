// Package expect is what the SDK's own tests compare with. A library of assertions
// would be a requirement of the module, and so of every author's.
package expect

import (
	"reflect"
	"strings"
	"testing"

	"github.com/wasmnode/wasmnode/abi"
)

// Equal ends the test unless got is deeply equal to want. The details say which of
// several cases it was.
func Equal(t testing.TB, got, want any, details ...any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("got %#v, want %#v %v", got, want, details)
	}
}

// True ends the test unless the condition holds.
func True(t testing.TB, condition bool, details ...any) {
	t.Helper()
	if !condition {
		t.Fatal(append([]any{"does not hold:"}, details...)...)
	}
}

// NoError ends the test on an error.
func NoError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// ErrorContains ends the test unless there is an error and its text contains part.
func ErrorContains(t testing.TB, err error, part string, details ...any) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), part) {
		t.Fatalf("got error %v, want one with %q %v", err, part, details)
	}
}

// Message ends the test unless there is an error with exactly this text.
func Message(t testing.TB, err error, want string, details ...any) {
	t.Helper()
	if err == nil || err.Error() != want {
		t.Fatalf("got error %v, want %q %v", err, want, details)
	}
}

// Code ends the test unless err has the code, 0 for no error.
func Code(t testing.TB, err error, want abi.Code, details ...any) {
	t.Helper()
	if got := abi.CodeOf(err); got != want {
		t.Fatalf("got %s (%v), want %s %v", abi.CodeName(got), err, abi.CodeName(want), details)
	}
}
