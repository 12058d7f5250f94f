package abi_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/wasmnode/wasmnode/abi"
)

func TestAnErrorIsAskedForItsCodeAlone(t *testing.T) {
	for _, sentinel := range []*abi.Error{
		abi.ErrInvalidArgument, abi.ErrDeadlineExceeded, abi.ErrNotFound, abi.ErrAlreadyExists, abi.ErrPermissionDenied, abi.ErrResourceExhausted,
		abi.ErrFailedPrecondition, abi.ErrUnimplemented, abi.ErrUnavailable,
	} {
		crossed := abi.FromProto(abi.Proto(fmt.Errorf("while starting: %w", abi.NewRecoverableError(sentinel.Code, "why"))))
		if !errors.Is(fmt.Errorf("again: %w", crossed), sentinel) || !abi.IsRecoverable(crossed) {
			t.Errorf("%s is not found", abi.CodeName(sentinel.Code))
		}
		if errors.Is(crossed, abi.NewError(abi.Aborted, "why")) || errors.Is(errors.New(sentinel.Message), sentinel) {
			t.Errorf("%s is found by its text", abi.CodeName(sentinel.Code))
		}
	}
	if !errors.Is(abi.ErrTaskNotFound, abi.ErrNotFound) {
		t.Error("a task that is not found is not found")
	}
}
