package state_test

import (
	"bytes"
	"encoding/base64"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"

	"github.com/wasmnode/wasmnode/internal/boltfile"
	"github.com/wasmnode/wasmnode/state"
	"github.com/wasmnode/wasmnode/state/statetest"
)

func key(n byte) []byte { return bytes.Repeat([]byte{n}, state.KeySize) }

const secret = "correct-horse-battery"

// told is a task that was told a secret in all the ways that there are.
func told() *state.TaskLocal {
	local := statetest.Local()
	local.Config = []byte("PASSWORD=" + secret)
	local.Hooks["template"] = &state.HookState{
		Env: map[string]string{"PASSWORD": secret}, Data: map[string]string{"digest": "of " + secret},
	}
	return local
}

// clear reports whether a file has the secret, as it is or as JSON has bytes.
func clear(t *testing.T, path string) bool {
	t.Helper()
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	for i := range 3 { // wherever among three bytes it begins
		coded := base64.StdEncoding.EncodeToString([]byte("xxx"[:i] + secret))
		if bytes.Contains(content, []byte(coded[4:len(coded)-4])) {
			return true
		}
	}
	return bytes.Contains(content, []byte(secret))
}

func sealedIn(t *testing.T, path string, key []byte) state.DB {
	t.Helper()
	db, err := state.Open(path, state.Options{Key: key})
	require.NoError(t, err)
	return db
}

func TestWhatATaskWasToldIsSealed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	db := sealedIn(t, path, key(1))
	require.NoError(t, db.PutTask("a", "web", told(), statetest.TaskState()))
	require.NoError(t, db.PutTaskLocal("a", "db", told()))
	require.NoError(t, db.Close())
	require.False(t, clear(t, path))

	db = sealedIn(t, path, key(1))
	local, _, err := db.Task("a", "web")
	require.NoError(t, err)
	require.Equal(t, told(), local)
	require.NoError(t, db.Close())
}

func TestWithAnotherKeyTheTaskIsThereWithoutWhatItWasTold(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	db := sealedIn(t, path, key(1))
	require.NoError(t, db.PutTask("a", "web", told(), statetest.TaskState()))
	require.NoError(t, db.Close())
	want := told()
	want.Lost, want.Config = true, nil
	for _, h := range want.Hooks {
		h.Env, h.Data = nil, nil
	}
	for _, other := range [][]byte{key(2), nil} {
		db := sealedIn(t, path, other)
		local, s, err := db.Task("a", "web")
		require.NoError(t, err)
		require.Equal(t, want, local)
		require.Equal(t, statetest.TaskState(), s)
		require.NoError(t, db.Close())
	}
	_, err := state.Open(path, state.Options{Key: []byte("short")})
	require.ErrorContains(t, err, "a key to seal with has 5 bytes, not 32")
}

// What is sealed for one task is not another's, whoever writes it there.
func TestWhatIsSealedIsOfOneTask(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	db := sealedIn(t, path, key(1))
	require.NoError(t, db.PutTaskLocal("a", "web", told()))
	require.NoError(t, db.PutTaskLocal("a", "other", statetest.Local()))
	require.NoError(t, db.Close())
	f, err := boltfile.Open(path, boltfile.Options{Kind: "node state", Schema: state.SchemaVersion})
	require.NoError(t, err)
	var moved []byte
	require.NoError(t, f.View(func(tx *bbolt.Tx) error {
		moved = bytes.Clone(boltfile.Bucket(tx, "allocations", "a", "tasks", "web").Get([]byte("local")))
		return nil
	}))
	require.NoError(t, f.Write(boltfile.Op{Bucket: []string{"allocations", "a", "tasks", "other"}, Key: "local", Value: moved}))
	require.NoError(t, f.Close())
	db = sealedIn(t, path, key(1))
	local, _, err := db.Task("a", "other")
	require.NoError(t, err)
	require.True(t, local.Lost)
	require.NoError(t, db.Close())
}

func TestWhatAnOlderVersionHasStoredIsSealedWhenItIsOpened(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	db := sealedIn(t, path, nil)
	require.NoError(t, db.PutTaskLocal("a", "web", told()))
	require.NoError(t, db.Close())
	require.True(t, clear(t, path), "the test can see it")

	require.NoError(t, sealedIn(t, path, key(1)).Close())
	db = sealedIn(t, path, nil)
	local, _, err := db.Task("a", "web")
	require.NoError(t, err)
	require.True(t, local.Lost, "it is sealed")
	require.NoError(t, db.Close())
	db = sealedIn(t, path, key(1))
	local, _, err = db.Task("a", "web")
	require.NoError(t, err)
	require.Equal(t, told(), local)
	require.NoError(t, db.Close())
}
