package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// commandsOf are the commands that the page of commands names.
func commandsOf(t *testing.T) map[string]bool {
	t.Helper()
	text, err := os.ReadFile("commands.md")
	require.NoError(t, err)
	known := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\|").FindAllStringSubmatch(string(text), -1) {
		known[m[1]] = true
	}
	require.NotEmpty(t, known)
	return known
}

var (
	notRun    = regexp.MustCompile("(?ms)^([^\n]*)\n```sh\n(.*?)^```$")
	ownPrompt = regexp.MustCompile(`(?m)^wasmnode ([a-z][-a-z ]*)`)
)

// TestCommandsThatAreNotRunSayWhyAndAreThere looks at the blocks that are no sessions: each has a
// reason in a comment before it, and names no command that there is not.
func TestCommandsThatAreNotRunSayWhyAndAreThere(t *testing.T) {
	known := commandsOf(t)
	for _, page := range pages(t) {
		text, err := os.ReadFile(filepath.Join(root, page))
		require.NoError(t, err)
		for _, m := range notRun.FindAllStringSubmatch(string(text), -1) {
			assert.Regexp(t, `^<!-- not run: \S.* -->$`, m[1], "%s: make this a console block, or say before it why it is not run:\n%s", page, m[2])
			for _, command := range ownPrompt.FindAllStringSubmatch(m[2], -1) {
				assert.True(t, startsWithOne(known, strings.Fields(command[1])), "%s: there is no command wasmnode %s", page, command[1])
			}
		}
	}
}

// startsWithOne reports whether the first of some words are a command.
func startsWithOne(known map[string]bool, words []string) bool {
	for n := range words {
		if known[strings.Join(words[:n+1], " ")] {
			return true
		}
	}
	return false
}
