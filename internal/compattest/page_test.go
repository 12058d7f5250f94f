package compattest

import (
	"fmt"
	"maps"
	"os"
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
}
