package jobdiff

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"

	nomad "github.com/hashicorp/nomad/api"
)

// objects compares a field that is no scalar.
func (c *Differ) objects(f reflect.StructField, old, new reflect.Value) []*nomad.ObjectDiff {
	name := objectNames[f.Name]
	if name == "" {
		name = f.Name
	}
	switch kindOf(f.Type) {
	case object:
		return c.object(nil, name, old, new)
	case list:
		return c.list(name, elements(old), elements(new))
	case named:
		return c.named(name, entries(old), entries(new))
	case set:
		return c.set(name, scalars(old), scalars(new))
	}
	return c.open(name, old, new)
}

// object adds an object that differs.
func (c *Differ) object(to []*nomad.ObjectDiff, name string, old, new reflect.Value) []*nomad.ObjectDiff {
	d := &nomad.ObjectDiff{Name: name}
	d.Fields, d.Objects = c.contents(old, new, c.context)
	if d.Type = typeOf(old, new, len(d.Objects) > 0 || slices.ContainsFunc(d.Fields, differs)); d.Type == None {
		return to
	}
	return append(to, d)
}

func differs(f *nomad.FieldDiff) bool { return f.Type != None }

// named compares two maps of structs.
func (c *Differ) named(name string, old, new map[string]reflect.Value) (objects []*nomad.ObjectDiff) {
	for _, key := range union(old, new) {
		objects = c.object(objects, name, plain(old[key]), plain(new[key]))
	}
	return objects
}

// elements are those of a list of structs.
func elements(v reflect.Value) (list []reflect.Value) {
	if v.IsValid() {
		for i := range v.Len() {
			if e := plain(v.Index(i)); e.IsValid() {
				list = append(list, e)
			}
		}
	}
	return list
}

// list compares two lists of structs. Those that both have are left out; of the others,
// those of the same name are compared. Lists that have the same in another order differ
// in that.
func (c *Differ) list(name string, was, are []reflect.Value) (objects []*nomad.ObjectDiff) {
	old, new := without(was, are)
	if len(old) == 0 && len(new) == 0 {
		return c.order(name, was, are)
	}
	for _, p := range paired(labels(old, "old"), labels(new, "new"), func(l *labelled) string { return l.name }) {
		objects = c.object(objects, name, p.old.value(), p.new.value())
	}
	return objects
}

// labelled is an element of a list with its name.
type labelled struct {
	name string
	of   reflect.Value
}

func (l *labelled) value() reflect.Value {
	if l == nil {
		return reflect.Value{}
	}
	return l.of
}

// labels names the elements of a list, each in its own way. One without a name has one that
// no element of the other list has.
func labels(list []reflect.Value, whose string) []*labelled {
	out, seen := make([]*labelled, 0, len(list)), map[string]int{}
	for _, v := range list {
		name := "name " + label(v)
		if label(v) == "" {
			name = whose
		}
		seen[name]++
		out = append(out, &labelled{fmt.Sprintf("%s %d", name, seen[name]), v})
	}
	return out
}

// order compares the order of two lists with the same elements, by their names or, where
// they have none, by what they are.
func (c *Differ) order(name string, old, new []reflect.Value) []*nomad.ObjectDiff {
	d := &nomad.ObjectDiff{Name: name, Type: Edited}
	for i := range new {
		if was, is := identity(old[i]), identity(new[i]); was != is {
			if label(old[i]) != "" && label(new[i]) != "" && label(old[i]) != label(new[i]) {
				was, is = label(old[i]), label(new[i])
			}
			d.Fields = c.field(d.Fields, fmt.Sprintf("%s[%d]", name, i), was, is, false)
		}
	}
	if len(d.Fields) == 0 {
		return nil
	}
	return []*nomad.ObjectDiff{d}
}

// without removes what two lists have in common from both.
func without(old, new []reflect.Value) (deleted, added []reflect.Value) {
	count := map[string]int{}
	for _, o := range old {
		count[identity(o)]++
	}
	for _, n := range new {
		if id := identity(n); count[id] > 0 {
			count[id]--
		} else {
			added = append(added, n)
		}
	}
	for _, o := range slices.Backward(old) {
		if id := identity(o); count[id] > 0 {
			count[id]--
			deleted = append(deleted, o)
		}
	}
	slices.Reverse(deleted)
	return deleted, added
}

// identity is the same for structs with the same contents.
func identity(v reflect.Value) string {
	b, err := json.Marshal(v.Interface())
	if err != nil {
		return fmt.Sprintf("%+v", v.Interface())
	}
	return string(b)
}

// label is the name of an element of a list; empty: it has none.
func label(v reflect.Value) string {
	for _, name := range []string{"Name", "Label"} {
		if f := v.FieldByName(name); f.IsValid() {
			return text(f)
		}
	}
	return ""
}

// scalars are the elements of a list of scalars; bytes are one.
func scalars(v reflect.Value) (list []string) {
	switch {
	case !v.IsValid():
		return nil
	case v.Type().Elem().Kind() == reflect.Uint8:
		if v.Len() > 0 {
			list = []string{base64.StdEncoding.EncodeToString(v.Bytes())}
		}
		return list
	}
	for i := range v.Len() {
		list = append(list, text(v.Index(i)))
	}
	return list
}

// set compares two lists of scalars: what was added and what was deleted or, where
// neither was, what stands elsewhere.
func (c *Differ) set(name string, old, new []string) []*nomad.ObjectDiff {
	if slices.Equal(old, new) {
		return nil
	}
	d := &nomad.ObjectDiff{Name: name, Type: Edited}
	was, is := tally(old), tally(new)
	for _, item := range union(was, is) {
		for range max(0, is[item]-was[item]) {
			d.Fields = c.listed(d.Fields, Added, name, "", item)
		}
		for range max(0, was[item]-is[item]) {
			d.Fields = c.listed(d.Fields, Deleted, name, item, "")
		}
		if c.context {
			for range min(was[item], is[item]) {
				d.Fields = c.listed(d.Fields, None, name, item, item)
			}
		}
	}
	switch {
	case len(old) == 0:
		d.Type = Added
	case len(new) == 0:
		d.Type = Deleted
	case !slices.ContainsFunc(d.Fields, differs):
		d.Fields = nil
		for i := range new {
			d.Fields = c.field(d.Fields, fmt.Sprintf("%s[%d]", name, i), old[i], new[i], c.context)
		}
	}
	return []*nomad.ObjectDiff{d}
}

func tally(items []string) map[string]int {
	count := map[string]int{}
	for _, item := range items {
		count[item]++
	}
	return count
}

// listed lists an element of a list.
func (c *Differ) listed(fields []*nomad.FieldDiff, kind, name, old, new string) []*nomad.FieldDiff {
	if c.spend(len(name) + len(old) + len(new)); c.exhausted() {
		return fields
	}
	return append(fields, &nomad.FieldDiff{Type: kind, Name: name, Old: old, New: new})
}

// open compares two maps of anything, such as drivers' configurations: a field for each
// value, by its path.
func (c *Differ) open(name string, old, new reflect.Value) []*nomad.ObjectDiff {
	was, is := c.flat(old), c.flat(new)
	d := &nomad.ObjectDiff{Name: name}
	for _, path := range union(was, is) {
		d.Fields = c.field(d.Fields, path, was[path], is[path], c.context)
	}
	switch {
	case len(was) == 0 && len(is) == 0, !slices.ContainsFunc(d.Fields, differs):
		return nil
	case len(was) == 0:
		d.Type = Added
	case len(is) == 0:
		d.Type = Deleted
	default:
		d.Type = Edited
	}
	return []*nomad.ObjectDiff{d}
}

// maxDepth is how deep values lie that have a field of their own; deeper ones are JSON.
const maxDepth = 16

// flat are a map's values by path, such as args[0] and mount[0][source].
func (c *Differ) flat(v reflect.Value) map[string]string {
	out := map[string]string{}
	if v = plain(v); v.IsValid() && (v.Kind() != reflect.Map || v.Len() > 0) {
		c.flatten(out, "", v, 0)
	}
	return out
}

func (c *Differ) flatten(out map[string]string, path string, v reflect.Value, depth int) {
	v = plain(v)
	if c.bytes -= len(path); c.exhausted() {
		return
	}
	switch {
	case !v.IsValid():
		put(out, path, "nil")
	case depth > maxDepth || v.Kind() == reflect.Struct, path != "" && isList(v) && v.Len() == 0:
		put(out, path, identity(v))
	case v.Kind() == reflect.Map:
		m := entries(v)
		for _, key := range slices.Sorted(maps.Keys(m)) {
			in := key
			if path != "" {
				in = path + "[" + key + "]"
			}
			c.flatten(out, in, m[key], depth+1)
		}
	case isList(v):
		for i := range v.Len() {
			c.flatten(out, fmt.Sprintf("%s[%d]", path, i), v.Index(i), depth+1)
		}
	default:
		put(out, path, text(v))
	}
}

// put keeps a value, also where another has the same path: keys may have dots.
func put(out map[string]string, path, value string) {
	for _, taken := out[path]; taken; _, taken = out[path] {
		path += "'"
	}
	out[path] = value
}

func isList(v reflect.Value) bool {
	return v.Kind() == reflect.Map || v.Kind() == reflect.Slice || v.Kind() == reflect.Array
}
