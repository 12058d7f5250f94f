package hclvalue

import (
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/stretchr/testify/require"
)

func TestParseFileStaysWithinBounds(t *testing.T) {
	repeat := strings.Repeat
	cases := map[string]struct {
		content string
		want    string // "": it parses
	}{
		"largest file": {content: repeat("#", MaxBytes-1) + "\n"},
		"too large":    {repeat("#", MaxBytes) + "\n", "f:1,1: The file has more than 1048576 bytes."},

		"deepest brackets": {content: "a = " + repeat("[", MaxNesting) + repeat("]", MaxNesting)},
		"brackets":         {"a = " + repeat("[", MaxNesting+1), "f:1,105: More than 100 brackets within each other."},
		"parentheses":      {"a = " + repeat("(", MaxNesting+1), "f:1,105: More than 100 brackets within each other."},
		"blocks":           {repeat("a {\n", MaxNesting+1), "f:101,3: More than 100 brackets within each other."},
		"templates":        {"a = " + repeat(`"${`, MaxNesting), "f:1,155: More than 100 brackets within each other."},

		"most operators":       {content: "a = " + repeat("!", MaxOperators) + "true\n"},
		"unary":                {"a = " + repeat("!", MaxOperators+1) + "true\n", "f:1,505: More than 500 operators in one expression."},
		"binary":               {"a = 1" + repeat("+1", MaxOperators+1) + "\n", "f:1,1006: More than 500 operators in one expression."},
		"conditions":           {"a = 1" + repeat("?1:1", MaxOperators+1) + "\n", "f:1,1006: More than 500 operators in one expression."},
		"indexes":              {"a = b" + repeat("[b]", MaxOperators+1) + "\n", "f:1,1508: More than 500 operators in one expression."},
		"attributes":           {"a = b" + repeat(".b", MaxOperators+1) + "\n", "f:1,1006: More than 500 operators in one expression."},
		"splats":               {"a = b" + repeat(".*", MaxOperators) + "\n", "f:1,506: More than 500 operators in one expression."},
		"directives":           {`a = "` + repeat("%{if b}", MaxOperators+1) + "\"\n", "f:1,3512: More than 500 operators in one expression."},
		"in a heredoc":         {"a = <<E\n" + repeat("%{if b}", MaxOperators+1) + "\nE\n", "f:2,3507: More than 500 operators in one expression."},
		"over lines, in (…)":   {"a = (" + repeat("!\n", MaxOperators+1) + "true)\n", "f:501,1: More than 500 operators in one expression."},
		"over lines, in {for}": {"a = {\nfor k, v in b : k => " + repeat("!\n", MaxOperators+1) + "true}\n", "f:500,1: More than 500 operators in one expression."},

		"largest number":          {content: "a = 1e999\nb = 1E+999\nc = 1e-999\n"},
		"number too large":        {"a = 1e1000\n", "f:1,5: The number is too large or too small; digits and powers of ten are limited to 999."},
		"number much too large":   {"a = 1e99999999999999999999\n", "f:1,5: The number is too large or too small; digits and powers of ten are limited to 999."},
		"number too small":        {"a = 1e-1000\n", "f:1,5: The number is too large or too small; digits and powers of ten are limited to 999."},
		"most digits":             {content: "a = " + repeat("1", maxExponent) + "\n"},
		"too many digits":         {"a = " + repeat("1", maxExponent+1) + "\n", "f:1,5: The number is too large or too small; digits and powers of ten are limited to 999."},
		"the same, with exponent": {"a = " + repeat("1", maxExponent+1) + "e1\n", "f:1,5: The number is too large or too small; digits and powers of ten are limited to 999."},

		"many attributes":       {content: repeatIndexed("a%d = !true # why\n", MaxOperators+1)},
		"many elements":         {content: "a = [" + repeat("-1,\n", MaxOperators+1) + "]\n"},
		"many interpolations":   {content: `a = "` + repeat("${b} ", MaxOperators+1) + "\"\n"},
		"many keys":             {content: "a = {\n" + repeatIndexed("\"a%d\" = !true\n", MaxOperators+1) + "}\n"},
		"many blocks":           {content: repeat("b \"c\" { d = -1 }\n", MaxOperators+1)},
		"an operator in a text": {content: `a = "` + repeat("!", MaxOperators+1) + "\"\n"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			body, diags := ParseFile("f", []byte(c.content))
			if c.want == "" {
				require.Empty(t, Lines(diags))
				require.NotNil(t, body)
				return
			}
			require.Equal(t, []string{c.want}, Lines(diags))
			require.Nil(t, body)
		})
	}
}

func repeatIndexed(format string, n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(strings.ReplaceAll(format, "%d", strings.Repeat("x", i+1)))
	}
	return b.String()
}

// The bounds allow this much recursion together; a stack that is full could not be
// recovered from.
func TestTheWorstWithinBoundsIsEvaluated(t *testing.T) {
	for name, op := range map[string]string{"unary": "!", "binary": "true&&", "condition": "true?false:"} {
		t.Run(name, func(t *testing.T) {
			per := MaxOperators - 1 // the bracket counts too
			if name == "condition" {
				per /= 2
			}
			level := strings.Repeat(op, per)
			text := strings.Repeat(level+"(", MaxNesting-1) + "true" + strings.Repeat(")", MaxNesting-1)
			e, diags := ParseExpression("f", []byte(text))
			require.False(t, diags.HasErrors(), "%v", diags)
			require.Empty(t, hclsyntax.Variables(e))
			_, diags = e.Value(nil)
			require.False(t, diags.HasErrors())
		})
	}
}

func TestParseExpressionStaysWithinBounds(t *testing.T) {
	_, diags := ParseExpression("-var", []byte(strings.Repeat("!", MaxOperators+1)+"true"))
	require.Equal(t, []string{"-var:1,501: More than 500 operators in one expression."}, Lines(diags))
	_, diags = ParseExpression("-var", []byte("["))
	require.True(t, diags.HasErrors())
}

func TestLines(t *testing.T) {
	at := func(file string, b int) *hcl.Range {
		pos := hcl.Pos{Line: 1, Column: b + 1, Byte: b}
		return &hcl.Range{Filename: file, Start: pos, End: pos}
	}
	diags := hcl.Diagnostics{
		{Severity: hcl.DiagError, Summary: "Third", Subject: at("b", 9)},
		{Severity: hcl.DiagError, Summary: "Fourth", Subject: at("a", 1)},
		{Severity: hcl.DiagWarning, Summary: "Not this", Subject: at("b", 1)},
		{Severity: hcl.DiagError, Summary: "Second", Detail: "On two\n\tlines.", Subject: at("b", 3)},
		{Severity: hcl.DiagError, Summary: "Third", Subject: at("b", 9)},
		{Severity: hcl.DiagError, Summary: "Nowhere"},
	}
	require.Equal(t, []string{"b:1,4: Second; On two lines.", "b:1,10: Third", "a:1,2: Fourth", "Nowhere"}, Lines(diags))
}
