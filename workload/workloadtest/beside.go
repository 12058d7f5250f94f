package workloadtest

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/workload"
)

// RunBeside runs the tests of what owns workloads that stand beside others. EndsIt: they are
// killed when that ends; others are destroyed with it only.
func RunBeside(t *testing.T, f Fixture, endsIt bool) {
	t.Run("what stands beside a workload may start first, and is destroyed with it", func(t *testing.T) {
		w := newWorld(t, f)
		other, own, alone := w.spec("sleep"), w.spec("sleep"), w.start("sleep")
		other.Beside = own.ID
		require.NoError(t, w.s.Start(w.context(), other))
		require.NoError(t, w.s.Start(w.context(), own))
		status, err := w.s.Inspect(w.context(), other.ID)
		require.NoError(t, err)
		require.Equal(t, own.ID, status.Beside)
		require.NoError(t, w.s.Destroy(w.context(), own.ID))
		w.has(alone.ID)
	})
	t.Run("it is destroyed with what never started", func(t *testing.T) {
		w := newWorld(t, f)
		for range 2 {
			other := w.spec("sleep")
			other.Beside = "never"
			require.NoError(t, w.s.Start(w.context(), other))
		}
		require.NoError(t, w.s.Destroy(w.context(), "never"))
		w.has()
	})
	t.Run("it can be destroyed by itself", func(t *testing.T) {
		w := newWorld(t, f)
		own, other := w.start("sleep"), w.spec("sleep")
		other.Beside = own.ID
		require.NoError(t, w.s.Start(w.context(), other))
		require.NoError(t, w.s.Destroy(w.context(), other.ID))
		w.has(own.ID)
		require.NoError(t, w.s.Start(w.context(), other), "the ID is free again")
	})
	t.Run("nothing starts beside what has ended, or stands beside another", func(t *testing.T) {
		w := newWorld(t, f)
		own, ended := w.start("sleep"), w.start("exit", "0")
		w.wait(ended.ID)
		other, late := w.spec("sleep"), w.spec("sleep")
		other.Beside, late.Beside = own.ID, ended.ID
		require.NoError(t, w.s.Start(w.context(), other))
		require.Equal(t, abi.FailedPrecondition, abi.CodeOf(w.s.Start(w.context(), late)))
		late.Beside = other.ID
		require.Equal(t, abi.FailedPrecondition, abi.CodeOf(w.s.Start(w.context(), late)))
		w.has(own.ID, ended.ID, other.ID)
	})
	t.Run("few stand beside one", func(t *testing.T) {
		w := newWorld(t, f)
		for i := range workload.MaxBeside + 1 {
			other := w.spec("exit", "0")
			other.ID, other.Beside = fmt.Sprint("few-", i), "one"
			err := w.s.Start(w.context(), other)
			if i < workload.MaxBeside {
				require.NoError(t, err)
			} else {
				require.Equal(t, abi.ResourceExhausted, abi.CodeOf(err))
			}
		}
		require.NoError(t, w.s.Destroy(w.context(), "one"))
		w.has()
	})
	if endsIt {
		t.Run("it is killed when that ends", func(t *testing.T) { killedBeside(t, newWorld(t, f)) })
	}
}

func killedBeside(t *testing.T, w *world) {
	own, other := w.start("sleep"), w.spec("sleep")
	other.Beside = own.ID
	require.NoError(t, w.s.Start(w.context(), other))
	require.NoError(t, w.s.Stop(w.context(), own.ID, "SIGKILL", 0))
	require.Equal(t, 9, w.wait(other.ID).Signal)
	w.has(own.ID, other.ID)
}

// has requires these workloads to be there, and no others.
func (w *world) has(ids ...string) {
	w.t.Helper()
	list, err := w.s.List(w.context())
	require.NoError(w.t, err)
	var there []string
	for _, s := range list {
		there = append(there, s.ID)
	}
	require.ElementsMatch(w.t, ids, there)
}
