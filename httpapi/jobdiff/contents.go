package jobdiff

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"

	nomad "github.com/hashicorp/nomad/api"
)

// hidden are fields that are no part of what a job asks for, or that are compared
// elsewhere: by their own name, or where canonicalising copies them to.
var hidden = map[string][]string{
	"Job": {
		"ID", "TaskGroups", "Update", "Reschedule", "Migrate", "Status", "StatusDescription", "Stable", "Version", "VersionTag",
		"SubmitTime", "CreateIndex", "ModifyIndex", "JobModifyIndex", "NomadTokenID",
	},
	"TaskGroup":     {"Name", "Tasks"},
	"Task":          {"Name"},
	"ScalingPolicy": {"ID", "Namespace", "Target", "CreateIndex", "ModifyIndex"},
}

// objectNames are what Nomad calls the elements of lists and maps.
var objectNames = map[string]string{
	"Constraints": "Constraint", "Affinities": "Affinity", "Spreads": "Spread", "SpreadTarget": "SpreadTarget", "Networks": "Network",
	"DynamicPorts": "Dynamic Port", "ReservedPorts": "Static Port", "Services": "Service", "Checks": "Check", "Templates": "Template",
	"Artifacts": "Artifact", "Volumes": "Volume", "VolumeMounts": "VolumeMount", "Devices": "Device", "ScalingPolicies": "Scaling",
	"Identities": "Identity", "Actions": "Action", "Secrets": "Secret",
}

// contents compares the fields of two structs of a type, of which one may be missing.
// With context, the fields that are the same are listed too.
func (c *Differ) contents(old, new reflect.Value, context bool) (fields []*nomad.FieldDiff, objects []*nomad.ObjectDiff) {
	t := typeIn(old, new)
	if t == nil {
		return nil, nil
	}
	for i := range t.NumField() {
		f := t.Field(i)
		if !f.IsExported() || slices.Contains(hidden[t.Name()], f.Name) {
			continue
		}
		was, is := fieldOf(old, i), fieldOf(new, i)
		switch kindOf(f.Type) {
		case scalar:
			fields = c.field(fields, f.Name, text(was), text(is), context && present(was, is))
		case texts:
			fields = c.keyed(fields, f.Name, was, is, context)
		default:
			objects = append(objects, c.objects(f, was, is)...)
		}
	}
	slices.SortStableFunc(fields, func(a, b *nomad.FieldDiff) int { return cmp.Compare(a.Name, b.Name) })
	return fields, objects
}

func typeIn(old, new reflect.Value) reflect.Type {
	switch {
	case new.IsValid():
		return new.Type()
	case old.IsValid():
		return old.Type()
	}
	return nil
}

// fieldOf is a field of a struct, without pointers; the zero Value: there is none.
func fieldOf(v reflect.Value, i int) reflect.Value {
	if !v.IsValid() {
		return v
	}
	return plain(v.Field(i))
}

// plain follows pointers and interfaces.
func plain(v reflect.Value) reflect.Value {
	for v.IsValid() && (v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface) {
		v = v.Elem()
	}
	return v
}

func present(values ...reflect.Value) bool { return slices.ContainsFunc(values, reflect.Value.IsValid) }

// kind is how a field is compared.
type kind int

const (
	scalar kind = iota // a field
	texts              // a map of scalars: a field a key
	object             // a struct
	set                // a list of scalars
	list               // a list of structs
	named              // a map of structs
	open               // a map of anything
)

func kindOf(t reflect.Type) kind {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t.Kind() {
	case reflect.Struct:
		return object
	case reflect.Slice, reflect.Array:
		if kindOf(t.Elem()) == object {
			return list
		}
		return set
	case reflect.Map:
		switch e := t.Elem(); {
		case e.Kind() == reflect.Interface:
			return open
		case kindOf(e) == scalar:
			return texts
		case kindOf(e) == object:
			return named
		}
		return open
	case reflect.Interface:
		return open
	}
	return scalar
}

// text is a scalar as Nomad shows it; of none it is empty.
func text(v reflect.Value) string {
	if v = plain(v); !v.IsValid() {
		return ""
	}
	if v.CanInt() {
		return fmt.Sprint(v.Int()) // of a duration, its nanoseconds
	}
	return fmt.Sprint(v.Interface())
}

// field lists a field that differs; with context also one that is the same.
func (c *Differ) field(fields []*nomad.FieldDiff, name, old, new string, context bool) []*nomad.FieldDiff {
	kind := Edited
	switch {
	case old == new && !context:
		return fields
	case old == new:
		kind = None
	case old == "":
		kind = Added
	case new == "":
		kind = Deleted
	}
	return c.listed(fields, kind, name, old, new)
}

// keyed compares two maps of scalars.
func (c *Differ) keyed(fields []*nomad.FieldDiff, name string, old, new reflect.Value, context bool) []*nomad.FieldDiff {
	was, is := entries(old), entries(new)
	for _, key := range union(was, is) {
		fields = c.field(fields, fmt.Sprintf("%s[%s]", name, key), text(was[key]), text(is[key]), context)
	}
	return fields
}

// entries are those of a map.
func entries(v reflect.Value) map[string]reflect.Value {
	m := map[string]reflect.Value{}
	if v.IsValid() {
		for _, key := range v.MapKeys() {
			m[fmt.Sprint(key.Interface())] = v.MapIndex(key)
		}
	}
	return m
}

// union are the keys of both maps, in order.
func union[V any](a, b map[string]V) []string {
	keys := slices.AppendSeq(slices.Collect(maps.Keys(a)), maps.Keys(b))
	slices.Sort(keys)
	return slices.Compact(keys)
}
