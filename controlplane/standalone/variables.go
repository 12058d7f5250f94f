package standalone

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/structs/errdefs"
)

// The bounds of variables. Those of one are Nomad's. All of them are in memory, sealed.
const (
	maxVariableSize   = 64 << 10 // of its items' keys and values, in bytes
	maxVariables      = 100_000
	maxVariablesBytes = 64 << 20 // sealed, together: half of what the file may have by default
)

// maxSeals is how often a variable is sealed, while the root key is rotated again and again.
const maxSeals = 10

var variablePath = regexp.MustCompile(`^[a-zA-Z0-9-_~/]{1,128}$`)

// variableKey names a variable.
type variableKey struct{ namespace, path string }

func (k variableKey) stored() string { return k.namespace + "\x00" + k.path }

func (k variableKey) compare(other variableKey) int {
	return cmp.Or(strings.Compare(k.namespace, other.namespace), strings.Compare(k.path, other.path))
}

// variableRow is a variable. What is not sealed is no secret: its path, and when it changed.
type variableRow struct {
	nomad.VariableMetadata
	Key    string        // the ID of the root key
	Sealed []byte        // its items as JSON
	Held   *variableLock `json:",omitempty"` // instead of the Lock of what is told
}

func (r *variableRow) key() variableKey { return variableKey{r.Namespace, r.Path} }

// about is what a sealed variable is bound to: one that is moved to another's place cannot be
// opened there.
func (k variableKey) about() []byte { return []byte("variable\x00" + k.stored()) }

// VariablesFrom returns what is no secret of up to n variables, in the order of their namespaces
// and of their paths in these: those at and after a place, or, backwards, those at and before it,
// the last first. There need not be a variable at the place.
func (cp *ControlPlane) VariablesFrom(namespace, path string, backwards bool, n int) []*nomad.VariableMetadata {
	place := variableKey{namespace, path}
	return read(cp, func(t *tables) []*nomad.VariableMetadata {
		rows := t.variablesByPath.from(func(row *variableRow) int { return row.key().compare(place) }, backwards, n)
		list := make([]*nomad.VariableMetadata, len(rows))
		for i, row := range rows {
			list[i] = row.metadata()
		}
		return list
	})
}

// Variable returns a variable; nil: there is none. One whose root key cannot be read is an
// errdefs.FailedPrecondition that says what to do.
func (cp *ControlPlane) Variable(namespace, path string) (*nomad.Variable, error) {
	find := func() *variableRow {
		return read(cp, func(t *tables) *variableRow { return t.variables[variableKey{namespace, path}] })
	}
	for row := find(); ; {
		v, err := cp.unsealed(row)
		again := find()
		if err == nil || again == row {
			return v, err
		}
		row = again // it was sealed with another key meanwhile, and its own is gone
	}
}

// PutVariable makes a variable, or takes its place. With check, nothing is changed, and the
// present one is the conflict, unless its ModifyIndex is *check; one that is not there has 0.
// Times and indexes of v do not count. One that is locked is a conflict of which nothing is told,
// unless v shows the lock's ID; an ID of no lock is errdefs.AlreadyExists. What v cannot be is
// errdefs.InvalidArgument.
func (cp *ControlPlane) PutVariable(v *nomad.Variable, check *uint64) (put, conflict *nomad.Variable, err error) {
	if v.Lock != nil && (v.Lock.TTL != "" || v.Lock.LockDelay != "") {
		return nil, nil, invalid("variable should not contain lock definition")
	}
	if err := variableFault(v, false); err != nil {
		return nil, nil, err
	}
	return cp.sealAndPut(v, func(t *tx, row *variableRow) (conflict *variableRow, err error) {
		if conflict = t.variableConflict(row.key(), check); conflict != nil {
			return conflict, nil
		}
		if conflict, err = t.lockConflict(row.key(), v.LockID()); conflict != nil || err != nil {
			return conflict, err
		}
		if old := t.variables.get(row.key()); old.heldAt(t.now) != nil {
			row.Held = old.Held
		}
		return nil, t.putVariable(row)
	})
}

// sealAndPut seals a variable and has it put, or a conflict found, again while the root key is
// rotated.
func (cp *ControlPlane) sealAndPut(v *nomad.Variable, do func(*tx, *variableRow) (conflict *variableRow, err error)) (put, conflict *nomad.Variable, err error) {
	for range maxSeals {
		put, conflict, err = cp.sealAndPutOnce(v, do)
		if !errors.Is(err, errRotated) {
			return put, conflict, err
		}
	}
	return nil, nil, errdefs.New(errdefs.FailedPrecondition, "the root key is rotated all the time: variable %q is not written", v.Path)
}

// errRotated means that a variable was sealed with a key that is not the active one any more.
var errRotated = errors.New("the root key was rotated")

// sealAndPutOnce seals a variable before it is the writer's turn, which is then short.
func (cp *ControlPlane) sealAndPutOnce(v *nomad.Variable, do func(*tx, *variableRow) (conflict *variableRow, err error)) (put, conflict *nomad.Variable, err error) {
	active, err := cp.activeRootKey()
	if err != nil {
		return nil, nil, err
	}
	text, err := json.Marshal(v.Items)
	if err != nil {
		return nil, nil, err
	}
	row := &variableRow{VariableMetadata: nomad.VariableMetadata{Namespace: v.Namespace, Path: v.Path}, Key: active}
	if row.Sealed, err = cp.ring.Seal(active, text, row.key().about()); err != nil {
		if now, _ := cp.rootKeyStates(); now != active {
			err = errRotated
		}
		return nil, nil, unreadableKey(err)
	}
	var other *variableRow
	err = cp.write(func(t *tx) error {
		if t.namespace(v.Namespace) == nil {
			return invalid("variable %q is in nonexistent namespace %q", v.Path, v.Namespace)
		}
		if k := t.rootKeys.get(active); k == nil || k.State != nomad.RootKeyStateActive {
			return errRotated
		}
		var err error
		other, err = do(t, row)
		return err
	})
	if err != nil || other != nil {
		return nil, cp.conflictWith(other), err
	}
	if len(v.Items) == 0 { // those that there were stay
		put, err = cp.unsealed(row)
		return put, nil, err
	}
	return row.variable(v.Items), nil, nil
}

// DeleteVariable deletes a variable. A check is that of [ControlPlane.PutVariable]. One that is
// not there is deleted already; one that is locked is a conflict of which nothing is told.
func (cp *ControlPlane) DeleteVariable(namespace, path string, check *uint64) (conflict *nomad.Variable, err error) {
	key := variableKey{namespace, path}
	var other *variableRow
	err = cp.write(func(t *tx) error {
		if other = t.variableConflict(key, check); other != nil {
			return nil
		}
		if other, _ = t.lockConflict(key, ""); other != nil {
			return nil
		}
		if t.variables.get(key) != nil {
			t.touched[TableVariables] = t.at()
			t.variables.delete(key)
		}
		return nil
	})
	return cp.conflictWith(other), err
}

// variableConflict is the variable that a check is not true of; nil: none.
func (t *tx) variableConflict(key variableKey, check *uint64) *variableRow {
	v := t.variables.get(key)
	switch {
	case check == nil:
		return nil
	case v == nil && *check == 0, v != nil && v.ModifyIndex == *check:
		return nil
	case v == nil:
		return emptyRow(key)
	}
	return v
}

// conflictWith is a variable as it is told to who expected another: without its items when
// there are none, or when they cannot be read.
func (cp *ControlPlane) conflictWith(row *variableRow) *nomad.Variable {
	if row == nil || row.Key == "" {
		return row.variable(nil)
	}
	v, err := cp.unsealed(row)
	if err != nil {
		return row.variable(nil)
	}
	return v
}

func (t *tx) putVariable(row *variableRow) error {
	old := t.variables.get(row.key())
	if old == nil && t.variableSizes.count >= maxVariables {
		return errdefs.New(errdefs.FailedPrecondition, "there are %d variables, as many as there can be: purge some", maxVariables)
	}
	bytes := t.variableSizes.bytes + len(row.Sealed)
	if old != nil {
		bytes -= len(old.Sealed)
	}
	if bytes > maxVariablesBytes {
		return errdefs.New(errdefs.FailedPrecondition, "the variables would have %d bytes, at most %d are possible together: purge some", bytes, maxVariablesBytes)
	}
	t.touched[TableVariables] = t.at()
	row.CreateIndex, row.CreateTime = t.at(), t.now.UnixNano()
	row.ModifyIndex, row.ModifyTime = t.at(), t.now.UnixNano()
	if old != nil {
		row.CreateIndex, row.CreateTime = old.CreateIndex, old.CreateTime
	}
	t.variables.put(row.key(), row)
	return nil
}

// variable is a row with its items; nil of nil.
func (r *variableRow) variable(items nomad.VariableItems) *nomad.Variable {
	if r == nil {
		return nil
	}
	return &nomad.Variable{
		Namespace: r.Namespace, Path: r.Path, Items: items, Lock: r.Held.told(),
		CreateIndex: r.CreateIndex, CreateTime: r.CreateTime, ModifyIndex: r.ModifyIndex, ModifyTime: r.ModifyTime,
	}
}

// unsealed is a stored variable with its items; nil of nil.
func (cp *ControlPlane) unsealed(row *variableRow) (*nomad.Variable, error) {
	if row == nil {
		return nil, nil
	}
	text, err := cp.ring.Open(row.Key, row.Sealed, row.key().about())
	if err != nil {
		return nil, fmt.Errorf("variable %q: %w", row.Path, unreadableKey(err))
	}
	var items nomad.VariableItems
	if err := json.Unmarshal(text, &items); err != nil {
		return nil, fmt.Errorf("variable %q: its items are not as they were written", row.Path)
	}
	return row.variable(items), nil
}

// variableFault is why there can be no such variable, which may be empty where it is one for a
// lock; nil: there can. The texts are Nomad's.
func variableFault(v *nomad.Variable, forLock bool) error {
	size := 0
	for key, value := range v.Items {
		size += len(key) + len(value)
	}
	switch {
	case v.Namespace == "*":
		return invalid(`can not target wildcard ("*")namespace`)
	case len(v.Items) == 0 && !forLock:
		return invalid("empty variables are invalid")
	case size > maxVariableSize:
		return invalid("variables are limited to 64KiB in total size")
	}
	return variablePathFault(v.Path)
}

// variablePathFault is why nothing can be at a path; nil: it can. What is below "nomad" is for
// Nomad's own purposes.
func variablePathFault(path string) error {
	if path == "" {
		return invalid("variable requires path")
	}
	if !variablePath.MatchString(path) {
		return invalid("invalid path %q", path)
	}
	parts := strings.Split(path, "/")
	switch {
	case parts[0] != "nomad":
		return nil
	case len(parts) == 1:
		return invalid(`"nomad" is a reserved top-level directory path, but you may write variables to "nomad/jobs", "nomad/job-templates", or below`)
	case parts[1] == "jobs", parts[1] == "job-templates" && len(parts) == 3:
		return nil
	case parts[1] == "job-templates":
		return invalid(`"nomad/job-templates" is a reserved directory path, but you may write variables at the level below it, for example, "nomad/job-templates/template-name"`)
	}
	return invalid(`only paths at "nomad/jobs" or "nomad/job-templates" and below are valid paths under the top-level "nomad" directory`)
}

// loadVariable takes a stored variable.
func (cp *ControlPlane) loadVariable(key string, r *variableRow) error {
	if err := sameID(key, r.key().stored()); err != nil {
		return err
	}
	if r.Key == "" || len(r.Sealed) == 0 || r.Lock != nil {
		return errIncomplete
	}
	cp.data.variables[r.key()] = r
	cp.sawIndex(r.ModifyIndex)
	return nil
}

// variableSizes is how many variables there are, and how large they are together. A
// transaction's own includes what it changes.
type variableSizes struct{ count, bytes int }

func (s *variableSizes) add(row *variableRow, in bool) {
	if in {
		s.count++
		s.bytes += len(row.Sealed)
		return
	}
	s.count--
	s.bytes -= len(row.Sealed)
}

// sizedVariables keeps both, as an index.
type sizedVariables struct{ own, base *variableSizes }

func (x sizedVariables) staged(_ variableKey, row *variableRow, in bool)    { x.own.add(row, in) }
func (x sizedVariables) committed(_ variableKey, row *variableRow, in bool) { x.base.add(row, in) }

// sealedWith are the variables that were sealed with a key, sorted.
func (t *tables) sealedWith(fits func(key string) bool) (keys []variableKey) {
	for key, v := range t.variables {
		if fits(v.Key) {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, variableKey.compare)
	return keys
}
