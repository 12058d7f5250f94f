package config

import (
	"cmp"
	"reflect"
	"slices"
)

// Changes returns the keys whose values differ between two configurations, sorted, with
// their blocks: "client.gc_interval". Plugins are one key, "plugin".
func Changes(a, b Config) []string {
	var keys []string
	changes(reflect.ValueOf(a), reflect.ValueOf(b), "", &keys)
	slices.Sort(keys)
	return keys
}

func changes(a, b reflect.Value, block string, keys *[]string) {
	for i := range a.NumField() {
		field := a.Type().Field(i)
		key := block + cmp.Or(field.Tag.Get("key"), field.Name)
		switch {
		case field.Tag.Get("key") == "-" && a.Field(i).Kind() == reflect.Struct: // its keys are in no block of theirs
			changes(a.Field(i), b.Field(i), block, keys)
		case field.Tag.Get("key") == "-": // it is no setting
		case a.Field(i).Kind() == reflect.Struct:
			changes(a.Field(i), b.Field(i), key+".", keys)
		case !reflect.DeepEqual(a.Field(i).Interface(), b.Field(i).Interface()):
			*keys = append(*keys, key)
		}
	}
}
