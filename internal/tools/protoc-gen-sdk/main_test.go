package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A function that the ABI's page has and no SDK generates would be missed by authors only.
func TestTheCapabilitiesAreThoseOfTheABIsPage(t *testing.T) {
	page, err := os.ReadFile("../../../abi/ABI.md")
	require.NoError(t, err)
	_, table, _ := strings.Cut(string(page), "## Capabilities\n")
	table, _, _ = strings.Cut(table, "\n\n`wasmnode:abi/v1`")
	var documented, generated []string
	module := ""
	for _, row := range regexp.MustCompile("(?m)^\\| (?:`([^`]+)`)? ?\\| `([a-z]+)` \\|").FindAllStringSubmatch(table, -1) {
		if row[1] != "" {
			module = row[1]
		}
		documented = append(documented, module+" "+row[2])
	}
	require.Greater(t, len(documented), 20)
	for _, c := range append(capabilities, byHand...) {
		generated = append(generated, c.module()+" "+c.function)
	}
	require.ElementsMatch(t, documented, generated)
}

func TestTheHeaderImportsWhatIsWrittenByHandToo(t *testing.T) {
	header, err := os.ReadFile("../../../sdk/c/wasmnode.h")
	require.NoError(t, err)
	for _, c := range append(capabilities, byHand...) {
		require.Contains(t, string(header), `WN_IMPORT("`+c.module()+`", "`+c.function+`")`)
	}
}

func TestTheModulesInAssemblyScriptImportAndAnswerWhatIsWrittenByHandToo(t *testing.T) {
	imports, err := os.ReadFile("../../../sdk/assemblyscript/host.ts")
	require.NoError(t, err)
	hooks, err := os.ReadFile("../../../sdk/assemblyscript/test_host.ts")
	require.NoError(t, err)
	for _, c := range byHand {
		require.Contains(t, string(imports), `@external("`+c.module()+`", "`+c.function+`")`)
		require.Contains(t, string(hooks), "export function host_"+c.name()+"(")
	}
}

func TestTheGeneratedPartTakesThePlaceOfTheOneBefore(t *testing.T) {
	p := partly{begin: "from here\n", end: "to here\n"}
	got, err := p.between([]byte("head\nfrom here\nold\nto here\ntail\n"), "new\n")
	require.NoError(t, err)
	require.Equal(t, "head\nfrom here\nnew\nto here\ntail\n", string(got))
	for _, hand := range []string{"", p.begin, p.end, p.end + p.begin} {
		_, err := p.between([]byte(hand), "new\n")
		require.Error(t, err, hand)
	}
}

func TestTheReferenceNamesWhatTheSDKInGoHas(t *testing.T) {
	for _, c := range append(capabilities, byHand...) {
		for name := range strings.SplitSeq(inGo[c.name()], ", ") {
			in, of, found := strings.Cut(name, ".")
			if !found {
				require.Contains(t, []string{"abi", "stream"}, c.group, "the reference has nothing in Go for %s: add it to inGo", c.name())
				continue
			}
			files, err := filepath.Glob("../../../sdk/go/" + in + "/*.go")
			require.NoError(t, err)
			var code strings.Builder
			for _, file := range files {
				text, err := os.ReadFile(file)
				require.NoError(t, err)
				code.Write(text)
			}
			require.Regexp(t, `(?m)^(func|type) `+of+`\b`, code.String(), name)
		}
	}
}

// Links within a page are looked at by nobody else.
func TestTheReferenceLinksToWhatItHas(t *testing.T) {
	page, err := os.ReadFile("../../../docs/abi-reference.md")
	require.NoError(t, err)
	headings := map[string]bool{}
	for _, h := range regexp.MustCompile(`(?m)^##+ (.+)$`).FindAllStringSubmatch(string(page), -1) {
		anchor := strings.ReplaceAll(strings.ToLower(h[1]), " ", "-")
		require.False(t, headings[anchor], "two headings are #%s", anchor)
		headings[anchor] = true
	}
	links := regexp.MustCompile(`\]\(#([^)]+)\)`).FindAllStringSubmatch(string(page), -1)
	require.Greater(t, len(links), 100)
	for _, l := range links {
		require.True(t, headings[l[1]], "#%s", l[1])
	}
}
