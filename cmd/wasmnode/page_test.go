package main

import (
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// commandsPage is the reference of the command line, which this package writes.
const commandsPage = "../../docs/commands.md"

// TestThePageOfCommandsHasThemAll writes the page anew with -update.
func TestThePageOfCommandsHasThemAll(t *testing.T) {
	want := page(commands(meta{ui: ui{out: io.Discard, err: io.Discard}}))
	if *update {
		require.NoError(t, os.WriteFile(commandsPage, []byte(want), 0o600))
	}
	got, err := os.ReadFile(commandsPage)
	require.NoError(t, err)
	require.Equal(t, want, string(got), "go test ./cmd/wasmnode -run TestThePageOfCommandsHasThemAll -update writes it")
}

func page(all registry) string {
	var b strings.Builder
	b.WriteString(`# The commands

The names, flags and exit codes are those of the stock ` + "`nomad`" + ` command line, where it has the command. ` + "`wasmnode COMMAND -h`" + ` tells
of the options of each. All that talk to a node take ` + "`-address`, `-token`, `-namespace`, `-region`" + ` and the flags of TLS, or Nomad's
environment variables; ` + "`-json`, or `-t`" + ` with a template of Go, for programs; ` + "`-verbose`" + ` for whole IDs; and ` + "`-no-color`" + `. Only a
terminal is coloured, and not with ` + "`NO_COLOR`" + ` in the environment. ` + "`wasmnode -autocomplete-install`" + ` has bash, zsh and fish complete
commands, options and IDs.

| command | |
|---|---|
`)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if _, group := all[name].(*groupCommand); !group {
			fmt.Fprintf(&b, "| `%s` | %s |\n", name, strings.ReplaceAll(all[name].Synopsis(), "|", `\|`))
		}
	}
	b.WriteString("\nShort for others:\n\n| word | command |\n|---|---|\n")
	for _, short := range slices.Sorted(maps.Keys(aliases)) {
		if all[aliases[short]] != nil {
			fmt.Fprintf(&b, "| `%s` | `%s` |\n", short, aliases[short])
		}
	}
	return b.String()
}
