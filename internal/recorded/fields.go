package recorded

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Fields are those of several values, by their paths: the fields of structs by their names, "*"
// for what a free map has, "[]" for what a list has.
type Fields map[string]*Field

// A Field is what was seen at a path.
type Field struct {
	Types  map[string]bool // of what is not nil
	Values map[string]bool // of what is no list and no map
	Used   bool            // it was something else than its type's zero
}

// Add adds what a value has.
func (f Fields) Add(v any) { f.add("", v) }

// add adds what a value at a path has, and reports whether it is something else than its type's zero.
func (f Fields) add(path string, v any) (used bool) {
	at := f[path]
	if at == nil {
		at = &Field{Types: map[string]bool{}, Values: map[string]bool{}}
		f[path] = at
	}
	defer func() { at.Used = at.Used || used }()
	switch v := v.(type) {
	case nil:
		return false
	case map[string]any:
		at.Types["map"] = true
		free := isFree(v)
		for k, in := range v {
			if free {
				k = "*"
			}
			used = f.add(strings.TrimPrefix(path+"."+k, "."), in) || used
		}
		return used || free
	case []any:
		at.Types["list"] = true
		for _, in := range v {
			f.add(path+"[]", in)
		}
		return len(v) > 0
	case string:
		if when, is := timeOf(v); is {
			at.Types["time"] = true
			return !when.IsZero()
		}
		at.Types["text"], used = true, v != ""
	case bool:
		at.Types["bool"], used = true, v
	case float64:
		at.Types["float"], used = true, v != 0
	default:
		at.Types["number"], used = true, fmt.Sprint(v) != "0"
	}
	at.Values[fmt.Sprint(v)] = true
	return used
}

// isFree reports whether a map's keys are none of a struct's, which are Go's names of fields.
func isFree(m map[string]any) bool {
	for k := range m {
		if k == "" || k[0] < 'A' || k[0] > 'Z' || strings.ContainsAny(k, " .-/") {
			return true
		}
	}
	return false
}

// The ways in which a field may differ.
const (
	Missing = "missing" // Nomad's client has a value there that the other never has
	Unknown = "unknown" // the other has what Nomad's client never has
	Type    = "type"    // it is of another type
)

// A Difference is a field in which another client differs from Nomad's.
type Difference struct {
	Where  string // a path, or a method with one
	Way    string
	Detail string
}

// String implements fmt.Stringer.
func (d Difference) String() string { return d.Where + " is " + d.Way + ": " + d.Detail }

// Compare tells in which fields ours differs from theirs, sorted. A field that is its type's zero
// counts as one that is not there, which is the same to who reads it.
func Compare(theirs, ours Fields) (list []Difference) {
	for path, their := range theirs {
		if own := ours[path]; their.Used && (own == nil || !own.Used) {
			list = append(list, Difference{path, Missing, "it is " + names(their.Types) + " there: " + names(their.Values)})
		}
	}
	for path, own := range ours {
		their := theirs[path]
		switch {
		case !own.Used:
		case their == nil || !their.Used && len(their.Types) == 0:
			list = append(list, Difference{path, Unknown, "it is " + names(own.Types) + " here: " + names(own.Values)})
		case !within(own.Types, their.Types):
			list = append(list, Difference{path, Type, names(own.Types) + " instead of " + names(their.Types)})
		}
	}
	list = slices.DeleteFunc(list, func(d Difference) bool { return below(list, d) })
	slices.SortFunc(list, func(a, b Difference) int { return strings.Compare(a.Where+a.Way, b.Where+b.Way) })
	return list
}

// below reports whether a difference is only that of what it is within.
func below(list []Difference, d Difference) bool {
	return slices.ContainsFunc(list, func(of Difference) bool {
		rest, is := strings.CutPrefix(d.Where, of.Where)
		return is && rest != "" && of.Way == d.Way && (rest[0] == '.' || rest[0] == '[')
	})
}

func within(a, b map[string]bool) bool {
	for k := range a {
		if !b[k] {
			return false
		}
	}
	return true
}

// Within tells where a value has what another one does not have there; empty: nowhere. What is its
// type's zero counts as not there, and fields with the names that free has are not looked at.
func Within(v, of any, free map[string]bool) (path string) {
	switch v := v.(type) {
	case map[string]any:
		of, _ := of.(map[string]any)
		for k, in := range v {
			if at := Within(in, of[k], free); at != "" && !free[k] {
				return k + strings.TrimSuffix("."+at, ".")
			}
		}
	case []any:
		of, _ := of.([]any)
		for i, in := range v {
			if at := Within(in, counterpart(of, i, in), free); at != "" {
				return fmt.Sprintf("[%d].%s", i, at)
			}
		}
	default:
		f := Fields{}
		if f.Add(v); f[""].Used && fmt.Sprint(v) != fmt.Sprint(of) {
			return fmt.Sprintf("%v instead of %v", v, of)
		}
	}
	return ""
}

// counterpart is what an element of a list is compared with in another one: what has its ID, or else
// its place; nil: there is none.
func counterpart(list []any, place int, of any) any {
	if fields, is := of.(map[string]any); is && fields["ID"] != nil {
		for _, other := range list {
			if other, is := other.(map[string]any); is && other["ID"] == fields["ID"] {
				return other
			}
		}
	}
	if place < len(list) {
		return list[place]
	}
	return nil
}

// names are the keys, the first few of many.
func names(m map[string]bool) string {
	const most = 5
	list := slices.Sorted(maps.Keys(m))
	if len(list) > most {
		list = append(list[:most], "…")
	}
	return strings.Join(list, ", ")
}

// shape is what an exchange has of fields and types, without its values.
func shape(x Exchange) string {
	out := x.By + " " + x.Method + " " + x.Error
	for _, v := range []any{x.Args, x.Reply, x.Frames} {
		f := Fields{}
		f.Add(v)
		for _, path := range slices.Sorted(maps.Keys(f)) {
			out += fmt.Sprintf("\n%s %s %v", path, names(f[path].Types), f[path].Used)
		}
	}
	return out
}

// maxAlike is how many exchanges of one method are kept of those that have different fields.
const maxAlike = 12

// Distinct leaves out what has the same fields as another one, values aside.
func Distinct(list []Exchange) (few []Exchange) {
	seen, alike := map[string]bool{}, map[string]int{}
	for _, x := range list {
		s := shape(x)
		if seen[s] || alike[x.By+x.Method] == maxAlike {
			continue
		}
		seen[s] = true
		alike[x.By+x.Method]++
		few = append(few, x)
	}
	return few
}
