package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheInventoryHasWhatIsForBrowsers(t *testing.T) {
	b := &builder{root: "../.."}
	parts, err := b.embedded()
	require.NoError(t, err)
	var names []string
	for _, p := range parts {
		names = append(names, p.Path)
		require.Equal(t, []string{"MIT"}, p.Licences, p.Path)
	}
	require.Equal(t, []string{"@xterm/xterm", "@xterm/addon-fit"}, names)
	require.Equal(t, "pkg:npm/%40xterm/xterm@6.0.0", parts[0].purl())
	require.Equal(t, "pkg:golang/example.com/a@v1.0.0%2Bx", module{Path: "example.com/a", Version: "v1.0.0+x"}.purl())
	bill, err := spdxJSON(release{Version: "1.0.0"}, "amd64", parts)
	require.NoError(t, err)
	require.Contains(t, string(bill), "pkg:npm/%40xterm/addon-fit@0.11.0")
	require.Contains(t, string(copyright(nil, parts)), "@xterm/xterm 6.0.0: MIT")

	b.root = put(t, map[string]string{"httpapi/ui/parts.json": `[{"Name": "@a/b", "Version": "1", "Dir": "b"}]`, "httpapi/ui/static/b/LICENSE": "do as you like"})
	_, err = b.embedded()
	require.ErrorContains(t, err, "@a/b 1: LICENSE is no licence that is known here")
}
