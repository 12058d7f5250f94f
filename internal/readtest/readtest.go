// Package readtest tells tests which packages read which fields of a package's types, so that
// a field that nobody acts on is found. Start reading at [Fields].
package readtest

import (
	"go/ast"
	"go/types"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/go/packages"
)

// Fields returns, by "Type.Field", which of some packages read a field of the types that
// another one, of, declares: select it and do not set it. Files whose names begin with one
// of skipped do not count.
func Fields(t *testing.T, of string, readers []string, skipped ...string) map[string][]string {
	t.Helper()
	loaded, err := packages.Load(&packages.Config{
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedImports |
			packages.NeedTypes | packages.NeedSyntax | packages.NeedTypesInfo | packages.NeedExportFile,
	}, readers...)
	require.NoError(t, err)
	require.Len(t, loaded, len(readers))
	reads := map[string][]string{}
	for _, p := range loaded {
		require.Empty(t, p.Errors)
		names := fieldNames(find(p.Types, of, map[*types.Package]bool{}))
		for _, file := range p.Syntax {
			if skips(skipped, filepath.Base(p.Fset.Position(file.Pos()).Filename)) {
				continue
			}
			for _, field := range readIn(file, p.TypesInfo) {
				if name := names[field]; name != "" {
					reads[name] = append(reads[name], p.PkgPath)
				}
			}
		}
	}
	return reads
}

func skips(skipped []string, file string) bool {
	for _, prefix := range skipped {
		if strings.HasPrefix(file, prefix) {
			return true
		}
	}
	return false
}

// find finds a package among those that another imports, if only by way of others.
func find(p *types.Package, path string, seen map[*types.Package]bool) *types.Package {
	if p.Path() == path {
		return p
	}
	seen[p] = true
	for _, imported := range p.Imports() {
		if seen[imported] {
			continue
		}
		if found := find(imported, path, seen); found != nil {
			return found
		}
	}
	return nil
}

// fieldNames names the fields of a package's types; nil has none.
func fieldNames(p *types.Package) map[types.Object]string {
	names := map[types.Object]string{}
	if p == nil {
		return names
	}
	for _, name := range p.Scope().Names() {
		if of, is := p.Scope().Lookup(name).Type().Underlying().(*types.Struct); is {
			for field := range of.Fields() {
				names[field] = name + "." + field.Name()
			}
		}
	}
	return names
}

// readIn returns the fields that a file selects and does not set.
func readIn(file *ast.File, info *types.Info) (fields []types.Object) {
	set := map[ast.Expr]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for _, to := range n.Lhs {
				set[to] = true
			}
		case *ast.SelectorExpr:
			if s := info.Selections[n]; s != nil && s.Kind() == types.FieldVal && !set[n] {
				fields = append(fields, s.Obj())
			}
		}
		return true
	})
	return fields
}
