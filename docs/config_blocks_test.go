package docs

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/internal/configschema"
	"github.com/wasmnode/wasmnode/jobspec"
)

const configPage = "config-blocks.md"

// fit makes of what is in a config block what a driver gets, by the page's schema.
func fit(t *testing.T, text, schema string) (string, error) {
	t.Helper()
	job, err := jobspec.Parse(jobspec.Options{Path: configPage, Content: []byte("job \"j\" {\n group \"g\" {\n task \"t\" {\n driver = \"d\"\n config {\n" + text + "\n}\n}\n}\n}")})
	require.NoError(t, err, text)
	compiled, err := configschema.Compile(schema)
	require.NoError(t, err)
	fitted, err := compiled.CheckJSON("config", job.TaskGroups[0].Tasks[0].Config)
	return string(fitted), err
}

func TestConfigBlocksBecomeTheJSONOfThePage(t *testing.T) {
	text, err := os.ReadFile(configPage)
	require.NoError(t, err)
	schema := block(t, configPage, "json")
	pairs := regexp.MustCompile("(?s)```hcl\n(.*?)```\n\n```json\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	require.Len(t, pairs, 4)
	for _, p := range pairs {
		got, err := fit(t, p[1], schema)
		require.NoError(t, err, p[1])
		require.JSONEq(t, p[2], got, p[1])
	}
}

func TestWrongShapesAreCalledAsOnThePage(t *testing.T) {
	text, err := os.ReadFile(configPage)
	require.NoError(t, err)
	rows := regexp.MustCompile("(?m)^\\| `(.*)` \\| `(config\\..*)` \\|$").FindAllStringSubmatch(string(text), -1)
	require.Len(t, rows, 8)
	for _, row := range rows {
		written := strings.NewReplacer("; ", "\n").Replace(row[1])
		if !strings.HasPrefix(written, "image") {
			written = "image = \"a\"\n" + written
		}
		_, err := fit(t, written, block(t, configPage, "json"))
		require.EqualError(t, err, row[2], row[1])
	}
}
