package standalone

import (
	"fmt"
	"reflect"

	nomad "github.com/hashicorp/nomad/api"
)

// nulls names every null that stands in one of a job's lists and maps where an object
// belongs, such as `TaskGroups[0].Tasks[1]`: Nomad's types take none of them for
// possible, and would panic. What a driver's configuration holds is the driver's.
func nulls(job *nomad.Job, null func(path string)) {
	walk("", reflect.ValueOf(job), null)
}

func walk(path string, v reflect.Value, null func(path string)) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			walk(path, v.Elem(), null)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() {
				name := f.Name
				if path != "" {
					name = path + "." + name
				}
				walk(name, v.Field(i), null)
			}
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			element(fmt.Sprintf("%s[%d]", path, i), v.Index(i), null)
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			element(fmt.Sprintf("%s[%q]", path, key), v.MapIndex(key), null)
		}
	}
}

func element(path string, v reflect.Value, null func(path string)) {
	if v.Kind() == reflect.Pointer && v.IsNil() {
		null(path)
		return
	}
	walk(path, v, null)
}
