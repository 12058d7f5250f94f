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
	"TaskGroup": {"Name", "Tasks"},
	"Task":      {"Name"},
	// It has no effect, and Nomad lists it neither.
	"UpdateStrategy": {"Stagger"},
	"ScalingPolicy":  {"ID", "Namespace", "Target", "CreateIndex", "ModifyIndex"},
}

// objectNames are what Nomad calls the elements of lists and maps.
var objectNames = map[string]string{
	"Constraints": "Constraint", "Affinities": "Affinity", "Spreads": "Spread", "SpreadTarget": "SpreadTarget", "Networks": "Network",
	"DynamicPorts": "Dynamic Port", "ReservedPorts": "Static Port", "Services": "Service", "Checks": "Check", "Templates": "Template",
	"Artifacts": "Artifact", "Volumes": "Volume", "VolumeMounts": "VolumeMount", "Devices": "Device", "ScalingPolicies": "Scaling",
	"Identities": "Identity", "Actions": "Action", "Secrets": "Secret", "Links": "Link",
}

// fieldNames are what Nomad calls fields that have another name in its API.
var fieldNames = map[string]map[string]string{"JobUILink": {"URL": "Url"}}

// defaults are the values of fields that a job may leave open, and that Nomad lists.
var defaults = map[string]map[string]string{
	"TaskGroup": {"PreventRescheduleOnLost": "false"},
	"Resources": {"DiskMB": "0", "IOPS": "0", "MemoryMaxMB": "0", "SecretsMB": "0"},
	"Port":      {"HostNetwork": "default"},
}

// quiet are fields that Nomad does not list where they are empty or zero.
var quiet = map[string][]string{
	"NetworkResource": {"CIDR", "Device", "IP"},
	"Port":            {"Value"},
	"ServiceCheck":    {"Advertise"},
}

// order is that of Nomad's objects; others come after them.
var order = map[string][]string{
	"TaskGroup": {"Constraint", "Affinity", "Spread", "RestartPolicy", "Migrate", "ReschedulePolicy", "EphemeralDisk", "Update",
		"Disconnect", "Network", "Service"},
	"Task":                   {"Constraint", "Affinity", "Config", "Resources", "LogConfig", "Service"},
	"Service":                {"CanaryTags", "Tags"},
	"ParameterizedJobConfig": {"MetaOptional", "MetaRequired"},
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
			before, after := scalarOf(old, was, t, f.Name), scalarOf(new, is, t, f.Name)
			silent := slices.Contains(quiet[t.Name()], f.Name) && zero(before) && zero(after)
			if !silent {
				name := cmp.Or(fieldNames[t.Name()][f.Name], f.Name)
				fields = c.field(fields, name, before, after, context && present(was, is))
			}
		case texts:
			fields = c.keyed(fields, f.Name, was, is, context)
		default:
			objects = append(objects, c.objects(f, was, is)...)
		}
	}
	slices.SortStableFunc(fields, func(a, b *nomad.FieldDiff) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortStableFunc(objects, func(a, b *nomad.ObjectDiff) int { return cmp.Compare(rank(t, a), rank(t, b)) })
	return fields, objects
}

// rank is an object's place among those of a type.
func rank(t reflect.Type, o *nomad.ObjectDiff) int {
	if i := slices.Index(order[t.Name()], o.Name); i >= 0 {
		return i
	}
	return len(order[t.Name()])
}

// scalarOf is a field of a struct as Nomad shows it; of a struct that is not there it is empty.
func scalarOf(of, v reflect.Value, t reflect.Type, name string) string {
	if !of.IsValid() {
		return ""
	}
	return cmp.Or(text(v), defaults[t.Name()][name])
}

func zero(text string) bool { return text == "" || text == "0" }

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
