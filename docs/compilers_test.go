package docs

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var leftOut = regexp.MustCompile(`-gcflags=(\S+)=-race=false`)

// TestWhatTheRaceDetectorLeavesOutHasNoGoroutines holds the packages that the Makefile exempts to
// having nothing that the detector could find in them, and nothing that it has to see.
func TestWhatTheRaceDetectorLeavesOutHasNoGoroutines(t *testing.T) {
	flags, err := exec.Command("make", "-s", "-C", root, "race-flags").Output()
	require.NoError(t, err)
	list := exec.Command("go", "list", "-json=ImportPath,Dir,GoFiles,Imports")
	list.Dir = root
	for _, m := range leftOut.FindAllStringSubmatch(string(flags), -1) {
		list.Args = append(list.Args, m[1])
	}
	require.Greater(t, len(list.Args), 5)
	out, err := list.Output()
	require.NoError(t, err)
	for dec := json.NewDecoder(strings.NewReader(string(out))); dec.More(); {
		var pkg struct {
			ImportPath, Dir  string
			GoFiles, Imports []string
		}
		require.NoError(t, dec.Decode(&pkg))
		require.NotContains(t, pkg.Imports, "sync", "%s: its locks would be missed by the detector", pkg.ImportPath)
		require.NotContains(t, pkg.Imports, "sync/atomic", "%s: its atomics would be missed by the detector", pkg.ImportPath)
		for _, file := range pkg.GoFiles {
			require.Empty(t, concurrency(t, filepath.Join(pkg.Dir, file)))
		}
	}
}

// concurrency returns the places of a Go file that start a goroutine or have a channel.
func concurrency(t *testing.T, file string) (places []string) {
	t.Helper()
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, file, nil, parser.SkipObjectResolution)
	require.NoError(t, err)
	ast.Inspect(parsed, func(n ast.Node) bool {
		switch n.(type) {
		case *ast.GoStmt, *ast.ChanType, *ast.SendStmt:
			places = append(places, files.Position(n.Pos()).String())
		}
		return true
	})
	return places
}
