package template

import (
	"encoding/json"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// apart are the functions that are in no row of what consul-template itself rendered, and why.
var apart = map[string]string{
	"nomadService":     "what it reads is a node's: services_test.go",
	"nomadServices":    "what it reads is a node's: services_test.go",
	"nomadVar":         "what it reads is a node's: variables_test.go",
	"nomadVarExists":   "what it reads is a node's: variables_test.go",
	"nomadVarList":     "what it reads is a node's: variables_test.go",
	"nomadVarListSafe": "what it reads is a node's: variables_test.go",
	"sockaddr":         "what it reads is the machine's: addresses_test.go compares it with the library",
	"timestamp":        "it is another one each time: template_test.go",
}

// TestEveryFunctionIsComparedOrSaysWhyNot has no function be added that nothing was compared with.
func TestEveryFunctionIsComparedOrSaysWhyNot(t *testing.T) {
	text, err := os.ReadFile("testdata/consul-template.json")
	require.NoError(t, err)
	var rows []struct{ Template string }
	require.NoError(t, json.Unmarshal(text, &rows))
	compared := map[string]bool{}
	for _, row := range rows {
		for _, name := range regexp.MustCompile(`\w+`).FindAllString(row.Template, -1) {
			compared[name] = true
		}
	}
	var missing []string
	for _, name := range slices.Sorted(maps.Keys((&rendering{}).functions(""))) {
		if refused[name] == "" && !strings.HasPrefix(name, "_") && !compared[name] && apart[name] == "" {
			missing = append(missing, name)
		}
	}
	require.Empty(t, missing)
	for name, why := range apart {
		require.NotEmpty(t, why)
		require.False(t, compared[name], "%s is in a row", name)
		require.Contains(t, (&rendering{}).functions(""), name)
	}
}
