package httpapi

import (
	"cmp"
	"net/http"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/httpapi/access"
)

// lockChange is one of the operations of locks.
type lockChange func(h *handler, w http.ResponseWriter, r *http.Request, v *nomad.Variable) error

var lockChanges = map[string]lockChange{
	"lock-acquire": (*handler).acquireLock,
	"lock-renew":   (*handler).renewLock,
	"lock-release": (*handler).releaseLock,
}

// lockOperation is the one that a request names; nil: none.
func lockOperation(r *http.Request) (lockChange, error) {
	var found lockChange
	query := r.URL.Query()
	for name, change := range lockChanges {
		if _, given := query[name]; !given {
			continue
		}
		if found != nil {
			return nil, badRequest("multiple lock operations")
		}
		found = change
	}
	if found != nil && query.Get("cas") != "" {
		return nil, badRequest("CAS can't be used with lock operations")
	}
	return found, nil
}

// changeLock does an operation of locks on the variable of a path.
func (h *handler) changeLock(w http.ResponseWriter, r *http.Request, path string, change lockChange) error {
	var v nomad.Variable
	if err := decode(r, &v); err != nil {
		return err
	}
	v.Path, v.Namespace = path, cmp.Or(v.Namespace, namespaceOf(r))
	if !callerOf(r).mayVariable(v.Namespace, path, "write") {
		return access.ErrDenied
	}
	return change(h, w, r, &v)
}

func (h *handler) acquireLock(w http.ResponseWriter, r *http.Request, v *nomad.Variable) error {
	locked, conflict, err := h.ControlPlane.AcquireVariableLock(v)
	switch {
	case err != nil:
		return err
	case conflict != nil:
		return h.answerConflict(w, r, conflict)
	}
	return h.answerVariable(w, r, readable(r, locked), locked.ModifyIndex, http.StatusOK)
}

func (h *handler) renewLock(w http.ResponseWriter, r *http.Request, v *nomad.Variable) error {
	renewed, err := h.ControlPlane.RenewVariableLock(v.Namespace, v.Path, v.LockID())
	if err != nil {
		return err
	}
	return h.answerVariable(w, r, renewed, renewed.ModifyIndex, http.StatusOK)
}

// releaseLock answers what is no secret of the variable, as Nomad does.
func (h *handler) releaseLock(w http.ResponseWriter, r *http.Request, v *nomad.Variable) error {
	if v.LockID() != "" && v.Items != nil {
		return badRequest("lock release operation doesn't take variable items")
	}
	released, conflict, err := h.ControlPlane.ReleaseVariableLock(v.Namespace, v.Path, v.LockID())
	status := http.StatusOK
	if conflict != nil {
		released, status = conflict, http.StatusConflict
	}
	if err != nil {
		return err
	}
	return h.answerVariable(w, r, withoutItems(released), released.ModifyIndex, status)
}

// withoutItems is a variable of which only what is no secret is told.
func withoutItems(m *nomad.VariableMetadata) *nomad.Variable {
	return &nomad.Variable{
		Namespace: m.Namespace, Path: m.Path, Lock: m.Lock,
		CreateIndex: m.CreateIndex, CreateTime: m.CreateTime, ModifyIndex: m.ModifyIndex, ModifyTime: m.ModifyTime,
	}
}
