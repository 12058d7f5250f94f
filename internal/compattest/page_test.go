package compattest

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The page has what the tests know of differences, and nothing that they do not.
func TestThePageHasTheDifferences(t *testing.T) {
	b, err := os.ReadFile("../../docs/nomad-tools.md")
	require.NoError(t, err)
	page := string(b)
	var rows strings.Builder
	for _, tab := range tables {
		for _, c := range tab.commands(t) {
			if c.fails != "" {
				fmt.Fprintf(&rows, "| `%s` | %s |\n", strings.NewReplacer("{dir}/", "", "{tmp}/", "").Replace(c.line), c.fails)
			}
		}
	}
	require.Contains(t, page, "| command | why |\n|---|---|\n"+rows.String()+"\n")
	rows.Reset()
	for _, job := range slices.Sorted(maps.Keys(meant)) {
		fmt.Fprintf(&rows, "| `%s` | %s |\n", job, meant[job])
	}
	require.Contains(t, page, "| job file | here |\n|---|---|\n"+rows.String()+"\n")
	rows.Reset()
	for _, job := range slices.Sorted(maps.Keys(aroundMeant)) {
		fmt.Fprintf(&rows, "| `%s` | %s |\n", job, aroundMeant[job])
	}
	require.Contains(t, page, "| job file of `testdata/around` | here |\n|---|---|\n"+rows.String()+"\n")
	rows.Reset()
	for _, job := range slices.Sorted(maps.Keys(dockerMeant)) {
		fmt.Fprintf(&rows, "| `%s` | %s |\n", job, dockerMeant[job])
	}
	require.Contains(t, page, "| docker job file | here |\n|---|---|\n"+rows.String()+"\n")
	rows.Reset()
	for _, e := range documentedExamples(t) {
		fmt.Fprintf(&rows, "| %s | `%s` | %s |\n", e.of, e.job, cmp.Or(documentedMeant[e.job], "as with Nomad"))
	}
	require.Contains(t, page, "| documented example | job file of `testdata/documented` | goes |\n|---|---|---|\n"+rows.String()+"\n")
}

// documentedExample is one of the docker driver's documentation, and the job file that has its keys.
type documentedExample struct{ of, job string }

// documentedExamples are what the job files say of themselves in their first lines.
func documentedExamples(t *testing.T) (all []documentedExample) {
	t.Helper()
	files, err := filepath.Glob("testdata/documented/*.nomad.hcl")
	require.NoError(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		line, _, _ := strings.Cut(string(text), "\n")
		of, has := strings.CutPrefix(line, "# Example: ")
		require.True(t, has, "%s does not begin with the example that it is of", file)
		all = append(all, documentedExample{of, strings.TrimSuffix(filepath.Base(file), ".nomad.hcl")})
	}
	return all
}
