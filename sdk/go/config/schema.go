package config

import (
	"maps"
	"slices"
	"strconv"
)

// kindOf is what there is to know of the type of a field.
type kindOf struct {
	words       string // for people
	schema      string // of the field
	items       string // which member of the schema is that of what is in it; empty: none
	inner       string // that
	least, most string // which members of the schema bound it; empty: none
}

// durations is what a text matches that is a duration, as JSON.
const durations = `"^(0|([0-9]+(\\.[0-9]+)?(ns|us|µs|ms|s|m|h))+)$"`

var (
	kindText     = &kindOf{words: "a string", schema: `"type":"string"`, least: "minLength", most: "maxLength"}
	kindTruth    = &kindOf{words: "a boolean", schema: `"type":"boolean"`}
	kindWhole    = &kindOf{words: "a whole number", schema: `"type":"integer"`, least: "minimum", most: "maximum"}
	kindNumber   = &kindOf{words: "a number", schema: `"type":"number"`, least: "minimum", most: "maximum"}
	kindDuration = &kindOf{words: `a duration such as "5s"`, schema: `"type":["string","integer"],"minimum":0,"pattern":` + durations}
	kindAny      = &kindOf{}
	kindTexts    = &kindOf{words: "a list of strings", schema: `"type":"array"`, items: "items", inner: `"type":"string"`, least: "minItems", most: "maxItems"}
	kindMap      = &kindOf{words: "a map of strings", schema: `"type":"object"`, items: "additionalProperties", inner: `"type":"string"`}
	kindBlock    = &kindOf{words: "a block"}
	kindBlocks   = &kindOf{words: "a list of blocks", schema: `"type":"array"`, items: "items", least: "minItems", most: "maxItems"}
	kindLabelled = &kindOf{words: "blocks with labels", schema: `"type":"object"`, items: "additionalProperties"}
)

// object appends the schema of a block with the fields, without its braces.
func (f *Fields) object(text []byte) []byte {
	text = append(comma(text, len(text)), `"type":"object","additionalProperties":false,"properties":{`...)
	var required []string
	for i, x := range f.list {
		if i > 0 {
			text = append(text, ',')
		}
		text = append(AppendText(text, x.name), ":{"...)
		text = append(text, x.own...)
		if x.kind.items != "" {
			text = append(comma(text, len(x.own)), `"`+x.kind.items+`":{`...)
			text = append(append(text, x.inner...), '}')
		}
		text = append(text, '}')
		if x.required {
			required = append(required, x.name)
		}
	}
	text = append(text, '}')
	if len(required) > 0 {
		text = appendTexts(append(text, `,"required":`...), required)
	}
	return text
}

// appendJSON writes a value.
func (v Value) appendJSON(text []byte) []byte {
	switch v.kind {
	case Bool:
		return strconv.AppendBool(text, v.Bool())
	case Number:
		return append(text, v.text...)
	case String:
		return AppendText(text, v.text)
	case List:
		text = append(text, '[')
		for i, item := range v.items {
			text = item.appendJSON(comma(text, i))
		}
		return append(text, ']')
	case Object:
		text = append(text, '{')
		for i, f := range v.fields {
			text = f.Value.appendJSON(append(AppendText(comma(text, i), f.Name), ':'))
		}
		return append(text, '}')
	default:
		return append(text, "null"...)
	}
}

func appendTexts(text []byte, list []string) []byte {
	text = append(text, '[')
	for i, s := range list {
		text = AppendText(comma(text, i), s)
	}
	return append(text, ']')
}

func appendMap(text []byte, m map[string]string) []byte {
	text = append(text, '{')
	for i, name := range slices.Sorted(maps.Keys(m)) {
		text = AppendText(append(AppendText(comma(text, i), name), ':'), m[name])
	}
	return append(text, '}')
}

func appendNumber(text []byte, n float64) []byte { return strconv.AppendFloat(text, n, 'f', -1, 64) }

// comma appends what separates an item from those before, unless there is none.
func comma(text []byte, before int) []byte {
	if before > 0 {
		text = append(text, ',')
	}
	return text
}

// AppendText appends a text as JSON, for plugins that do without encoding/json. What is no UTF-8
// becomes U+FFFD.
func AppendText(text []byte, s string) []byte {
	const hex = "0123456789abcdef"
	text = append(text, '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			text = append(text, '\\', byte(r))
		case r < ' ':
			text = append(text, '\\', 'u', '0', '0', hex[r>>4], hex[r&15])
		default:
			text = append(text, string(r)...)
		}
	}
	return append(text, '"')
}
