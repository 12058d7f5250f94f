package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// testFiles are the functions of a package's test files, by name.
type testFiles map[string]*ast.FuncDecl

// testsIn reads the test files of a package's directory.
func testsIn(t *testing.T, dir string) testFiles {
	t.Helper()
	found := testFiles{}
	files, err := filepath.Glob(filepath.Join(root, dir, "*_test.go"))
	require.NoError(t, err)
	for _, path := range files {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, d := range file.Decls {
			if f, is := d.(*ast.FuncDecl); is && f.Recv == nil {
				found[f.Name.Name] = f
			}
		}
	}
	return found
}

// pluginWorlds are the packages that give a test a compiled plugin, or a whole agent on some.
var pluginWorlds = map[string]bool{"guestbuild": true, "plugintest": true, "agenttest": true}

// reachesPlugin reports whether a test, or what it calls of its package's test files,
// compiles a plugin to run on.
func (p testFiles) reachesPlugin(test string) bool {
	return p.reaches(test, map[string]bool{})
}

func (p testFiles) reaches(name string, seen map[string]bool) (does bool) {
	f := p[name]
	if f == nil || seen[name] {
		return false
	}
	seen[name] = true
	depends := asksForRun(f)
	ast.Inspect(f.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			of, is := n.X.(*ast.Ident)
			does = does || is && !depends && (pluginWorlds[of.Name])
		case *ast.Ident:
			does = does || p.reaches(n.Name, seen)
		}
		return !does
	})
	return does
}

// asksForRun reports whether a function asks in which of a test's two runs it is: then the
// plugin that it has is for one of them, and the test need not have that one.
func asksForRun(f *ast.FuncDecl) (does bool) {
	ast.Inspect(f.Body, func(n ast.Node) bool {
		call, is := n.(*ast.CallExpr)
		if is {
			name, is := call.Fun.(*ast.Ident)
			does = does || is && name.Name == "onPlugin"
		}
		return !does
	})
	return does
}
