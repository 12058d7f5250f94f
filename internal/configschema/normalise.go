package configschema

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
)

// normaliser turns what Go code decodes from HCL or JSON into the few types that
// the rest works on: maps, slices, strings, booleans, nil, int64, float64 and
// json.Number.
type normaliser struct {
	faults *faults
	count  int
}

func (n *normaliser) value(at path, v any, depth int) any {
	if n.count++; n.count > MaxValues {
		n.faults.once(path{at[0]}, fmt.Sprintf("more than %d values", MaxValues))
		return nil
	}
	if depth > MaxDepth {
		n.faults.add(at, fmt.Sprintf("nested more than %d deep", MaxDepth))
		return nil
	}
	switch v := v.(type) {
	case nil, string, bool, int64:
		return v
	case map[string]any:
		m := make(map[string]any, len(v))
		for name, member := range v {
			m[name] = n.value(at.member(name), member, depth+1)
		}
		return m
	case []any:
		s := make([]any, len(v))
		for i, item := range v {
			s[i] = n.value(at.item(i), item, depth+1)
		}
		return s
	case float64:
		return n.float(at, v)
	case json.Number:
		if f, err := v.Float64(); err != nil || !json.Valid([]byte(v)) {
			n.faults.add(at, fmt.Sprintf("%s is not a number in range", quote(string(v))))
			return nil
		} else if i, err := v.Int64(); err == nil {
			return i
		} else if math.Abs(f) < 1<<53 {
			return f
		}
		return v
	}
	return n.reflected(at, reflect.ValueOf(v), depth)
}

func (n *normaliser) float(at path, f float64) any {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		n.faults.add(at, "not a finite number")
		return nil
	}
	return f
}

// reflected handles the rarer types, such as []map[string]any and int.
func (n *normaliser) reflected(at path, v reflect.Value, depth int) any {
	switch v.Kind() {
	case reflect.Bool:
		return v.Bool()
	case reflect.String:
		return v.String()
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return v.Int()
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		if u := v.Uint(); u > math.MaxInt64 {
			return json.Number(fmt.Sprint(u))
		}
		return int64(v.Uint())
	case reflect.Float32, reflect.Float64:
		return n.float(at, v.Float())
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return nil
		}
		return n.value(at, v.Elem().Interface(), depth+1)
	case reflect.Slice, reflect.Array:
		s := make([]any, v.Len())
		for i := range s {
			s[i] = n.value(at.item(i), v.Index(i).Interface(), depth+1)
		}
		return s
	case reflect.Map:
		if v.Type().Key().Kind() == reflect.String {
			m := make(map[string]any, v.Len())
			for _, key := range v.MapKeys() {
				m[key.String()] = n.value(at.member(key.String()), v.MapIndex(key).Interface(), depth+1)
			}
			return m
		}
	}
	n.faults.add(at, fmt.Sprintf("a value of Go's type %s has no meaning here", v.Type()))
	return nil
}
