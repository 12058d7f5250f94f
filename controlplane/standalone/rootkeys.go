package standalone

import (
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"
	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/controlplane/standalone/keyring"
	"github.com/wasmnode/wasmnode/internal/failpoint"
	"github.com/wasmnode/wasmnode/structs/errdefs"
)

// resealedAtOnce is how many variables get a new key in one transaction: some megabytes at most,
// so that other writers do not wait for long.
const resealedAtOnce = 64

// maxRootKeys bounds what is kept of keys that are not used any more.
const maxRootKeys = 100

// RootKeys returns what is known of the keys that variables are sealed with, in no order. There
// is none before there was a variable.
func (cp *ControlPlane) RootKeys() []*nomad.RootKeyMeta {
	return read(cp, func(t *tables) (list []*nomad.RootKeyMeta) {
		for _, k := range t.rootKeys {
			list = append(list, k)
		}
		return list
	})
}

// RotateRootKey has what is written from now on sealed with a new key. With full, what is there
// is sealed with it anew, before RotateRootKey returns, or, where that ends before its time, when
// the control plane is opened next. Indexes of variables stay what they are.
func (cp *ControlPlane) RotateRootKey(full bool) (*nomad.RootKeyMeta, error) {
	cp.rotating.Lock()
	defer cp.rotating.Unlock()
	id, err := cp.newRootKey(full)
	if err != nil {
		return nil, err
	}
	if full {
		if err := cp.resealVariables(); err != nil {
			return nil, fmt.Errorf("the new root key is in use, and not all variables are sealed with it yet: the next start goes on: %w", err)
		}
	}
	return read(cp, func(t *tables) *nomad.RootKeyMeta { return t.rootKeys[id] }), nil
}

// newRootKey makes a key the active one. Its file is there before anything tells of it: one that
// nothing tells of harms nobody, and one that is missing would.
func (cp *ControlPlane) newRootKey(full bool) (id string, err error) {
	id = uuid.NewString()
	if err := cp.ring.Add(id); err != nil {
		return "", err
	}
	failpoint.Here("rootkey.added")
	err = cp.write(func(t *tx) error {
		if len(t.cp.data.rootKeys) >= maxRootKeys {
			return errdefs.New(errdefs.FailedPrecondition, "there are %d root keys, as many as there can be: remove some with \"operator root keyring remove\"", maxRootKeys)
		}
		t.rootKeys.all(func(_ string, k *nomad.RootKeyMeta) {
			switch {
			case full && k.State != nomad.RootKeyStateRekeying:
				t.putRootKey(k, nomad.RootKeyStateRekeying)
			case k.State == nomad.RootKeyStateActive:
				t.putRootKey(k, nomad.RootKeyStateInactive)
			}
		})
		t.putRootKey(&nomad.RootKeyMeta{
			KeyID: id, Algorithm: nomad.EncryptionAlgorithmAES256GCM, CreateTime: t.now.UnixNano(),
		}, nomad.RootKeyStateActive)
		return nil
	})
	if err != nil {
		return "", errors.Join(err, cp.ring.Remove(id)) // nothing was sealed with it
	}
	return id, nil
}

// putRootKey stores a key in another state.
func (t *tx) putRootKey(k *nomad.RootKeyMeta, state nomad.RootKeyState) {
	t.touched[TableRootKeys] = t.at()
	c := *k
	c.State, c.ModifyIndex = state, t.at()
	if c.CreateIndex == 0 {
		c.CreateIndex = c.ModifyIndex
	}
	t.rootKeys.put(c.KeyID, &c)
}

// resealVariables seals what is sealed with a key that is to be done without, with the active
// one, and then has it done without. What cannot be opened stays as it is. Its caller holds
// rotating.
func (cp *ControlPlane) resealVariables() error {
	active, leaving := cp.rootKeyStates()
	if active == "" || len(leaving) == 0 {
		return nil
	}
	left := 0
	todo := read(cp, func(t *tables) []variableKey {
		return t.sealedWith(func(key string) bool { return slices.Contains(leaving, key) })
	})
	for some := range slices.Chunk(todo, resealedAtOnce) {
		err := cp.write(func(t *tx) error {
			failed, err := t.reseal(some, active)
			left += failed
			return err
		})
		if err != nil {
			return err
		}
		failpoint.Here("rootkey.resealed")
	}
	if left > 0 {
		cp.logger.Error("variables could not be opened, and stay sealed with an old root key", "count", left)
	}
	return cp.write(func(t *tx) error {
		for _, id := range leaving {
			if k := t.rootKeys.get(id); k != nil {
				t.putRootKey(k, nomad.RootKeyStateInactive)
			}
		}
		return nil
	})
}

// reseal seals variables with another key, and returns of how many it could not. Their contents
// are the same, so that nobody is told.
func (t *tx) reseal(keys []variableKey, active string) (failed int, err error) {
	var rows []*variableRow
	for _, key := range keys {
		row := t.variables.get(key)
		if row == nil || row.Key == active {
			continue // it was changed meanwhile
		}
		text, err := t.cp.ring.Open(row.Key, row.Sealed, key.about())
		if err != nil {
			failed++
			continue
		}
		c := *row
		c.Key = active
		if c.Sealed, err = t.cp.ring.Seal(active, text, key.about()); err != nil {
			return 0, unreadableKey(err)
		}
		rows = append(rows, &c)
	}
	for _, row := range rows {
		t.touched[TableRootKeys] = t.at()
		t.variables.put(row.key(), row)
	}
	return failed, nil
}

// rootKeyStates are the key that is used, "" before there is one, and those that are to be done
// without.
func (cp *ControlPlane) rootKeyStates() (active string, leaving []string) {
	for _, k := range cp.RootKeys() {
		switch k.State {
		case nomad.RootKeyStateActive:
			active = k.KeyID
		case nomad.RootKeyStateRekeying:
			leaving = append(leaving, k.KeyID)
		}
	}
	return active, leaving
}

// activeRootKey is the key to seal with, which is made when there is none.
func (cp *ControlPlane) activeRootKey() (string, error) {
	if active, _ := cp.rootKeyStates(); active != "" {
		return active, nil
	}
	cp.rotating.Lock()
	defer cp.rotating.Unlock()
	if active, _ := cp.rootKeyStates(); active != "" {
		return active, nil // another made it
	}
	return cp.newRootKey(false)
}

// DeleteRootKey removes a key and its files for good. The active one stays, and so does, unless
// force, one that variables are sealed with, which can never be read again, or that a token of a
// task may be signed with, which nobody takes any more. A file that a removal before has left is
// removed; where there is none either, the error is one of what is not found.
func (cp *ControlPlane) DeleteRootKey(id string, force bool) error {
	cp.rotating.Lock()
	defer cp.rotating.Unlock()
	signer, err := cp.ring.PublicKey(id)
	signs := signer != nil || err != nil
	err = cp.write(func(t *tx) error {
		k := t.rootKeys.get(id)
		if k != nil && k.State == nomad.RootKeyStateActive {
			return invalid("active root key cannot be deleted - call rotate first")
		}
		inUse := len(t.cp.data.sealedWith(func(key string) bool { return key == id })) > 0 || signs && k != nil && t.cp.data.signsFor(k)
		if !force && inUse {
			return invalid("root key in use, cannot delete")
		}
		if k == nil {
			return notFound("root key not found")
		}
		t.touched[TableRootKeys] = t.at()
		t.rootKeys.delete(id)
		return nil
	})
	if errdefs.ClassOf(err) == errdefs.NotFound {
		if !cp.ring.Has(id) {
			return err
		}
		err = nil // a removal before ended between its record and its file
	}
	if err == nil {
		err = cp.forgetCopied() // the last good copy may have what is sealed with it
	}
	if err != nil {
		return err
	}
	return cp.ring.Remove(id)
}

// LostKeys says of each root key that cannot be read what that means, and what to do.
func (cp *ControlPlane) LostKeys() (texts []string) {
	for _, k := range cp.RootKeys() {
		err := cp.ring.Check(k.KeyID)
		if err == nil {
			continue
		}
		sealed := read(cp, func(t *tables) []variableKey {
			return t.sealedWith(func(key string) bool { return key == k.KeyID })
		})
		if len(sealed) > 0 || k.State == nomad.RootKeyStateActive {
			texts = append(texts, fmt.Sprintf("%v: %d variables are sealed with it: %s", err, len(sealed), regainKey))
		}
	}
	slices.Sort(texts)
	return texts
}

// regainKey is what to do about a root key that cannot be read.
const regainKey = `put its file back and restart the agent, or have a new key with "operator root keyring rotate -now" and write the variables again`

// unreadableKey has whoever meets a key that cannot be read know what to do.
func unreadableKey(err error) error {
	if lost := (*keyring.KeyError)(nil); errors.As(err, &lost) {
		return errdefs.New(errdefs.FailedPrecondition, "%v: %s", err, regainKey)
	}
	return err
}

// loadRootKey takes a stored root key.
func (cp *ControlPlane) loadRootKey(id string, k *nomad.RootKeyMeta) error {
	if err := sameID(id, k.KeyID); err != nil {
		return err
	}
	cp.data.rootKeys[id] = k
	cp.sawIndex(k.ModifyIndex)
	return nil
}

// resumeKeys goes on with a rotation that was not finished, and tells of keys that cannot be read.
func (cp *ControlPlane) resumeKeys() {
	for _, text := range cp.LostKeys() {
		cp.logger.Error(text)
	}
	cp.rotating.Lock()
	defer cp.rotating.Unlock()
	if err := cp.resealVariables(); err != nil {
		cp.logger.Error("sealing the variables with the new root key did not come to its end: the next start tries again", "error", err)
	}
}
