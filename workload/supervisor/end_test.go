package supervisor_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/workload/supervisor"
)

// What ends one that answers is tested with a real one, in cmd/wasmnode.
func TestASupervisorThatCannotBeEndedIsToldOf(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, supervisor.End(t.Context(), dir), "there is none")
	lock, err := supervisor.Lock(dir)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err = supervisor.End(ctx, dir)
	require.ErrorContains(t, err, "a supervisor runs and does not answer, see the process ID in "+dir+"/lock")
	require.NoError(t, lock.Close())
	require.NoError(t, supervisor.End(t.Context(), dir), "it has gone")
}
