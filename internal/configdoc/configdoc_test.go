package configdoc_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/internal/configdoc"
	"github.com/wasmnode/wasmnode/internal/configschema"
	"github.com/wasmnode/wasmnode/internal/hclvalue"
)

func describe(t *testing.T, text string) (*configschema.Schema, []*configschema.Field) {
	t.Helper()
	s, err := configschema.Compile(text)
	require.NoError(t, err)
	fields, err := s.Fields()
	require.NoError(t, err)
	return s, fields
}

// check fits what is in a block to a schema.
func check(t *testing.T, s *configschema.Schema, text string) error {
	t.Helper()
	body, diags := hclvalue.ParseFile("example.hcl", []byte(text))
	require.False(t, diags.HasErrors(), "%s\n%s", diags, text)
	value, diags := hclvalue.Body(body, nil)
	require.False(t, diags.HasErrors(), "%s", diags)
	_, err := s.Check("config", value)
	return err
}

var commented = regexp.MustCompile(`(?m)^# ([a-z_0-9]+ .*(?:\n# (?: |[})\]]).*)*)`)

// TestTheExamplesOfTheDriversAreTaken: each as it is, and with each of its comments taken out.
func TestTheExamplesOfTheDriversAreTaken(t *testing.T) {
	files, err := filepath.Glob("../../guest-examples/*/*/*_schema.json")
	require.NoError(t, err)
	require.Greater(t, len(files), 10)
	optional := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		s, fields := describe(t, string(text))
		example := configdoc.Example(s, fields)
		require.NoError(t, check(t, s, example), "%s\n%s", file, example)
		require.NotContains(t, example, "not complete")
		for _, m := range commented.FindAllStringSubmatchIndex(example, -1) {
			if !strings.Contains(example[m[2]:m[3]], "=") && !strings.Contains(example[m[2]:m[3]], "{") {
				continue // a sentence
			}
			optional++
			with := example[:m[0]] + strings.ReplaceAll(example[m[2]:m[3]], "\n# ", "\n") + example[m[1]:]
			err := check(t, s, with)
			if err != nil && strings.Contains(err.Error(), "fits more than one of the forms") {
				continue // one of several, of which the example has another
			}
			assert.NoError(t, err, "%s\n%s", file, example[m[2]:m[3]])
		}
	}
	require.Greater(t, optional, 130) // the schemas of wasi and exec are made by the SDK
}

const schema = `{
  "required": ["image", "auth"],
  "properties": {
    "image": {"type": "string", "minLength": 1, "description": "What <is> run,\nor \"a|b\"."},
    "auth": {"type": "object", "required": ["user"], "properties": {"user": {"type": "string", "examples": ["me"]}, "tls": {"type": "boolean", "default": true}}},
    "mount": {"type": "array", "description": "What it sees.", "items": {"type": "object", "required": ["from"], "properties": {"from": {"type": "string", "pattern": "^/"}}}},
    "network": {"type": "object", "additionalProperties": {"type": "object", "properties": {"mtu": {"type": "integer", "minimum": 68}}}},
    "labels": {"type": "object", "additionalProperties": {"type": "string"}},
    "mode": {"enum": ["a", "b"], "default": "b", "deprecated": true}
  }
}`

func TestFieldsAreATable(t *testing.T) {
	_, fields := describe(t, schema)
	require.Equal(t, strings.TrimPrefix(`
| Name | Type | Required | Default | Description |
|---|---|---|---|---|
| ¸auth¸ | block | yes |  |  |
| ¸auth.tls¸ | true or false |  | ¸true¸ |  |
| ¸auth.user¸ | string | yes |  |  |
| ¸image¸ | string, not empty | yes |  | What &lt;is&gt; run, or "a\|b". |
| ¸labels¸ | map of strings |  |  |  |
| ¸mode¸ | string, one of "a", "b" |  | ¸"b"¸ | Deprecated. |
| ¸mount¸ | list of blocks |  |  | What it sees. |
| ¸mount.from¸ | string, matches ^/ | yes |  |  |
| ¸network¸ | blocks with labels |  |  |  |
| ¸network.LABEL.mtu¸ | whole number, at least 68 |  |  |  |
`, "\n"), strings.ReplaceAll(configdoc.Table(fields), "`", "¸"))
	require.Equal(t, "It takes nothing.\n", configdoc.Table(nil))
}

func TestAnExampleHasWhatIsRequired(t *testing.T) {
	s, fields := describe(t, schema)
	require.Equal(t, strings.TrimPrefix(`
auth {
  user = "me"

  # tls = true
}

# What <is> run, or "a|b".
image = "example"

# labels = {
#   example = "example"
# }

# Deprecated.
# mode = "b"

# What it sees.
# mount {
#   from = "/example"
# }

# network "example" {
#   mtu = 68
# }
`, "\n"), configdoc.Example(s, fields))
}

func TestAnExampleThatIsNotTakenSaysSo(t *testing.T) {
	s, fields := describe(t, `{"required": ["a"], "properties": {"a": {"type": "string", "pattern": "^zq[0-9]{7}$"}}}`)
	require.Regexp(t, `^# This is not complete: config\.a: .*\n`, configdoc.Example(s, fields))
}

func TestASchemaInItselfIsDescribedOnce(t *testing.T) {
	for _, text := range []string{
		`{"properties": {"a": {"$ref": "#/$defs/n"}}, "$defs": {"n": {"type": "object", "properties": {"next": {"$ref": "#/$defs/n"}}}}}`,
		`{"properties": {"a": {"$ref": "#/$defs/n"}}, "$defs": {"n": {"type": "array", "items": {"$ref": "#/$defs/n"}}}}`,
		`{"properties": {"a": {"$ref": "#/$defs/n"}}, "$defs": {"n": {"$ref": "#/$defs/n"}}}`,
		`{"properties": {"a": {"$ref": "#/$defs/n"}}, "$defs": {"n": {"type": "object", "additionalProperties": {"$ref": "#/$defs/n"}}}}`,
	} {
		_, fields := describe(t, text)
		require.Len(t, fields, 1, text)
		require.Less(t, len(configdoc.Table(fields)), 500)
	}
}

func TestTextsOfASchemaStayOnTheirLine(t *testing.T) {
	s, fields := describe(t, `{"properties": {"a\nb": {"type": "string"}, "c": {"description": "x\n}\u001b[31m\u202e", "type": "string", "default": "${x}\n`+"```"+`"}}}`)
	require.NotContains(t, configdoc.Table(fields), "\x1b")
	require.NotContains(t, configdoc.Table(fields), "```")
	example := configdoc.Example(s, fields)
	require.NoError(t, check(t, s, strings.Replace(example, "# c =", "c =", 1)), example)
	require.NotContains(t, example, "\x1b")
	require.NotContains(t, example, "\u202e")
}
