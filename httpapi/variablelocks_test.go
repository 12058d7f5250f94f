package httpapi_test

import (
	"context"
	"errors"
	"net/http"
	"testing"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"
)

func TestLocksByNomadsClient(t *testing.T) {
	_, client := variables(t, plane(t))
	v := client.Variables()
	_, _, err := v.Create(&nomad.Variable{Path: "app/leader", Items: items("a", "b")}, nil)
	require.NoError(t, err)
	handle := func() *nomad.Locks {
		l, err := client.Locks(nomad.WriteOptions{}, nomad.Variable{Path: "app/leader", Lock: &nomad.VariableLock{TTL: "10s", LockDelay: "20s"}})
		require.NoError(t, err)
		return l
	}
	mine, other := handle(), handle()
	path, err := mine.Acquire(t.Context())
	require.NoError(t, err)
	require.Equal(t, "app/leader", path)
	_, err = other.Acquire(t.Context())
	require.ErrorIs(t, err, nomad.ErrLockConflict)
	require.NoError(t, mine.Renew(t.Context()))
	list, _, err := v.List(nil)
	require.NoError(t, err)
	require.Equal(t, "10s", list[0].Lock.TTL)
	require.Equal(t, "20s", list[0].Lock.LockDelay)
	read, _, err := v.Read("app/leader", nil)
	require.NoError(t, err)
	require.Equal(t, items("a", "b"), read.Items)
	require.Equal(t, list[0].Lock, read.Lock)

	refused := func(err error) {
		t.Helper()
		var answer nomad.UnexpectedResponseError
		require.True(t, errors.As(err, &answer), "%v", err)
		require.Equal(t, http.StatusConflict, answer.StatusCode())
		require.JSONEq(t, `{"Namespace":"default","Path":"app/leader","CreateIndex":0,"ModifyIndex":0,"CreateTime":0,"ModifyTime":0,"Items":null}`, answer.Body())
	}
	_, _, err = v.Update(&nomad.Variable{Path: "app/leader", Items: items("a", "c")}, nil)
	refused(err)
	_, err = v.Delete("app/leader", nil)
	refused(err)
	var conflict nomad.ErrCASConflict
	_, _, err = v.CheckedUpdate(&nomad.Variable{Path: "app/leader", ModifyIndex: read.ModifyIndex, Items: items("a", "c")}, nil)
	require.ErrorAs(t, err, &conflict)
	mineNow, _, err := v.Update(&nomad.Variable{Path: "app/leader", Items: items("a", "d"), Lock: &nomad.VariableLock{ID: read.Lock.ID}}, nil)
	require.NoError(t, err)
	require.Equal(t, read.Lock, mineNow.Lock)

	require.NoError(t, mine.Release(t.Context()))
	require.ErrorIs(t, mine.Release(t.Context()), nomad.ErrLockConflict)
	require.ErrorIs(t, mine.Renew(t.Context()), nomad.ErrLockConflict)
	_, err = other.Acquire(t.Context())
	require.NoError(t, err)
	require.ErrorIs(t, mine.Renew(t.Context()), nomad.ErrLockConflict)
	require.NoError(t, other.Release(t.Context()))
	last, _, err := v.Read("app/leader", nil)
	require.NoError(t, err)
	require.Nil(t, last.Lock)
	require.Equal(t, items("a", "d"), last.Items)
}

// A service that elects its leader with Nomad's leaser does its work once at a time.
func TestNomadsLeaserHoldsALock(t *testing.T) {
	_, client := variables(t, plane(t))
	l, err := client.Locks(nomad.WriteOptions{}, nomad.Variable{Path: "leader", Lock: &nomad.VariableLock{TTL: "10s"}})
	require.NoError(t, err)
	worked := false
	require.NoError(t, client.NewLockLeaser(l).Start(t.Context(), func(ctx context.Context) error {
		worked = true
		v, _, err := client.Variables().Read("leader", nil)
		require.NoError(t, err)
		require.NotNil(t, v.Lock)
		return nil
	}))
	require.True(t, worked)
	v, _, err := client.Variables().Read("leader", nil)
	require.NoError(t, err)
	require.Nil(t, v.Lock)
}

// Whoever knows a lock's ID holds it: only its holder and a management token are told.
func TestALocksIDIsTheHoldersSecret(t *testing.T) {
	d := divide(t)
	holder, other := d.as(t, d.team).Variables(), d.as(t, d.team).Variables()
	w, q := &nomad.WriteOptions{Namespace: "mine"}, &nomad.QueryOptions{Namespace: "mine"}
	mine, _, err := holder.AcquireLock(&nomad.Variable{Path: "db"}, w)
	require.NoError(t, err)
	require.NotEmpty(t, mine.Lock.ID)
	read, _, err := other.Read("db", q)
	require.NoError(t, err)
	require.Nil(t, read.Lock)
	list, _, err := other.List(q)
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.Nil(t, list[0].Lock)
	var conflict nomad.ErrCASConflict
	_, _, err = other.CheckedUpdate(&nomad.Variable{Path: "db", Items: items("a", "b")}, w)
	require.ErrorAs(t, err, &conflict)
	require.NotZero(t, conflict.Conflict.ModifyIndex)
	require.Nil(t, conflict.Conflict.Lock)
	known, _, err := d.client.Variables().Read("db", q)
	require.NoError(t, err)
	require.Equal(t, mine.Lock, known.Lock)
	_, _, err = holder.RenewLock(mine, w)
	require.NoError(t, err)
	_, _, err = holder.ReleaseLock(&nomad.Variable{Path: "db", Lock: mine.Lock}, w)
	require.NoError(t, err)
}
