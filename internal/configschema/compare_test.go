package configschema_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/internal/configschema"
)

func TestAChangeOfASchemaIsNamed(t *testing.T) {
	for name, c := range map[string]struct{ old, new, want string }{
		"nothing":             {`"a":{"type":"string"}`, `"a":{"type":"string","description":"new words"}`, ``},
		"new":                 {``, `"a":{"type":"string"}`, `a: new: string`},
		"gone":                {`"a":{"type":"string"}`, ``, `!a: gone`},
		"another type":        {`"a":{"type":"string"}`, `"a":{"type":"integer"}`, `!a: was string, now whole number`},
		"one more type":       {`"a":{"type":"string"}`, `"a":{"type":["string","integer"]}`, `a: was string, now whole number or string`},
		"a wider number":      {`"a":{"type":"integer"}`, `"a":{"type":"number"}`, `a: was whole number, now number`},
		"any type":            {`"a":{"type":"integer"}`, `"a":{}`, `a: was whole number, now anything`},
		"a list's items":      {`"a":{"type":"array","items":{"type":"string"}}`, `"a":{"type":"array","items":{"type":"integer"}}`, `!a: was list of strings, now list of whole numbers`},
		"several blocks":      {`"a":{"type":"object","properties":{"b":{}}}`, `"a":{"type":"array","items":{"type":"object","properties":{"b":{}}}}`, `a: was block, now list of blocks`},
		"a default":           {`"a":{"type":"integer"}`, `"a":{"type":"integer","default":1}`, `a: default was none, now 1`},
		"a limit":             {`"a":{"type":"integer","maximum":3}`, `"a":{"type":"integer","minimum":1}`, `!a: now: at least 1|a: no longer: at most 3`},
		"a value less":        {`"a":{"enum":["x","y"]}`, `"a":{"enum":["y","z"]}`, `!a: no longer "x"|a: now also "z"`},
		"only some values":    {`"a":{"type":"string"}`, `"a":{"enum":["x","y"]}`, `!a: now one of "x", "y"`},
		"any value":           {`"a":{"enum":["x","y"]}`, `"a":{"type":"string"}`, `a: now any value`},
		"in a block":          {`"a":{"type":"object","properties":{"b":{"type":"string"}}}`, `"a":{"type":"object","properties":{"b":{"type":"string"},"c":{"type":"string"}},"required":["b"]}`, `!a.b: now required|a.c: new: string`},
		"deprecated":          {`"a":{"type":"string"}`, `"a":{"type":"string","deprecated":true}`, `a: now deprecated`},
		"in a labelled block": {`"a":{"type":"object","additionalProperties":{"type":"object","properties":{"b":{"type":"string"}}}}`, `"a":{"type":"object","additionalProperties":{"type":"object","properties":{"c":{"type":"string"}}}}`, `!a.b: gone|a.c: new: string`},
	} {
		t.Run(name, func(t *testing.T) {
			fields := func(properties string) []*configschema.Field {
				f, err := compile(t, fmt.Sprintf(`{"properties":{%s}}`, properties)).Fields()
				require.NoError(t, err)
				return f
			}
			require.Equal(t, c.want, said(configschema.Compare(fields(c.old), fields(c.new))))
		})
	}
	old, err := compile(t, `{"properties":{"a":{},"b":{}},"required":["a"]}`).Fields()
	require.NoError(t, err)
	new, err := compile(t, `{"properties":{"a":{},"b":{},"c":{}},"required":["b","c"]}`).Fields()
	require.NoError(t, err)
	require.Equal(t, "a: no longer required|!b: now required|!c: new, and required", said(configschema.Compare(old, new)))
}

func said(changes []configschema.Change) string {
	var texts []string
	for _, c := range changes {
		text := c.Path + ": " + c.Text
		if c.Breaking {
			text = "!" + text
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, "|")
}
