package httpapi

import (
	"cmp"
	"iter"
	"net/http"
	"strconv"
	"strings"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/httpapi/access"
)

const variablePattern = "/v1/var/{path...}"

func (h *handler) variableRoutes() {
	h.get("/v1/vars", tableVariables, h.listVariables)
	h.get(variablePattern, tableVariables, h.readVariable)
	h.method(variablePattern, h.putVariable, http.MethodPut, http.MethodPost)
	h.method(variablePattern, h.deleteVariable, http.MethodDelete)
}

// listVariables lists what is no secret of the variables. The UI's parameter "path" is another
// word for the prefix.
func (h *handler) listVariables(r *http.Request, q *query) (answer, error) {
	below := r.URL.Query().Get("path")
	listed := func(yield func(*nomad.VariableMetadata) bool) {
		for v := range h.variablesFrom(q) {
			if !strings.HasPrefix(v.Path, q.prefix) || !strings.HasPrefix(v.Path, below) || !q.caller.mayVariable(v.Namespace, v.Path, "list") {
				continue
			}
			if v.Lock != nil && !q.caller.readsLocks() {
				told := *v
				told.Lock = nil // who has its ID may write; a filter must not find it out either
				v = &told
			}
			if !yield(v) {
				return
			}
		}
	}
	same := func(v *nomad.VariableMetadata) *nomad.VariableMetadata { return v }
	found, next, err := fill(q, listed,
		func(v *nomad.VariableMetadata) string { return v.Namespace + "." + v.Path },
		func(v *nomad.VariableMetadata) any { return v }, same)
	return answer{body: found, next: next}, err
}

// variablesAtOnce is how many variables are read at once for a page: about as many as one has.
const variablesAtOnce = 128

// variablesFrom are the variables from where the page of a query begins, in its order, and up to
// the last that there can be on one. They are read some at a time, so that nothing waits for
// whoever goes through them: one that changes meanwhile is there as it was, or as it is.
func (h *handler) variablesFrom(q *query) iter.Seq[*nomad.VariableMetadata] {
	return func(yield func(*nomad.VariableMetadata) bool) {
		at, last := q.variablePlaces()
		for begun := false; ; begun = true {
			some := h.ControlPlane.VariablesFrom(at.namespace, at.path, q.reverse, variablesAtOnce)
			more := len(some) == variablesAtOnce
			if begun && len(some) > 0 && placeOf(some[0]) == at {
				some = some[1:] // it was the last one of those before
			}
			for _, v := range some {
				at = placeOf(v)
				if past := at.compare(last); past > 0 && !q.reverse || past < 0 && q.reverse || !yield(v) {
					return
				}
			}
			if !more {
				return
			}
		}
	}
}

// variablePlace is where a variable is in the order of all.
type variablePlace struct{ namespace, path string }

func placeOf(v *nomad.VariableMetadata) variablePlace { return variablePlace{v.Namespace, v.Path} }

func (p variablePlace) compare(other variablePlace) int {
	return cmp.Or(cmp.Compare(p.namespace, other.namespace), cmp.Compare(p.path, other.path))
}

// variablePlaces are the places of the first and of the last variable that can be on a page: no
// name of a namespace or a path has a byte that is after those of ASCII.
func (q *query) variablePlaces() (first, last variablePlace) {
	const after = "\x7f"
	first, last = variablePlace{q.namespace, q.prefix}, variablePlace{q.namespace, q.prefix + after}
	if q.namespace == "*" {
		first, last = variablePlace{}, variablePlace{namespace: after}
	}
	if q.reverse {
		first, last = last, first
	}
	if q.nextToken == "" {
		return first, last
	}
	var token variablePlace
	token.namespace, token.path, _ = strings.Cut(q.nextToken, ".")
	if (token.compare(first) < 0) == q.reverse {
		first = token
	}
	return first, last
}

func (h *handler) readVariable(r *http.Request, q *query) (answer, error) {
	path, err := variablePath(r)
	if err != nil {
		return answer{}, err
	}
	if !q.caller.mayVariable(q.namespace, path, "read") {
		return answer{}, access.ErrDenied
	}
	v, err := h.ControlPlane.Variable(q.namespace, path)
	if err != nil {
		return answer{}, err
	}
	if v == nil {
		return answer{}, notFound("variable not found")
	}
	if v.Lock != nil && !q.caller.readsLocks() {
		told := *v
		told.Lock = nil // as in a list
		v = &told
	}
	return answer{body: v, index: v.ModifyIndex}, nil
}

// variablePath is the path of a request's variable.
func variablePath(r *http.Request) (string, error) {
	path := r.PathValue("path")
	if path == "" {
		return "", badRequest("missing variable path")
	}
	return path, nil
}

func (h *handler) putVariable(w http.ResponseWriter, r *http.Request) error {
	path, err := variablePath(r)
	if err != nil {
		return err
	}
	lock, err := lockOperation(r)
	if err != nil {
		return err
	}
	if lock != nil {
		return h.changeLock(w, r, path, lock)
	}
	check, err := casOf(r)
	if err != nil {
		return err
	}
	var v nomad.Variable
	if err := decode(r, &v); err != nil {
		return err
	}
	if len(v.Items) == 0 {
		return badRequest("variable missing required Items object")
	}
	v.Path, v.Namespace = path, cmp.Or(v.Namespace, namespaceOf(r))
	if !callerOf(r).mayVariable(v.Namespace, path, "write") {
		return access.ErrDenied
	}
	put, conflict, err := h.ControlPlane.PutVariable(&v, check)
	if err != nil {
		return err
	}
	if conflict != nil {
		return h.answerConflict(w, r, conflict)
	}
	w.Header().Set("X-Nomad-Index", strconv.FormatUint(put.ModifyIndex, 10))
	return h.reply(w, r, put)
}

func (h *handler) deleteVariable(w http.ResponseWriter, r *http.Request) error {
	path, err := variablePath(r)
	if err != nil {
		return err
	}
	check, err := casOf(r)
	if err != nil {
		return err
	}
	conflict, err := h.ControlPlane.DeleteVariable(namespaceOf(r), path, check)
	if err != nil {
		return err
	}
	if conflict != nil {
		return h.answerConflict(w, r, conflict)
	}
	w.Header().Set("X-Nomad-Index", strconv.FormatUint(h.ControlPlane.Index(tableVariables), 10))
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// readable is a variable, without its items for who may not read them.
func readable(r *http.Request, v *nomad.Variable) *nomad.Variable {
	if callerOf(r).mayVariable(v.Namespace, v.Path, "read") {
		return v
	}
	hidden := *v
	hidden.Items = nil
	return &hidden
}

// answerConflict tells who expected another variable which there is.
func (h *handler) answerConflict(w http.ResponseWriter, r *http.Request, v *nomad.Variable) error {
	if !callerOf(r).readsLocks() {
		v.Lock = nil
	}
	return h.answerVariable(w, r, readable(r, v), v.ModifyIndex, http.StatusConflict)
}

// answerVariable tells of a variable that a write was about.
func (h *handler) answerVariable(w http.ResponseWriter, r *http.Request, v any, index uint64, status int) error {
	out, err := encode(r, v)
	if err != nil {
		return err
	}
	out.status = status
	w.Header().Set("X-Nomad-Index", strconv.FormatUint(index, 10))
	return h.send(w, out)
}

// casOf is the index that a write expects; nil: any.
func casOf(r *http.Request) (*uint64, error) {
	text := r.URL.Query().Get("cas")
	if text == "" {
		return nil, nil
	}
	index, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return nil, badRequest("can not parse cas: %v", err)
	}
	return &index, nil
}
