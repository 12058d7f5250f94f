package template

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"time"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/structs/errdefs"
)

// Variables has the variables that tasks read. What a task may not read is
// errdefs.PermissionDenied.
type Variables interface {
	// TaskVariable returns a variable; nil: there is none.
	TaskVariable(ctx context.Context, by structs.TaskIdentity, namespace, path string) (*nomad.Variable, error)
	// TaskVariableIndex returns its ModifyIndex; 0: there is none. It is asked once a second for
	// each variable that a template of a task that runs has.
	TaskVariableIndex(ctx context.Context, by structs.TaskIdentity, namespace, path string) (uint64, error)
	// TaskVariables returns what is no secret of those whose paths have a prefix and which the
	// task may list, by their paths.
	TaskVariables(ctx context.Context, by structs.TaskIdentity, namespace, prefix string) ([]*nomad.VariableMetadata, error)
	// TaskVariablesStamp is another one when that list is. It is asked once a second for each list
	// that a template of a task that runs has, and is cheap as long as no variable changes.
	TaskVariablesStamp(ctx context.Context, by structs.TaskIdentity, namespace, prefix string) (uint64, error)
}

// VariableItems are a variable's items as templates see them, with consul-template's names.
type VariableItems map[string]VariableItem

// VariableItem is one of them. It prints as its value.
type VariableItem struct {
	Key, Value string
	of         *Variable
}

// VariableTuple is a key with its value.
type VariableTuple struct{ K, V string }

// Variable is a variable as templates see it.
type Variable struct {
	Namespace, Path          string
	CreateIndex, ModifyIndex uint64
	CreateTime, ModifyTime   Nanoseconds
	Items                    VariableItems
}

// VariableMeta is what is no secret of a variable. It prints as the path.
type VariableMeta struct {
	Namespace, Path          string
	CreateIndex, ModifyIndex uint64
	CreateTime, ModifyTime   Nanoseconds
}

// Nanoseconds are a time, since the beginning of 1970. They print as that time.
type Nanoseconds int64

// String implements [fmt.Stringer].
func (n Nanoseconds) String() string { return n.Time().String() }

// Time is the time.
func (n Nanoseconds) Time() time.Time { return time.Unix(0, int64(n)) }

// Keys are sorted.
func (v VariableItems) Keys() []string { return slices.Sorted(maps.Keys(v)) }

// Values are sorted by their keys.
func (v VariableItems) Values() []string {
	out := make([]string, 0, len(v))
	for _, k := range v.Keys() {
		out = append(out, v[k].Value)
	}
	return out
}

// Tuples are sorted by their keys.
func (v VariableItems) Tuples() []VariableTuple {
	out := make([]VariableTuple, 0, len(v))
	for _, k := range v.Keys() {
		out = append(out, VariableTuple{k, v[k].Value})
	}
	return out
}

// ItemsMap is of the values alone.
func (v VariableItems) ItemsMap() map[string]any {
	out := make(map[string]any, len(v))
	for k, item := range v {
		out[k] = item.Value
	}
	return out
}

// Metadata is the variable's; nil: it has no items.
func (v VariableItems) Metadata() *VariableMeta { return v.Parent().Metadata() }

// Parent is the variable; nil: it has no items.
func (v VariableItems) Parent() *Variable {
	for _, item := range v {
		return item.of
	}
	return nil
}

// String implements [fmt.Stringer].
func (i VariableItem) String() string { return i.Value }

// MarshalJSON implements [json.Marshaler].
func (i VariableItem) MarshalJSON() ([]byte, error) { return json.Marshal(i.Value) }

// Metadata is the variable's; nil: there is no such item.
func (i VariableItem) Metadata() *VariableMeta { return i.of.Metadata() }

// Parent is the variable; nil: there is no such item.
func (i VariableItem) Parent() *Variable { return i.of }

// Metadata is what is no secret of it; nil of nil.
func (v *Variable) Metadata() *VariableMeta {
	if v == nil {
		return nil
	}
	return &VariableMeta{v.Namespace, v.Path, v.CreateIndex, v.ModifyIndex, v.CreateTime, v.ModifyTime}
}

// String implements [fmt.Stringer].
func (m VariableMeta) String() string { return m.Path }

// variableQuery is path[@namespace[.region]]; a list's path may be empty.
var variableQuery = regexp.MustCompile(`^/?([^@]*)(?:@([\w-]*)(?:\.([\w-]+))?)?$`)

// nomadVar returns the items of a variable. The template waits for one that there is not.
func (r *rendering) nomadVar(query string) (VariableItems, error) {
	v, l, err := r.variable(query)
	if err != nil || l.name == "" {
		return nil, err
	}
	if v == nil {
		r.misses("nomad.var.block", l)
		return nil, nil
	}
	return v.Items, nil
}

func (r *rendering) nomadVarExists(query string) (bool, error) {
	v, _, err := r.variable(query)
	return v != nil, err
}

func (r *rendering) nomadVarList(query ...string) ([]*VariableMeta, error) {
	list, _, err := r.variables(query)
	return list, err
}

// nomadVarListSafe is nomadVarList, and the template waits for one that there is not.
func (r *rendering) nomadVarListSafe(query ...string) ([]*VariableMeta, error) {
	list, l, err := r.variables(query)
	if err == nil && len(list) == 0 {
		r.misses("nomad.var.list", l)
	}
	return list, err
}

// misses notes what the rendering cannot do without.
func (r *rendering) misses(what string, l lookup) {
	name := r.masked(fmt.Sprintf("%s(%s@%s.%s)", what, l.name, l.namespace, r.region()))
	if !slices.Contains(r.missing, name) {
		r.missing = append(r.missing, name)
	}
}

// variable reads a variable; nil: there is none.
func (r *rendering) variable(query string) (*Variable, lookup, error) {
	query = strings.Trim(strings.TrimSpace(query), "/")
	l, err := r.variableLookup(variableLookup, query)
	if err != nil || l.name == "" {
		return nil, l, err
	}
	v, err := r.in.Variables.TaskVariable(r.ctx, r.in.Task, l.namespace, l.name)
	if err != nil {
		return nil, l, variableError(l, err)
	}
	if v == nil {
		r.found(l, variableStamp(0))
		return nil, l, r.spend(lookupSize)
	}
	r.found(l, variableStamp(v.ModifyIndex))
	size := lookupSize
	made := &Variable{
		Namespace: v.Namespace, Path: v.Path, CreateIndex: v.CreateIndex, ModifyIndex: v.ModifyIndex,
		CreateTime: Nanoseconds(v.CreateTime), ModifyTime: Nanoseconds(v.ModifyTime), Items: VariableItems{},
	}
	for key, value := range v.Items {
		made.Items[key] = VariableItem{key, value, made}
		r.secrets[value] = true
		size += len(key) + len(value) + itemSize
	}
	return made, l, r.spend(size)
}

// itemSize is about what an item takes besides its texts.
const itemSize = 64

// variables lists variables.
func (r *rendering) variables(query []string) ([]*VariableMeta, lookup, error) {
	if len(query) > 1 {
		return nil, lookup{}, fmt.Errorf("it takes one prefix of paths, or none: there are %d", len(query))
	}
	l, err := r.variableLookup(variablesLookup, strings.Join(query, ""))
	if err != nil {
		return nil, l, err
	}
	stamp, err := r.in.Variables.TaskVariablesStamp(r.ctx, r.in.Task, l.namespace, l.name)
	if err != nil {
		return nil, l, variableError(l, err)
	}
	r.found(l, variableStamp(stamp)) // before the list: what changes in between is seen next time
	list, err := r.in.Variables.TaskVariables(r.ctx, r.in.Task, l.namespace, l.name)
	if err != nil {
		return nil, l, variableError(l, err)
	}
	size := lookupSize
	out := make([]*VariableMeta, 0, len(list))
	for _, v := range list {
		out = append(out, &VariableMeta{v.Namespace, v.Path, v.CreateIndex, v.ModifyIndex, Nanoseconds(v.CreateTime), Nanoseconds(v.ModifyTime)})
		size += len(v.Namespace) + len(v.Path) + itemSize
	}
	return out, l, r.spend(size)
}

// maxVariablePath bounds a variable's path, as in Nomad.
const maxVariablePath = 128

func (r *rendering) variableLookup(kind, query string) (lookup, error) {
	if r.in.Variables == nil {
		return lookup{}, errors.New("no variables can be read here")
	}
	m := variableQuery.FindStringSubmatch(query)
	if m == nil {
		return lookup{}, fmt.Errorf("%.200q is not a variable's path, with its namespace: nomad/jobs/example@default", query)
	}
	if len(m[1]) > maxVariablePath {
		return lookup{}, fmt.Errorf("%.80q… is longer than a variable's path: at most %d bytes", m[1], maxVariablePath)
	}
	if strings.Trim(m[1], "/") == "" {
		m[1] = ""
	}
	return r.lookup(lookup{kind, m[2], m[1]}, m[3])
}

// variableError is why a variable cannot be read: what may be read later is like a file.
func variableError(l lookup, err error) error {
	if errors.Is(err, errdefs.PermissionDenied) {
		return &lookupError{err}
	}
	return &lookupError{&fileError{fmt.Sprintf("variable %q: %v", l.name, err)}}
}

// hidden is what is told of an error instead of what may have a variable's value in it.
const hidden = "it fails, and why is not shown: it may have a variable's value in it"

// withoutSecrets is an error of a template that has read variables: where it is, and why only if
// that is about what the template looks up.
func (r *rendering) withoutSecrets(err error) error {
	if len(r.secrets) == 0 {
		return err
	}
	said := hidden
	var exec template.ExecError
	if place, _, found := strings.Cut(err.Error(), ">: "); errors.As(err, &exec) && found {
		said = place + ">: " + hidden
	}
	var about *lookupError
	if errors.As(err, &about) {
		said = r.masked(about.Error())
	}
	if errors.Is(err, ErrFile) {
		return &fileError{said}
	}
	return errors.New(said)
}

const (
	// shortSecret is how long a value is at least that is masked in a text: what is shorter is in
	// too much.
	shortSecret = 4
	// maxMasked bounds how many are looked for.
	maxMasked = 1024
)

// masked is a text about a path or a name without the values of variables: a template may have
// made it of them.
func (r *rendering) masked(text string) string {
	if len(r.secrets) > maxMasked {
		return hidden
	}
	values := slices.SortedFunc(maps.Keys(r.secrets), func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	for _, value := range values {
		if len(value) >= shortSecret {
			text = strings.ReplaceAll(text, value, "…")
		}
	}
	return text
}

// lookupError is why something cannot be looked up, in a text that has nothing of variables but
// paths and names.
type lookupError struct{ error }

func (e *lookupError) Unwrap() error { return e.error }

func variableStamp(index uint64) string { return strconv.FormatUint(index, 16) }
