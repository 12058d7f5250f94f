package httpapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"

	nomad "github.com/hashicorp/nomad/api"
)

// Bounds of what is told of the keys of a job that nobody knows.
const (
	maxUnknownKeys = 10
	maxUnknownPath = 200 // bytes
)

// decodeJob decodes a request that has a job, and returns a warning for each key of the job
// that Nomad's types do not have: newer tools send some, and a person may have mistyped one.
func decodeJob(r *http.Request, into any) (warnings []string, err error) {
	b, err := readBody(r)
	if err != nil {
		return nil, err
	}
	if err := unmarshal(b, into); err != nil {
		return nil, err
	}
	return unknownKeys(b), nil
}

// unknownKeys looks through the job of a request that could be decoded.
func unknownKeys(request []byte) (warnings []string) {
	var req struct{ Job json.RawMessage }
	if json.Unmarshal(request, &req) != nil {
		return nil
	}
	more := 0
	findUnknown("", req.Job, reflect.TypeFor[nomad.Job](), func(path string) {
		if len(warnings) == maxUnknownKeys {
			more++
			return
		}
		if len(path) > maxUnknownPath {
			path = strings.ToValidUTF8(path[:maxUnknownPath], "") + "…"
		}
		warnings = append(warnings, fmt.Sprintf("%q is no key of a job and is ignored", path))
	})
	if more > 0 {
		warnings = append(warnings, fmt.Sprintf("%d more keys are none of a job's and are ignored", more))
	}
	return warnings
}

// findUnknown compares JSON with the type that it is decoded to. What is free in form, as a
// driver's configuration, is whoever's it is.
func findUnknown(path string, value json.RawMessage, t reflect.Type, unknown func(path string)) {
	switch t.Kind() {
	case reflect.Pointer:
		findUnknown(path, value, t.Elem(), unknown)
	case reflect.Slice:
		var elements []json.RawMessage
		if json.Unmarshal(value, &elements) != nil {
			return
		}
		for i, e := range elements {
			findUnknown(fmt.Sprintf("%s[%d]", path, i), e, t.Elem(), unknown)
		}
	case reflect.Map, reflect.Struct:
		var members map[string]json.RawMessage
		if json.Unmarshal(value, &members) != nil {
			return // a time, or another type with a form of its own
		}
		for _, key := range slices.Sorted(maps.Keys(members)) {
			at := strings.TrimPrefix(path+"."+key, ".")
			if t.Kind() == reflect.Map {
				findUnknown(at, members[key], t.Elem(), unknown)
			} else if field, known := fieldOf(t, key); known {
				findUnknown(at, members[key], field, unknown)
			} else {
				unknown(at)
			}
		}
	}
}

// fieldOf is the type of the field that a key is decoded to, as encoding/json finds it.
func fieldOf(t reflect.Type, key string) (field reflect.Type, known bool) {
	fields, is := jobKeys.Load(t)
	if !is {
		fields, _ = jobKeys.LoadOrStore(t, keysOf(t))
	}
	for _, f := range fields.([]jobKey) {
		if strings.EqualFold(f.name, key) {
			return f.of, true
		}
	}
	return nil, false
}

// jobKeys are the keys of the types of a job, by type: a request may have 100,000s of keys, and
// to find them by reflection for each would take a minute.
var jobKeys sync.Map // of []jobKey

// jobKey is a key that is decoded to a field.
type jobKey struct {
	name string
	of   reflect.Type
}

func keysOf(t reflect.Type) (keys []jobKey) {
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" {
			name = f.Name
		}
		if f.IsExported() && name != "-" {
			keys = append(keys, jobKey{name, f.Type})
		}
	}
	return keys
}
