package configdoc

import (
	"strings"

	"github.com/wasmnode/wasmnode/internal/configschema"
	"github.com/wasmnode/wasmnode/internal/plaintext"
)

// Table is the fields as a table in Markdown, with those of blocks below them, by their paths:
// "mount.from", or "network.LABEL.mtu" for blocks with labels.
func Table(fields []*configschema.Field) string {
	if len(fields) == 0 {
		return "It takes nothing.\n"
	}
	var b strings.Builder
	b.WriteString("| Name | Type | Required | Default | Description |\n|---|---|---|---|---|\n")
	rows(&b, "", fields)
	return b.String()
}

func rows(b *strings.Builder, before string, fields []*configschema.Field) {
	for _, f := range fields {
		path := before + f.Name
		b.WriteString("| " + code(path) + " | " + cell(typeText(f)) + " | " + required(f) + " | " + code(string(f.Default)) + " | " + cell(description(f)) + " |\n")
		if f.Form == configschema.FormLabelled {
			path += ".LABEL"
		}
		rows(b, path+".", f.Fields)
	}
}

// maxValueBytes bounds what is shown of each value that a field takes.
const maxValueBytes = 64

func typeText(f *configschema.Field) string {
	texts := append([]string{f.Type}, f.Limits...)
	for i, v := range f.Values {
		value := plaintext.Line(string(v), maxValueBytes)
		if i == 0 && len(f.Values) > 1 {
			value = "one of " + value
		}
		texts = append(texts, value)
	}
	return strings.Join(texts, ", ")
}

func required(f *configschema.Field) string {
	switch {
	case f.Required:
		return "yes"
	case f.Choice:
		return "in one form"
	}
	return ""
}

func description(f *configschema.Field) string {
	if f.Deprecated {
		return "Deprecated. " + f.Description
	}
	return f.Description
}

// line makes one line of a text, of which nothing is cut.
func line(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	return plaintext.Line(text, len(text))
}

// cell is a text in a table: neither a border nor HTML.
func cell(text string) string {
	return strings.NewReplacer("|", `\|`, "<", "&lt;", ">", "&gt;").Replace(line(text))
}

// code is a text in a table as code; empty: nothing.
func code(text string) string {
	if text == "" {
		return ""
	}
	return "`" + strings.NewReplacer("|", `\|`, "`", "'").Replace(line(text)) + "`"
}
