package errdefs_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/structs/errdefs"
)

func TestAWrappedErrorKeepsItsClass(t *testing.T) {
	err := fmt.Errorf("job %q: %w", "web", errdefs.New(errdefs.NotFound, "node %q not found", "n1"))
	require.Equal(t, errdefs.NotFound, errdefs.ClassOf(err))
	require.ErrorIs(t, err, errdefs.NotFound)
	require.NotErrorIs(t, err, errdefs.Unavailable)
	require.EqualError(t, err, `job "web": node "n1" not found`)
	require.False(t, errdefs.IsRecoverable(err))
}

func TestAnErrorWithoutAClassIsUnknown(t *testing.T) {
	require.Equal(t, errdefs.Unknown, errdefs.ClassOf(errors.New("x")))
	require.False(t, errdefs.IsRecoverable(errors.New("x")))
}

func TestNoErrorHasNoClass(t *testing.T) {
	require.Empty(t, errdefs.ClassOf(nil))
}

func TestOnlyARecoverableErrorIsMarkedRecoverable(t *testing.T) {
	err := fmt.Errorf("starting: %w", errdefs.NewRecoverable(errdefs.Unavailable, "it is loading"))
	require.True(t, errdefs.IsRecoverable(err))
	require.ErrorIs(t, err, errdefs.Unavailable)
}
