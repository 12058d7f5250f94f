package standalone

import (
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/structs/errdefs"
)

// lockFor asks for a lock of a variable that has no items.
func lockFor(path, id, ttl, delay string) *nomad.Variable {
	return &nomad.Variable{Namespace: "default", Path: path, Lock: &nomad.VariableLock{ID: id, TTL: ttl, LockDelay: delay}}
}

func locked(t *testing.T, cp *ControlPlane, v *nomad.Variable) *nomad.Variable {
	t.Helper()
	got, conflict, err := cp.AcquireVariableLock(v)
	require.NoError(t, err)
	require.Nil(t, conflict)
	return got
}

// isLocked reports whether another is refused the lock.
func isLocked(t *testing.T, cp *ControlPlane, path string) bool {
	t.Helper()
	_, conflict, err := cp.AcquireVariableLock(lockFor(path, "another", "", ""))
	require.NoError(t, err)
	return conflict != nil
}

func TestALockedVariableIsItsHoldersOnly(t *testing.T) {
	cp := open(t, "")
	put := putVariable(t, cp, variable("a", "k", "1"))
	got := locked(t, cp, lockFor("a", "", "", ""))
	require.Equal(t, variable("a", "k", "1").Items, got.Items, "what there was stays")
	require.Equal(t, "15s", got.Lock.TTL)
	require.Equal(t, "15s", got.Lock.LockDelay)
	require.Equal(t, put.CreateIndex, got.CreateIndex)
	require.Greater(t, got.ModifyIndex, put.ModifyIndex)
	read, err := cp.Variable("default", "a")
	require.NoError(t, err)
	require.Equal(t, got, read)
	require.Equal(t, got.Lock, variablesOf(cp)[0].Lock)

	nothing := &nomad.Variable{Namespace: "default", Path: "a"}
	other := variable("a", "k", "2")
	for _, lock := range []*nomad.VariableLock{nil, {}, {ID: "x"}} {
		other.Lock = lock
		for _, check := range []*uint64{nil, &got.ModifyIndex} {
			_, conflict, err := cp.PutVariable(other, check)
			require.NoError(t, err)
			require.Equal(t, nothing, conflict)
		}
	}
	for _, check := range []*uint64{nil, &got.ModifyIndex} {
		conflict, err := cp.DeleteVariable("default", "a", check)
		require.NoError(t, err)
		require.Equal(t, nothing, conflict)
	}
	_, conflict, err := cp.AcquireVariableLock(lockFor("a", "x", "", ""))
	require.NoError(t, err)
	require.Equal(t, nothing, conflict)
	_, told, err := cp.ReleaseVariableLock("default", "a", "x")
	require.NoError(t, err)
	require.Equal(t, &nomad.VariableMetadata{Namespace: "default", Path: "a", Lock: &nomad.VariableLock{}}, told)
	_, err = cp.RenewVariableLock("default", "a", "x")
	require.EqualError(t, err, "attempting to modify locked variable")
	require.Equal(t, errdefs.AlreadyExists, errdefs.ClassOf(err))
	require.Equal(t, got.Items, itemsOf(t, cp, "a"), "nothing has changed")

	other.Lock = &nomad.VariableLock{ID: got.Lock.ID}
	changed, conflict, err := cp.PutVariable(other, nil)
	require.NoError(t, err)
	require.Nil(t, conflict)
	require.Equal(t, got.Lock, changed.Lock, "it stays")
	at := cp.Index(TableVariables)
	renewed, err := cp.RenewVariableLock("default", "a", got.Lock.ID)
	require.NoError(t, err)
	expected := changed.Metadata()
	expected.Lock = changed.Lock
	require.Equal(t, expected, renewed)
	require.Equal(t, at, cp.Index(TableVariables), "nobody is told")

	released, told, err := cp.ReleaseVariableLock("default", "a", got.Lock.ID)
	require.NoError(t, err)
	require.Nil(t, told)
	require.Nil(t, released.Lock)
	require.Greater(t, released.ModifyIndex, changed.ModifyIndex)
	require.Equal(t, variable("a", "k", "2").Items, itemsOf(t, cp, "a"))
	_, _, err = cp.PutVariable(other, nil)
	require.EqualError(t, err, "variable doesn't hold a lock", "whoever believes to hold it is told")
	with := variable("a", "k", "3")
	with.Lock = &nomad.VariableLock{}
	require.Equal(t, with.Items, locked(t, cp, with).Items)
	require.Empty(t, locked(t, cp, lockFor("new", "", "", "")).Items)
}

func TestWhatALockCanBe(t *testing.T) {
	cp := open(t, "")
	for text, lock := range map[string]*nomad.VariableLock{
		"TTL must be between 10 seconds and 24 hours":                 {TTL: "9.999999999s"},
		"TTL must be between 10 seconds and 24 hours ":                {TTL: "24h0m0.000000001s"},
		"Lock delay and TTL must be positive":                         {TTL: "-10s"},
		"Lock delay and TTL must be positive ":                        {LockDelay: "-1ns"},
		`Lock: TTL: time: invalid duration "soon"`:                    {TTL: "soon"},
		`Lock: LockDelay: time: missing unit in duration "1"`:         {LockDelay: "1"},
		"a lock's ID has at most 128 bytes":                           {ID: fmt.Sprintf("%129d", 1)},
		`Lock: TTL: time: invalid duration "9999999999999999999999h"`: {TTL: "9999999999999999999999h"},
	} {
		_, _, err := cp.AcquireVariableLock(&nomad.Variable{Namespace: "default", Path: "a", Lock: lock})
		require.ErrorContains(t, err, trimmed(text))
		require.Equal(t, errdefs.InvalidArgument, errdefs.ClassOf(err))
	}
	require.Empty(t, variablesOf(cp))
	for _, ttl := range []string{"10s", "24h"} {
		locked(t, cp, lockFor("ttl-"+ttl, fmt.Sprintf("%128d", 1), ttl, "1ns"))
	}
	for text, do := range map[string]func() error{
		`invalid path "a.b"`: func() error { _, _, err := cp.AcquireVariableLock(lockFor("a.b", "", "", "")); return err },
		"variables are limited to 64KiB in total size": func() error {
			_, _, err := cp.AcquireVariableLock(variable("a", "k", fmt.Sprintf("%65536d", 1)))
			return err
		},
		"variable doesn't exist":                       func() error { _, err := cp.RenewVariableLock("default", "none", "x"); return err },
		"variable doesn't exist ":                      func() error { _, _, err := cp.ReleaseVariableLock("default", "none", "x"); return err },
		"missing lock ID":                              func() error { _, err := cp.RenewVariableLock("default", "none", ""); return err },
		"missing lock information":                     func() error { _, _, err := cp.ReleaseVariableLock("default", "none", ""); return err },
		"variable should not contain lock definition":  func() error { _, _, err := cp.PutVariable(lockFor("a", "x", "15s", ""), nil); return err },
		"variable should not contain lock definition ": func() error { _, _, err := cp.PutVariable(lockFor("a", "x", "", "15s"), nil); return err },
		"variable requires path":                       func() error { _, _, err := cp.ReleaseVariableLock("default", "", "x"); return err },
	} {
		require.EqualError(t, do(), trimmed(text))
	}
}

// trimmed is a text that stands twice in a table.
func trimmed(text string) string {
	if n := len(text) - 1; text[n] == ' ' {
		return text[:n]
	}
	return text
}

func TestALockThatIsNotRenewedIsLostThenFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cp := open(t, "")
		mine := locked(t, cp, lockFor("a", "", "10s", "5s"))
		renew := func() error { _, err := cp.RenewVariableLock("default", "a", mine.Lock.ID); return err }
		for range 3 {
			sleep(20*time.Second - 1)
			require.NoError(t, renew(), "twice its TTL it can be renewed")
		}
		sleep(20 * time.Second)
		require.EqualError(t, renew(), "attempting to modify locked variable", "it is lost, and nobody's yet")
		require.True(t, isLocked(t, cp, "a"))
		sleep(5*time.Second - 1)
		require.True(t, isLocked(t, cp, "a"))
		before := cp.Index(TableVariables)
		sleep(1)
		require.Greater(t, cp.Index(TableVariables), before, "who waits for it is told")
		read, err := cp.Variable("default", "a")
		require.NoError(t, err)
		require.Nil(t, read.Lock)
		require.EqualError(t, renew(), "variable doesn't hold a lock")
		require.False(t, isLocked(t, cp, "a"))
		require.EqualError(t, renew(), "attempting to modify locked variable", "it is another's")
	})
}

// However often the node ends and begins again, a lock ends when it would have, by its last renewal.
func TestALocksEndIsComputedFromWhatIsStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "server.db")
		var cp *ControlPlane
		again := func() {
			if cp != nil {
				require.NoError(t, cp.Close())
			}
			var err error
			cp, err = Open(Options{Path: path})
			require.NoError(t, err)
		}
		again()
		defer func() { require.NoError(t, cp.Close()) }()
		mine := locked(t, cp, lockFor("a", "", "10s", "5s"))
		again()
		sleep(15 * time.Second)
		require.True(t, isLocked(t, cp, "a"))
		_, err := cp.RenewVariableLock("default", "a", mine.Lock.ID)
		require.NoError(t, err)
		for range 24 {
			again()
			sleep(time.Second)
		}
		require.True(t, isLocked(t, cp, "a"))
		_, err = cp.RotateRootKey(true)
		require.NoError(t, err)
		require.True(t, isLocked(t, cp, "a"), "another root key changes nothing")
		again()
		sleep(time.Second)
		require.Nil(t, variablesOf(cp)[0].Lock)
		locked(t, cp, lockFor("a", "", "10s", "5s"))
		require.NoError(t, cp.Close())
		sleep(time.Hour) // the node is away
		cp = nil
		again()
		sleep(0)
		require.Nil(t, variablesOf(cp)[0].Lock)
	})
}

func TestOneOfManyHasALock(t *testing.T) {
	cp := open(t, "")
	var inside, rounds atomic.Int32
	var all sync.WaitGroup
	for n := range 8 {
		all.Go(func() {
			for range 40 {
				id := fmt.Sprint("holder", n)
				_, conflict, err := cp.AcquireVariableLock(lockFor("a", id, "", ""))
				if err != nil {
					t.Error(err)
				}
				if conflict != nil || err != nil {
					continue
				}
				if inside.Add(1) != 1 {
					t.Error("two hold it")
				}
				rounds.Add(1)
				inside.Add(-1)
				if _, _, err := cp.ReleaseVariableLock("default", "a", id); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	require.Positive(t, rounds.Load())
}
