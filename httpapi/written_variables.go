package httpapi

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	nomad "github.com/hashicorp/nomad/api"
)

// serversVariable is a variable as servers take it and tell of it, with or without its items. In the
// answers of the API it is as Nomad has it.
type serversVariable struct {
	Namespace, Path          string
	CreateIndex, ModifyIndex uint64
	CreateTime, ModifyTime   int64
	Lock                     *serversLock
	Items                    nomad.VariableItems
}

// serversLock has durations where Nomad's API has texts.
type serversLock struct {
	ID             string
	TTL, LockDelay time.Duration
}

// MarshalJSON implements [json.Marshaler].
func (v *serversVariable) MarshalJSON() ([]byte, error) {
	m := nomad.VariableMetadata{
		Namespace: v.Namespace, Path: v.Path, CreateIndex: v.CreateIndex, ModifyIndex: v.ModifyIndex, CreateTime: v.CreateTime, ModifyTime: v.ModifyTime,
	}
	if l := v.Lock; l != nil {
		m.Lock = &nomad.VariableLock{ID: l.ID, TTL: l.TTL.String(), LockDelay: l.LockDelay.String()}
	}
	if v.Items == nil {
		return json.Marshal(m)
	}
	return json.Marshal(struct {
		nomad.VariableMetadata
		Items nomad.VariableItems
	}{m, v.Items})
}

// variableChanged is what servers answer for a change of a variable.
type variableChanged struct {
	Conflict, Output *serversVariable
}

// putsVariable passes on a variable that is to be written, or what is to be done with its lock.
func putsVariable(h *handler, w http.ResponseWriter, r *http.Request) error {
	if _, err := variablePath(r); err != nil {
		return err
	}
	if _, err := lockOperation(r); err != nil {
		return err
	}
	if r.URL.Query().Has("lock-renew") {
		return inField[*serversVariable]("Variables.RenewLock", "VarMeta", renewed, asIs)(h, w, r)
	}
	return applied(h, w, r, proposedVariable)
}

func deletesVariable(h *handler, w http.ResponseWriter, r *http.Request) error {
	path, err := variablePath(r)
	if err != nil {
		return err
	}
	return applied(h, w, r, func(r *http.Request) (map[string]any, error) {
		return operation(r, "delete", &serversVariable{Path: path})
	})
}

// operation is what is to be done with a variable: only where it is as the request expects, if it
// says so.
func operation(r *http.Request, what string, v *serversVariable) (map[string]any, error) {
	check, err := casOf(r)
	if err != nil {
		return nil, err
	}
	if check != nil {
		v.ModifyIndex = *check
		what = map[string]string{"set": "cas", "delete": "delete-cas"}[what]
	}
	return map[string]any{"Op": what, "Var": v}, nil
}

// proposedVariable is what is to be written, or locked, or let go of.
func proposedVariable(r *http.Request) (map[string]any, error) {
	v, err := sentVariable(r)
	if err != nil {
		return nil, err
	}
	for _, what := range []string{"lock-acquire", "lock-release"} {
		if r.URL.Query().Has(what) {
			return map[string]any{"Op": what, "Var": v}, nil
		}
	}
	if len(v.Items) == 0 {
		return nil, badRequest("variable missing required Items object")
	}
	return operation(r, "set", v)
}

func renewed(r *http.Request) (map[string]any, error) {
	v, err := sentVariable(r)
	if err != nil {
		return nil, err
	}
	all := map[string]any{"Path": v.Path}
	if v.Lock != nil {
		all["LockID"] = v.Lock.ID
	}
	return all, nil
}

// sentVariable is the variable of a request's body, at the path that it names; servers put it into the
// namespace of the question.
func sentVariable(r *http.Request) (*serversVariable, error) {
	var body nomad.Variable
	if err := decode(r, &body); err != nil {
		return nil, err
	}
	v := &serversVariable{Path: r.PathValue("path"), Items: body.Items}
	if l := body.Lock; l != nil {
		ttl, wrong := duration(l.TTL)
		delay, err := duration(l.LockDelay)
		if err = errors.Join(wrong, err); err != nil {
			return nil, badRequest("lock: %v", err)
		}
		v.Lock = &serversLock{l.ID, ttl, delay}
	}
	return v, nil
}

// duration is that of a text; of none it is 0.
func duration(text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	return time.ParseDuration(text)
}

// applied passes on a change of a variable. Where another one is there than the request expects,
// that is answered.
func applied(h *handler, w http.ResponseWriter, r *http.Request, args arguments) error {
	err := passOn("Variables.Apply", args, func(decode func(any) error) (any, told, error) {
		out, t, err := answerOf[variableChanged](decode)
		if err != nil {
			return nil, t, err
		}
		switch {
		case out.Conflict != nil:
			t.Index = out.Conflict.ModifyIndex
			return withStatus{out.Conflict, http.StatusConflict}, t, nil
		case r.Method == http.MethodDelete:
			return withStatus{status: http.StatusNoContent}, t, nil
		}
		return out.Output, t, nil
	})(h, w, r)
	var se *statusError
	if errors.As(err, &se) && strings.Contains(se.text, "cas error:") {
		return &statusError{http.StatusConflict, se.text}
	}
	return err
}
