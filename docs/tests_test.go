package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	testName     = regexp.MustCompile("`((?:Test|Fuzz|Benchmark|Example)[A-Z][A-Za-z0-9_]*)`")
	testFunction = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark|Example)[A-Z][A-Za-z0-9_]*)\(`)
)

// TestPagesNameTestsThatExist keeps promises from outliving the tests that hold them.
func TestPagesNameTestsThatExist(t *testing.T) {
	exist := tests(t)
	for _, page := range pages(t) {
		text, err := os.ReadFile(filepath.Join(root, page))
		require.NoError(t, err)
		for _, m := range testName.FindAllStringSubmatch(string(text), -1) {
			require.True(t, exist[m[1]], "%s names %s, which no file has", page, m[1])
		}
	}
}

// TestEachTickOfTheClusterHasATest keeps what is said of servers' versions from being said of nothing that
// is tried with them.
func TestEachTickOfTheClusterHasATest(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs", "cluster.md"))
	require.NoError(t, err)
	ticks := 0
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if strings.Contains(line, "✓") {
			ticks++
			require.Len(t, cells, 5, line)
			require.Regexp(t, testName, cells[4], line)
		}
	}
	require.Greater(t, ticks, 40)
}

// tests returns the names of all tests of the project.
func tests(t *testing.T) map[string]bool {
	t.Helper()
	out, err := exec.Command("git", "-C", root, "ls-files", "--cached", "--others", "--exclude-standard", "*_test.go").Output()
	require.NoError(t, err)
	names := map[string]bool{}
	for _, file := range strings.Fields(string(out)) {
		text, err := os.ReadFile(filepath.Join(root, file))
		require.NoError(t, err)
		for _, m := range testFunction.FindAllStringSubmatch(string(text), -1) {
			names[m[1]] = true
		}
	}
	return names
}
