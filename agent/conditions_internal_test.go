package agent

import (
	"go/ast"
	"go/parser"
	gotoken "go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/internal/boltfile"
)

// TestEachConditionHasARemedy reads the package: most conditions are of machines and disks that no
// test has.
func TestEachConditionHasARemedy(t *testing.T) {
	of, err := filepath.Glob("*.go")
	require.NoError(t, err)
	ofServers, err := filepath.Glob("../controlplane/cluster/*.go") // their troubles become a condition
	require.NoError(t, err)
	require.NotEmpty(t, ofServers)
	files, found := gotoken.NewFileSet(), 0
	for _, path := range slices.Concat(of, ofServers) {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(files, path, nil, 0)
		require.NoError(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			set, needed := conditionFields(n)
			if set != nil {
				found++
			}
			for _, name := range needed {
				require.True(t, set[name], "%s: a condition without a %s", files.Position(n.Pos()), name)
			}
			return true
		})
	}
	require.GreaterOrEqual(t, found, 30, "this looks for the wrong thing")
	for _, r := range []boltfile.Recovery{{}, {Copied: time.Unix(1, 0)}} {
		require.NotEmpty(t, remedyOf(r, true))
		require.NotEmpty(t, remedyOf(r, false))
	}
}

// conditionFields are the fields that a condition is made with, those with something in them true, and
// those that it needs; nil: no condition is made.
func conditionFields(n ast.Node) (set map[string]bool, needed []string) {
	literal, is := n.(*ast.CompositeLit)
	if !is || len(literal.Elts) == 0 {
		return nil, nil
	}
	switch kind := literal.Type.(type) {
	case *ast.SelectorExpr:
		if kind.Sel.Name == "Condition" {
			needed = []string{"Name", "Text", "Remedy"}
		}
	case *ast.Ident:
		switch kind.Name {
		case "Trouble":
			needed = []string{"Text", "Remedy"}
		case "trouble":
			needed = []string{"kind", "text", "remedy"}
		}
	}
	if needed == nil {
		return nil, nil
	}
	set = map[string]bool{}
	for _, e := range literal.Elts {
		field := e.(*ast.KeyValueExpr)
		text, is := field.Value.(*ast.BasicLit)
		set[field.Key.(*ast.Ident).Name] = !is || text.Value != `""`
	}
	return set, needed
}
