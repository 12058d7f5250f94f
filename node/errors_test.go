package node

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/runners/alloc"
	"github.com/wasmnode/wasmnode/structs/errdefs"
)

func TestADriversAnswerLeavesTheNodeWithItsClassAndItsWholeText(t *testing.T) {
	err := operationError(fmt.Errorf("driver %q: %w", "mock", abi.NewRecoverableError(abi.Unavailable, "busy")))
	require.ErrorIs(t, err, errdefs.Unavailable)
	require.EqualError(t, err, `driver "mock": busy`)
	require.True(t, errdefs.IsRecoverable(err))
	var answer *errdefs.Error
	require.ErrorAs(t, err, &answer)
	require.Equal(t, "busy", answer.Message)
}

func TestTheTranslationOfADriversAnswerHidesNothingOfItsChain(t *testing.T) {
	err := operationError(errors.Join(context.Canceled, abi.NewError(abi.Cancelled, "cancelled")))
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, errdefs.Canceled)
}

func TestARunnersSentinelGetsAClass(t *testing.T) {
	require.ErrorIs(t, operationError(fmt.Errorf("x: %w", alloc.ErrUnknownTask)), errdefs.NotFound)
	require.ErrorIs(t, operationError(fmt.Errorf("x: %w", alloc.ErrNotRunning)), errdefs.FailedPrecondition)
}

func TestACodeOutsideOfTheContractIsUnknown(t *testing.T) {
	require.ErrorIs(t, operationError(abi.NewError(99, "x")), errdefs.Unknown)
	require.NoError(t, operationError(nil))
}
