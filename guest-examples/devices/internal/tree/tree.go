// Package tree makes directory trees such as the kernel's, for the tests of device
// plugins.
package tree

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Make makes a tree of a text, and returns its directory. Each line is a path below it
// and what the file says, or "-> TARGET" for a symbolic link. Empty lines and what is
// before the path are left out.
//
//	sys/devices/pci0/class     0x030000
//	sys/bus/pci/devices/0:0.0  -> ../../../devices/pci0
func Make(t testing.TB, text string) string {
	t.Helper()
	dir := t.TempDir()
	for line := range strings.Lines(text) {
		path, content, _ := strings.Cut(strings.TrimSpace(line), " ")
		if path != "" {
			Put(t, dir, path, strings.TrimSpace(content))
		}
	}
	return dir
}

// Put makes or changes one file or link.
func Put(t testing.TB, dir, path, content string) {
	t.Helper()
	path = filepath.Join(dir, path)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	if target, link := strings.CutPrefix(content, "-> "); link {
		require.NoError(t, os.Symlink(target, path))
		return
	}
	content = strings.NewReplacer(`\n`, "\n", `\t`, "\t").Replace(content)
	require.NoError(t, os.WriteFile(path, []byte(content+"\n"), 0o644))
}
