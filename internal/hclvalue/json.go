package hclvalue

import (
	"bytes"
	"encoding/json"
	"errors"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
	hcljson "github.com/hashicorp/hcl/v2/json"
)

// ParseJSON parses a file of JSON within the bounds of one of HCL. The path is for messages only.
// Evaluated without a context, a text is what is written: no expressions are in it.
func ParseJSON(path string, content []byte) (hcl.Expression, hcl.Diagnostics) {
	if diags := checkSize(path, content); diags != nil {
		return nil, diags
	}
	var syntax *json.SyntaxError
	if err := json.Unmarshal(content, new(json.RawMessage)); errors.As(err, &syntax) {
		return nil, Errorf(rangeAt(path, content, int(syntax.Offset)-1), "Invalid JSON; %s.", syntax)
	}
	depth := 0
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.UseNumber()
	for {
		token, err := decoder.Token()
		if err != nil { // its end
			return hcljson.ParseExpression(content, path)
		}
		switch t := token.(type) {
		case json.Delim:
			if depth += map[json.Delim]int{'{': 1, '[': 1, '}': -1, ']': -1}[t]; depth > MaxNesting {
				return nil, Errorf(rangeAt(path, content, int(decoder.InputOffset())-1), "More than %d brackets within each other.", MaxNesting)
			}
		case json.Number:
			if !writable([]byte(t)) {
				return nil, Errorf(rangeAt(path, content, int(decoder.InputOffset())-len(t)),
					"The number is too large or too small; digits and powers of ten are limited to %d.", maxExponent)
			}
		}
	}
}

// rangeAt is the place of a byte, or of the end.
func rangeAt(path string, content []byte, offset int) hcl.Range {
	before := content[:max(0, min(offset, len(content)))]
	line := before[bytes.LastIndexByte(before, '\n')+1:]
	pos := hcl.Pos{Line: 1 + bytes.Count(before, []byte("\n")), Column: 1 + utf8.RuneCount(line), Byte: len(before)}
	return hcl.Range{Filename: path, Start: pos, End: pos}
}
