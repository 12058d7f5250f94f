package jobfields

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	nomad "github.com/hashicorp/nomad/api"
)

// Check tells what a canonical job asks for that is not done: what it is refused for, and
// what it is warned about, a line each, in the order of the job. What a job has only
// because canonicalising fills it in asks for nothing.
func Check(job *nomad.Job) (refusals, warnings []string) {
	plain := known(reflect.ValueOf(job)).Interface().(*nomad.Job)
	plain.Canonicalize()
	c := &check{latest: map[string]*finding{}, byName: map[[2]string]*finding{}}
	c.look(nil, reflect.ValueOf(job), reflect.ValueOf(plain))
	for _, f := range c.found {
		if f.kind == isRefused {
			refusals = append(refusals, f.String())
		} else {
			warnings = append(warnings, f.String())
		}
	}
	return refusals, warnings
}

// known copies what is acted on. The rest of it is left out, which canonicalising then fills
// in as it does for a job that does not ask for it.
func known(v reflect.Value) reflect.Value {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			out := reflect.New(v.Type().Elem())
			out.Elem().Set(known(v.Elem()))
			return out
		}
	case reflect.Slice:
		if !v.IsNil() {
			out := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
			for i := range v.Len() {
				out.Index(i).Set(known(v.Index(i)))
			}
			return out
		}
	case reflect.Map:
		if isMap(v) && !v.IsNil() {
			out := reflect.MakeMapWithSize(v.Type(), v.Len())
			for each := v.MapRange(); each.Next(); {
				out.SetMapIndex(each.Key(), known(each.Value()))
			}
			return out
		}
	case reflect.Struct:
		fates := table[v.Type().Name()]
		out := reflect.New(v.Type()).Elem()
		for i := range v.NumField() {
			if fates[v.Type().Field(i).Name].looksInside() {
				out.Field(i).Set(known(v.Field(i)))
			}
		}
		return out
	}
	return v
}

// check gathers what is found.
type check struct {
	blocks int // that were looked at
	found  []*finding
	latest map[string]*finding    // of a text
	byName map[[2]string]*finding // of a text and a field
}

// finding is what people are told of fields that share a fate: those of the first
// block that has them, and how many other blocks have any of these.
type finding struct {
	kind   fateKind
	text   string
	at     string
	names  []string
	last   int // the last block that has any
	others int
}

// String is the line.
func (f *finding) String() string {
	where := strings.Join(f.names, ", ")
	if f.at != "" {
		where = f.at + ": " + where
	}
	switch f.others {
	case 0:
		return where + ": " + f.text
	case 1:
		return where + " (and in another block): " + f.text
	}
	return fmt.Sprintf("%s (and in %d other blocks): %s", where, f.others, f.text)
}

// look compares what was asked for with what a job has that does not ask for it.
func (c *check) look(at []string, v, plain reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return
		}
		if plain.IsNil() {
			plain = reflect.New(v.Type().Elem())
		}
		c.look(at, v.Elem(), plain.Elem())
	case reflect.Struct:
		c.fields(at, v, plain)
	}
}

func (c *check) fields(at []string, v, plain reflect.Value) {
	c.blocks++
	block, fates := c.blocks, table[v.Type().Name()]
	for i := range v.NumField() {
		f, value, otherwise := v.Type().Field(i), v.Field(i), plain.Field(i)
		fate := fates[f.Name]
		if fate.tells() && asks(value, otherwise, fate) {
			c.tell(block, at, nameOf(f), fate)
		}
		if !fate.looksInside() {
			continue
		}
		if isList(value) {
			for j := range value.Len() {
				other := reflect.Zero(value.Type().Elem())
				if j < otherwise.Len() {
					other = otherwise.Index(j)
				}
				c.look(within(at, blockOf(f, value, j)), value.Index(j), other)
			}
			continue
		}
		if isMap(value) {
			for _, key := range slices.SortedFunc(slices.Values(value.MapKeys()), byText) {
				other := reflect.Zero(value.Type().Elem())
				if plain := otherwise.MapIndex(key); plain.IsValid() {
					other = plain
				}
				c.look(within(at, fmt.Sprintf("%s %q", nameOf(f), key.String())), value.MapIndex(key), other)
			}
			continue
		}
		c.look(within(at, nameOf(f)), value, otherwise)
	}
}

// isMap reports whether a field has blocks by their labels.
func isMap(v reflect.Value) bool {
	return v.Kind() == reflect.Map && v.Type().Elem().Kind() == reflect.Pointer && v.Type().Elem().Elem().Kind() == reflect.Struct
}

func byText(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) }

// isList reports whether a field is a list of blocks.
func isList(v reflect.Value) bool {
	if v.Kind() != reflect.Slice {
		return false
	}
	of := v.Type().Elem()
	return of.Kind() == reflect.Struct || of.Kind() == reflect.Pointer && of.Elem().Kind() == reflect.Struct
}

// asks reports whether a field asks for something: it is set, and not to what a job has that
// does not set it.
func asks(value, otherwise reflect.Value, f fate) bool {
	if plain := value; plain.Kind() == reflect.Pointer && !plain.IsNil() && plain.Elem().Kind() != reflect.Struct {
		value = plain.Elem() // of a number it is the same whether it was left out or is zero
	}
	switch {
	case value.IsZero(), value.Kind() == reflect.Slice && value.Len() == 0, value.Kind() == reflect.Map && value.Len() == 0:
		return false
	case f.excepts(value.Interface()):
		return false
	}
	if otherwise.Kind() == reflect.Pointer && value.Kind() != reflect.Pointer {
		return otherwise.IsNil() || !reflect.DeepEqual(value.Interface(), otherwise.Elem().Interface())
	}
	return !reflect.DeepEqual(value.Interface(), otherwise.Interface())
}

func (c *check) tell(block int, at []string, name string, fate fate) {
	key := [2]string{fate.text, name}
	if f := c.byName[key]; f != nil {
		if f.last != block {
			f.last = block
			f.others++
		}
		return
	}
	f := c.latest[fate.text]
	if f == nil || f.last != block || f.others > 0 {
		f = &finding{kind: fate.kind, text: fate.text, at: strings.Join(at, ": "), last: block}
		c.latest[fate.text] = f
		c.found = append(c.found, f)
	}
	f.names = append(f.names, name)
	c.byName[key] = f
}

// within is the place of a block in another.
func within(at []string, block string) []string { return append(at[:len(at):len(at)], block) }

// nameOf is what a job file calls a field; one that no file has is called as in JSON.
func nameOf(f reflect.StructField) string {
	switch f.Name {
	case "ReservedPorts":
		return "port"
	case "Identity":
		return "identity"
	}
	for _, key := range []string{"mapstructure", "hcl"} {
		if name, _, _ := strings.Cut(f.Tag.Get(key), ","); name != "" {
			return name
		}
	}
	return f.Name
}

// blockOf is what a job file calls a block of a list: by its name if it has one, else by
// its number if there are others.
func blockOf(f reflect.StructField, list reflect.Value, i int) string {
	block := nameOf(f)
	v := reflect.Indirect(list.Index(i))
	for _, label := range []string{"Name", "Label"} {
		name := v.FieldByName(label)
		if name.IsValid() && !name.IsZero() {
			return block + " " + strconv.Quote(reflect.Indirect(name).String())
		}
	}
	if list.Len() > 1 {
		return block + " " + strconv.Itoa(i+1)
	}
	return block
}
