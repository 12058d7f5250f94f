package main

import (
	"maps"
	"slices"
	"strconv"

	"github.com/wasmnode/wasmnode/sdk/go/config"
)

// object is an object in JSON: its values are texts, whole numbers, truths, objects, or lists of
// these. encoding/json would make the plugin half as large again.
type object = map[string]any

// appendJSON appends a value as JSON.
func appendJSON(b []byte, value any) []byte {
	switch v := value.(type) {
	case string:
		return config.AppendText(b, v)
	case bool:
		return strconv.AppendBool(b, v)
	case int64:
		return strconv.AppendInt(b, v, 10)
	case object:
		b = append(b, '{')
		for i, name := range slices.Sorted(maps.Keys(v)) {
			b = append(config.AppendText(comma(b, i), name), ':')
			b = appendJSON(b, v[name])
		}
		return append(b, '}')
	case map[string]string:
		b = append(b, '{')
		for i, name := range slices.Sorted(maps.Keys(v)) {
			b = append(config.AppendText(comma(b, i), name), ':')
			b = config.AppendText(b, v[name])
		}
		return append(b, '}')
	case []string:
		return appendList(b, v)
	case []object:
		return appendList(b, v)
	case config.Value:
		return appendValue(b, v)
	}
	return append(b, "null"...)
}

// appendValue appends what was read, as it was.
func appendValue(b []byte, v config.Value) []byte {
	switch v.Kind() {
	case config.Object:
		members := object{}
		for _, f := range v.Fields() {
			members[f.Name] = f.Value
		}
		return appendJSON(b, members)
	case config.List:
		return appendList(b, v.Items())
	case config.String:
		return appendJSON(b, v.Text())
	case config.Number:
		return appendJSON(b, v.Int())
	case config.Bool:
		return appendJSON(b, v.Bool())
	}
	return appendJSON(b, nil)
}

func appendList[T any](b []byte, items []T) []byte {
	b = append(b, '[')
	for i, item := range items {
		b = appendJSON(comma(b, i), item)
	}
	return append(b, ']')
}

// comma appends what separates an item from those before it.
func comma(b []byte, before int) []byte {
	if before > 0 {
		b = append(b, ',')
	}
	return b
}
