package agent

import (
	"go/ast"
	"go/parser"
	gotoken "go/token"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/internal/boltfile"
)

// TestEachConditionHasARemedy reads the package: most conditions are of machines and disks that no
// test has.
func TestEachConditionHasARemedy(t *testing.T) {
	paths, err := filepath.Glob("*.go")
	require.NoError(t, err)
	files, found := gotoken.NewFileSet(), 0
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(files, path, nil, 0)
		require.NoError(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			if set := conditionFields(n); set != nil {
				found++
				for _, name := range []string{"Name", "Text", "Remedy"} {
					require.True(t, set[name], "%s: a condition without a %s", files.Position(n.Pos()), name)
				}
			}
			return true
		})
	}
	require.GreaterOrEqual(t, found, 12, "this looks for the wrong thing")
	for _, r := range []boltfile.Recovery{{}, {Copied: time.Unix(1, 0)}} {
		require.NotEmpty(t, remedyOf(r, true))
		require.NotEmpty(t, remedyOf(r, false))
	}
}

// conditionFields are the fields that a condition is made with, those with something in them true;
// nil: no condition is made.
func conditionFields(n ast.Node) map[string]bool {
	literal, is := n.(*ast.CompositeLit)
	if !is {
		return nil
	}
	if kind, is := literal.Type.(*ast.SelectorExpr); !is || kind.Sel.Name != "Condition" {
		return nil
	}
	set := map[string]bool{}
	for _, e := range literal.Elts {
		field := e.(*ast.KeyValueExpr)
		text, is := field.Value.(*ast.BasicLit)
		set[field.Key.(*ast.Ident).Name] = !is || text.Value != `""`
	}
	return set
}
