package drivers_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheExampleInTheABIsPageIsTheDriverInC(t *testing.T) {
	source, err := os.ReadFile("c-minimal/main.c")
	require.NoError(t, err)
	beginning, _, found := strings.Cut(string(source), "\n// The rest reads")
	require.True(t, found)
	page, err := os.ReadFile("../../abi/ABI.md")
	require.NoError(t, err)
	require.Contains(t, string(page), "```c\n"+beginning+"```\n")
}

// Whoever has read one example finds their way in all of them.
func TestEveryDriverHasTheSameFilesAndAReadmeInOneForm(t *testing.T) {
	entries, err := os.ReadDir(".")
	require.NoError(t, err)
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		t.Run(e.Name(), func(t *testing.T) {
			readme, err := os.ReadFile(filepath.Join(e.Name(), "README.md"))
			require.NoError(t, err)
			at := 0
			for _, heading := range []string{"# ", "## Use", "## Configuration", "## Needs", "## Limitations"} {
				i := strings.Index(string(readme)[at:], heading)
				require.GreaterOrEqual(t, i, 0, "%q is missing or out of order", heading)
				at += i + len(heading)
			}
			if _, err := os.Stat(filepath.Join(e.Name(), "main.c")); err == nil {
				return // its schemas are in the C file, its tests beside this one
			}
			for _, name := range []string{"main.go", "main_test.go", "plugin_schema.json", "task_schema.json"} {
				require.FileExists(t, filepath.Join(e.Name(), name))
			}
		})
	}
}
