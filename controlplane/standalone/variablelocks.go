package standalone

import (
	"cmp"
	"slices"
	"time"

	"github.com/google/uuid"
	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/structs/errdefs"
)

// The bounds of a lock, Nomad's but for that of the ID.
const (
	minLockTTL      = 10 * time.Second
	maxLockTTL      = 24 * time.Hour
	maxLockID       = 128 // in bytes
	lockPatience    = 2   // TTLs without a renewal until a lock cannot be renewed any more
	defaultLockTime = nomad.DefaultLockTTL
)

// The texts of locks are Nomad's.
var (
	errNoVariable = notFound("variable doesn't exist")
	errNotLocked  = errdefs.New(errdefs.AlreadyExists, "variable doesn't hold a lock")
	errNotHolder  = errdefs.New(errdefs.AlreadyExists, "attempting to modify locked variable")
	errNoLockID   = invalid("missing lock ID")
)

// variableLock is the lock of a variable. Who knows its ID holds it.
type variableLock struct {
	ID         string
	TTL, Delay time.Duration
	Renewed    time.Time // or acquired
}

// lost is when the lock cannot be renewed any more, and free when another can have it.
func (l *variableLock) lost() time.Time { return l.Renewed.Add(lockPatience * l.TTL) }
func (l *variableLock) free() time.Time { return l.lost().Add(l.Delay) }

// whenFree is when a variable's lock is over; false: it has none.
func whenFree(row *variableRow) (time.Time, bool) {
	if row.Held == nil {
		return time.Time{}, false
	}
	return row.Held.free(), true
}

// heldAt is the lock that the variable has at a time; nil: none, or no variable.
func (r *variableRow) heldAt(now time.Time) *variableLock {
	if r == nil || r.Held == nil || !now.Before(r.Held.free()) {
		return nil
	}
	return r.Held
}

// told is a lock as Nomad's API has it; nil of nil.
func (l *variableLock) told() *nomad.VariableLock {
	if l == nil {
		return nil
	}
	return &nomad.VariableLock{ID: l.ID, TTL: l.TTL.String(), LockDelay: l.Delay.String()}
}

// metadata is what is no secret of a row, with its lock.
func (r *variableRow) metadata() *nomad.VariableMetadata {
	if r.Held == nil {
		return &r.VariableMetadata
	}
	m := r.VariableMetadata
	m.Lock = r.Held.told()
	return &m
}

// lockOf reads the lock that is asked for; nil asks for one with Nomad's defaults.
func lockOf(asked *nomad.VariableLock) (*variableLock, error) {
	if asked == nil {
		asked = &nomad.VariableLock{}
	}
	l := &variableLock{ID: cmp.Or(asked.ID, uuid.NewString())}
	for _, d := range []struct {
		name, text string
		to         *time.Duration
		otherwise  time.Duration
	}{{"TTL", asked.TTL, &l.TTL, defaultLockTime}, {"LockDelay", asked.LockDelay, &l.Delay, nomad.DefaultLockDelay}} {
		if d.text != "" {
			var err error
			if *d.to, err = time.ParseDuration(d.text); err != nil {
				return nil, invalid("Lock: %s: %v", d.name, err)
			}
		}
		*d.to = cmp.Or(*d.to, d.otherwise)
	}
	switch {
	case l.Delay < 0 || l.TTL < 0:
		return nil, invalid("Lock delay and TTL must be positive")
	case l.TTL < minLockTTL || l.TTL > maxLockTTL:
		return nil, invalid("TTL must be between 10 seconds and 24 hours")
	case len(l.ID) > maxLockID:
		return nil, invalid("a lock's ID has at most %d bytes", maxLockID)
	}
	return l, nil
}

// AcquireVariableLock locks a variable, which is made where there is none, and answers the lock
// with its ID. Items that v has take the place of those that there are; without any these stay.
// A variable that is locked under another ID is the conflict, and nothing is changed. What the
// lock cannot be is errdefs.InvalidArgument. After twice its TTL without a renewal a lock is
// lost, and LockDelay later it is free.
func (cp *ControlPlane) AcquireVariableLock(v *nomad.Variable) (locked, conflict *nomad.Variable, err error) {
	if err := variableFault(v, true); err != nil {
		return nil, nil, err
	}
	lock, err := lockOf(v.Lock)
	if err != nil {
		return nil, nil, err
	}
	return cp.sealAndPut(v, func(t *tx, row *variableRow) (conflict *variableRow, err error) {
		old := t.variables.get(row.key())
		if held := old.heldAt(t.now); held != nil && held.ID != lock.ID {
			return emptyRow(row.key()), nil
		}
		if old != nil && len(v.Items) == 0 {
			row.Key, row.Sealed = old.Key, old.Sealed
		}
		taken := *lock
		taken.Renewed = t.now
		row.Held = &taken
		return nil, t.putVariable(row)
	})
}

// RenewVariableLock has a lock last for its TTL from now on. One that nobody holds, that another
// holds, or that is lost is errdefs.AlreadyExists with Nomad's text, a variable that is not there
// errdefs.NotFound. No index changes.
func (cp *ControlPlane) RenewVariableLock(namespace, path, id string) (*nomad.VariableMetadata, error) {
	if id == "" {
		return nil, errNoLockID
	}
	var renewed variableRow
	err := cp.write(func(t *tx) error {
		key := variableKey{namespace, path}
		row := t.variables.get(key)
		held := row.heldAt(t.now)
		switch {
		case row == nil:
			return errNoVariable
		case held == nil:
			return errNotLocked
		case held.ID != id, !t.now.Before(held.lost()):
			return errNotHolder
		}
		renewed = *row
		renewed.Held = &variableLock{ID: held.ID, TTL: held.TTL, Delay: held.Delay, Renewed: t.now}
		t.unseen = true
		t.variables.put(key, &renewed)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return renewed.metadata(), nil
}

// ReleaseVariableLock lets go of a lock; its items stay. The errors are those of
// [ControlPlane.RenewVariableLock]; a lock that another holds is the conflict.
func (cp *ControlPlane) ReleaseVariableLock(namespace, path, id string) (released, conflict *nomad.VariableMetadata, err error) {
	if id == "" {
		return nil, nil, invalid("missing lock information")
	}
	if err := variablePathFault(path); err != nil {
		return nil, nil, err
	}
	key := variableKey{namespace, path}
	err = cp.write(func(t *tx) error {
		row := t.variables.get(key)
		held := row.heldAt(t.now)
		switch {
		case row == nil:
			return errNoVariable
		case held == nil:
			return errNotLocked
		case held.ID != id:
			conflict = emptyRow(key).metadata()
			conflict.Lock = &nomad.VariableLock{}
			return nil
		}
		released = t.unlock(row).metadata()
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	return released, conflict, nil
}

// unlock stores a variable without its lock.
func (t *tx) unlock(row *variableRow) *variableRow {
	c := *row
	c.Held = nil
	c.ModifyIndex = t.at()
	t.touched[TableVariables] = t.at()
	t.variables.put(c.key(), &c)
	return &c
}

// freeDue takes the locks off whose holders have not been heard of for too long.
func (t *tx) freeDue() {
	keys := t.cp.data.locks.due(t.now)
	slices.SortFunc(keys, func(a, b variableKey) int { return cmp.Compare(a.stored(), b.stored()) })
	for _, key := range keys {
		row := t.variables.get(key)
		if row == nil || row.Held == nil || row.heldAt(t.now) != nil {
			continue
		}
		t.unlock(row)
		t.cp.logger.Info("a lock of a variable is free again: its holder has not renewed it",
			"namespace", key.namespace, "path", key.path, "ttl", row.Held.TTL, "delay", row.Held.Delay)
	}
}

// lockConflict is the variable that somebody may not change who shows a lock's ID, or none: it is
// told nothing of. A lock that is shown and is not there any more is errdefs.AlreadyExists.
func (t *tx) lockConflict(key variableKey, id string) (*variableRow, error) {
	held := t.variables.get(key).heldAt(t.now)
	switch {
	case held == nil && id != "":
		return nil, errNotLocked
	case held != nil && held.ID != id:
		return emptyRow(key), nil
	}
	return nil, nil
}

// emptyRow is of a variable that is not there, or of which nothing is told.
func emptyRow(key variableKey) *variableRow {
	return &variableRow{VariableMetadata: nomad.VariableMetadata{Namespace: key.namespace, Path: key.path}}
}
