package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var walkRow = regexp.MustCompile("(?m)^\\| `([A-Za-z.]+)` \\| `([a-z0-9_/]+\\.go)` \\|")

// TestThePageOnArchitectureNamesFunctionsThatExist keeps the page from outliving the code
// that it walks through.
func TestThePageOnArchitectureNamesFunctionsThatExist(t *testing.T) {
	page, err := os.ReadFile("architecture.md")
	require.NoError(t, err)
	rows := walkRow.FindAllStringSubmatch(string(page), -1)
	require.Greater(t, len(rows), 50, "the page's tables have another form than this test reads")
	for _, row := range rows {
		code, err := os.ReadFile(filepath.Join(root, row[2]))
		require.NoError(t, err)
		declared := `(?m)^func ` + row[1] + `[[(]`
		if receiver, name, isMethod := strings.Cut(row[1], "."); isMethod {
			declared = `(?m)^func \([a-z]+ \*?` + receiver + `\) ` + name + `\(`
		}
		require.True(t, regexp.MustCompile(declared).Match(code), "%s does not declare %s", row[2], row[1])
	}
}
