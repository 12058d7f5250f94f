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

// ownCommand is one of wasmnode's at the begin of a line, with its words.
var ownCommand = regexp.MustCompile(`(?m)^(?:\$ )?(?:sudo )?wasmnode ([a-z][-a-z ]*)`)

// fence is a fenced block of a page.
type fence struct{ before, language, text string }

// fences are those of a page.
func fences(page string) (all []fence) {
	open, before := false, ""
	for line := range strings.Lines(page) {
		language, is := strings.CutPrefix(line, "```")
		switch {
		case is && !open:
			all = append(all, fence{before: before, language: strings.TrimSpace(language)})
			open = true
		case is:
			open = false
		case open:
			all[len(all)-1].text += line
		}
		before = strings.TrimSpace(line)
	}
	return all
}

// hasCommands reports whether a block that is no session has commands: it is a script, or has a prompt.
func (f fence) hasCommands() bool {
	return f.language == "sh" || f.language != "console" && strings.Contains("\n"+f.text, "\n$ ")
}

// onAMachine marks blocks of the page of installation, which internal/dist runs on a new Debian.
const onAMachine = "<!-- run on a machine of its own -->"

// TestCommandsThatAreNotRunSayWhyAndAreThere looks at the blocks that are no sessions: each has a
// reason in a comment before it, and names no command that there is not.
func TestCommandsThatAreNotRunSayWhyAndAreThere(t *testing.T) {
	known := commandsOf(t)
	for _, page := range pages(t) {
		text, err := os.ReadFile(filepath.Join(root, page))
		require.NoError(t, err)
		for _, f := range fences(string(text)) {
			if !f.hasCommands() {
				continue
			}
			if page == "docs/install.md" && f.before == onAMachine {
				f.before = "<!-- not run: here -->"
			}
			assert.Regexp(t, `^<!-- not run: \S.* -->$`, f.before, "%s: make this a console block, or say before it why it is not run:\n%s", page, f.text)
			for _, command := range ownCommand.FindAllStringSubmatch(f.text, -1) {
				assert.True(t, startsWithOne(known, strings.Fields(command[1])), "%s: there is no command wasmnode %s", page, command[1])
			}
		}
	}
}

func TestABlockWithAPromptHasCommands(t *testing.T) {
	var has []bool
	for _, f := range fences("text\n```\n$ wasmnode version\n```\n```console\n$ true\n```\n\n```go\nmain()\n```\n```sh\ntrue\n```\n```\nout\n$ wasmnode x\n```\n") {
		has = append(has, f.hasCommands())
	}
	assert.Equal(t, []bool{true, false, false, true, true}, has)
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
