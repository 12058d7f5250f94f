package state_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"
	"go.uber.org/goleak"

	"github.com/wasmnode/wasmnode/internal/boltfile"
	"github.com/wasmnode/wasmnode/internal/leaktest"
	"github.com/wasmnode/wasmnode/state"
	"github.com/wasmnode/wasmnode/state/statetest"
	"github.com/wasmnode/wasmnode/structs"
)

func TestMain(m *testing.M) {
	if err := os.Setenv(boltfile.StrictEnv, "1"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(leaktest.WithTimeout(m))
}

func open(t *testing.T, path string) state.DB {
	db, err := state.Open(path, state.Options{})
	require.NoError(t, err)
	return db
}

func TestEveryStoreConforms(t *testing.T) {
	t.Run("bbolt", func(t *testing.T) {
		paths := map[state.DB]string{}
		statetest.Run(t, statetest.Store{
			Open: func(t *testing.T) state.DB {
				path := filepath.Join(t.TempDir(), "state.db")
				db := open(t, path)
				paths[db] = path
				return db
			},
			Reopen: func(t *testing.T, db state.DB) state.DB {
				require.NoError(t, db.Close())
				return open(t, paths[db])
			},
		})
	})
	t.Run("sealed", func(t *testing.T) {
		paths := map[state.DB]string{}
		sealed := func(t *testing.T, path string) state.DB {
			t.Helper()
			db, err := state.Open(path, state.Options{Key: key(1)})
			require.NoError(t, err)
			paths[db] = path
			return db
		}
		statetest.Run(t, statetest.Store{
			Open: func(t *testing.T) state.DB { return sealed(t, filepath.Join(t.TempDir(), "state.db")) },
			Reopen: func(t *testing.T, db state.DB) state.DB {
				require.NoError(t, db.Close())
				return sealed(t, paths[db])
			},
		})
	})
	t.Run("memory", func(t *testing.T) {
		statetest.Run(t, statetest.Store{Open: func(*testing.T) state.DB { return state.NewMem() }})
	})
	t.Run("no-op", func(t *testing.T) {
		statetest.Run(t, statetest.Store{Open: func(*testing.T) state.DB { return state.NewNoop() }, Forgets: true})
	})
	t.Run("failing that does not fail", func(t *testing.T) {
		statetest.Run(t, statetest.Store{Open: func(*testing.T) state.DB { return state.NewFailing(state.NewMem(), 0) }})
	})
}

// TestD8_AnAllocationIsForgottenWholeByTheStoreInMemoryToo: what comes later under the same
// ID finds nothing of the one before.
func TestD8_AnAllocationIsForgottenWholeByTheStoreInMemoryToo(t *testing.T) {
	for name, db := range map[string]state.DB{"memory": state.NewMem(), "bbolt": open(t, filepath.Join(t.TempDir(), "state.db"))} {
		t.Run(name, func(t *testing.T) {
			defer func() { require.NoError(t, db.Close()) }()
			require.NoError(t, db.PutAllocation(statetest.Allocation("a")))
			require.NoError(t, db.PutAllocationState(statetest.AllocationState("a")))
			require.NoError(t, db.PutTask("a", "web", statetest.Local(), statetest.TaskState()))
			require.NoError(t, db.PutTask("a", "side", statetest.Local(), statetest.TaskState()))
			require.NoError(t, db.DeleteAllocation("a"))

			require.NoError(t, db.PutAllocation(statetest.Allocation("a")))
			s, err := db.AllocationState("a")
			require.NoError(t, err)
			require.Nil(t, s)
			for _, task := range []string{"web", "side"} {
				local, s, err := db.Task("a", task)
				require.NoError(t, err)
				require.Nil(t, local)
				require.Nil(t, s)
			}
		})
	}
}

func TestAFailingStoreLeavesWhatWasDurableBeforeTheFailure(t *testing.T) {
	write := func(db state.DB) (done int) {
		for i, step := range []func() error{
			func() error { return db.PutAllocation(statetest.Allocation("a")) },
			func() error { return db.PutAllocationState(statetest.AllocationState("a")) },
			func() error { return db.PutTaskLocal("a", "web", statetest.Local()) },
			func() error { return db.PutTaskState("a", "web", statetest.TaskState()) },
			func() error { return db.DeleteAllocation("a") },
		} {
			if err := step(); err != nil {
				require.ErrorIs(t, err, state.ErrInjected)
				return i
			}
		}
		return 5
	}
	for n := 1; ; n++ {
		path := filepath.Join(t.TempDir(), "state.db")
		db := open(t, path)
		failing := state.NewFailing(db, n)
		done := write(failing)
		require.NoError(t, db.Close())

		db = open(t, path)
		allocs, faults, err := db.Allocations()
		require.NoError(t, err)
		require.Empty(t, faults)
		require.Equal(t, done >= 1 && done < 5, len(allocs) == 1, "n=%d", n)
		as, err := db.AllocationState("a")
		require.NoError(t, err)
		require.Equal(t, done >= 2 && done < 5, as != nil, "n=%d", n)
		local, ts, err := db.Task("a", "web")
		require.NoError(t, err)
		require.Equal(t, done >= 3 && done < 5, local != nil, "n=%d", n)
		require.Equal(t, done == 4, ts != nil, "n=%d", n)
		require.NoError(t, db.Close())
		if !failing.Failed() {
			require.Equal(t, 5, done)
			require.Equal(t, 5, failing.Operations())
			return
		}
	}
}

func TestAnUnreadableAllocationDoesNotHideTheOthers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	db := open(t, path)
	require.NoError(t, db.PutAllocation(statetest.Allocation("bad")))
	require.NoError(t, db.PutAllocation(statetest.Allocation("good")))
	require.NoError(t, db.Close())
	raw, err := bbolt.Open(path, 0o600, nil)
	require.NoError(t, err)
	require.NoError(t, raw.Update(func(tx *bbolt.Tx) error {
		return boltfile.Bucket(tx, "allocations", "bad").Put([]byte("allocation"), []byte("{"))
	}))
	require.NoError(t, raw.Close())

	db = open(t, path)
	defer func() { require.NoError(t, db.Close()) }()
	allocs, faults, err := db.Allocations()
	require.NoError(t, err)
	require.Equal(t, []*structs.Allocation{statetest.Allocation("good")}, allocs)
	require.Len(t, faults, 1)
	require.Error(t, faults["bad"])
}
