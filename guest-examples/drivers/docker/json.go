package main

import (
	"encoding/base64"
	"maps"
	"slices"
	"strconv"

	"github.com/wasmnode/wasmnode/sdk/go/config"
)

// object writes a JSON object, member by member. A member that is empty is left out, as the
// engine's defaults are for what is not there. encoding/json would make the plugin half as
// large again.
type object struct{ b []byte }

// raw adds a member whose value is JSON.
func (o *object) raw(name string, value []byte) {
	if len(value) == 0 {
		return
	}
	if len(o.b) > 0 {
		o.b = append(o.b, ',')
	}
	o.b = append(config.AppendText(o.b, name), ':')
	o.b = append(o.b, value...)
}

func (o *object) text(name, value string) {
	if value != "" {
		o.raw(name, config.AppendText(nil, value))
	}
}

func (o *object) number(name string, value int64) {
	if value != 0 {
		o.raw(name, strconv.AppendInt(nil, value, 10))
	}
}

func (o *object) truth(name string, value bool) {
	if value {
		o.raw(name, []byte("true"))
	}
}

func (o *object) texts(name string, values []string) {
	if len(values) > 0 {
		items := make([][]byte, len(values))
		for i, v := range values {
			items[i] = config.AppendText(nil, v)
		}
		o.list(name, items)
	}
}

func (o *object) list(name string, items [][]byte) {
	if len(items) == 0 {
		return
	}
	b := []byte{'['}
	for i, item := range items {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, item...)
	}
	o.raw(name, append(b, ']'))
}

func (o *object) texted(name string, values map[string]string) {
	var members object
	for _, k := range slices.Sorted(maps.Keys(values)) {
		members.raw(k, config.AppendText(nil, values[k]))
	}
	o.object(name, &members)
}

// object adds a member that is an object, unless that is empty.
func (o *object) object(name string, value *object) {
	if len(value.b) > 0 {
		o.raw(name, value.encoded())
	}
}

func (o *object) encoded() []byte { return append(append([]byte{'{'}, o.b...), '}') }

// base64URL is how credentials are in a header.
func base64URL(b []byte) string { return base64.URLEncoding.EncodeToString(b) }
