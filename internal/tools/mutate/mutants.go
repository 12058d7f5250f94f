package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// mutant is one change of one file.
type mutant struct {
	file       string // absolute
	line       int
	what       string
	start, end int // of the bytes that are replaced
	text       string
}

// apply returns the file's text with the change.
func (m mutant) apply(source []byte) []byte {
	return slices.Concat(source[:m.start], []byte(m.text), source[m.end:])
}

// mutants returns every change of a package's own files: no tests, and nothing generated.
func mutants(dir string, only *regexp.Regexp) (all []mutant, err error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		name := filepath.Base(path)
		if strings.HasSuffix(name, "_test.go") || !only.MatchString(name) {
			continue
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		found, err := mutantsOf(path, source)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s: nothing to change", dir)
	}
	return all, nil
}

// mutantsOf returns every change of one file.
func mutantsOf(path string, source []byte) ([]mutant, error) {
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, path, source, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	if ast.IsGenerated(parsed) {
		return nil, nil
	}
	c := &changes{path: path, source: source, file: files.File(parsed.FileStart)}
	for _, decl := range parsed.Decls {
		if f, ok := decl.(*ast.FuncDecl); ok && f.Body != nil {
			c.function(f.Type, f.Body)
		}
	}
	return c.found, nil
}

// changes collects the mutants of one file.
type changes struct {
	path    string
	source  []byte
	file    *token.File
	results *ast.FieldList // of the innermost function around
	found   []mutant
}

// function collects those of a function's body.
func (c *changes) function(t *ast.FuncType, body *ast.BlockStmt) {
	around := c.results
	c.results = t.Results
	ast.Walk(c, body)
	c.results = around
}

// Visit implements ast.Visitor.
func (c *changes) Visit(n ast.Node) ast.Visitor {
	switch n := n.(type) {
	case *ast.FuncLit:
		c.function(n.Type, n.Body)
		return nil
	case *ast.IfStmt:
		c.condition(n.Cond)
	case *ast.BinaryExpr:
		c.operator(n)
	case *ast.UnaryExpr:
		if n.Op == token.NOT {
			c.replace(n.Pos(), n.OpPos+1, "", "not negated: "+c.text(n))
		}
	case *ast.Ident:
		c.constant(n)
	case *ast.ReturnStmt:
		c.returned(n)
	case *ast.BlockStmt:
		c.statements(n.List)
	case *ast.CaseClause:
		c.statements(n.Body)
	case *ast.CommClause:
		c.statements(n.Body)
	}
	return c
}

// condition makes a condition always false, and always true.
func (c *changes) condition(cond ast.Expr) {
	text := c.text(cond)
	c.replace(cond.Pos(), cond.End(), "false && ("+text+")", "never: if "+text)
	c.replace(cond.Pos(), cond.End(), "true || ("+text+")", "always: if "+text)
}

// operator swaps an operator for its neighbour.
func (c *changes) operator(n *ast.BinaryExpr) {
	swaps := map[token.Token]string{
		token.EQL: "!=", token.NEQ: "==", token.LSS: "<=", token.LEQ: "<", token.GTR: ">=", token.GEQ: ">",
		token.LAND: "||", token.LOR: "&&", token.ADD: "-", token.SUB: "+",
	}
	if swap, ok := swaps[n.Op]; ok {
		c.replace(n.OpPos, n.OpPos+token.Pos(len(n.Op.String())), swap, fmt.Sprintf("%s for %s in %s", swap, n.Op, c.text(n)))
	}
}

// constant swaps true and false.
func (c *changes) constant(n *ast.Ident) {
	if other := map[string]string{"true": "false", "false": "true"}[n.Name]; other != "" {
		c.replace(n.Pos(), n.End(), other, other+" for "+n.Name)
	}
}

// returned forgets an error: the last result is nil.
func (c *changes) returned(n *ast.ReturnStmt) {
	if c.results == nil || len(n.Results) != c.results.NumFields() {
		return
	}
	declared, ok := c.results.List[len(c.results.List)-1].Type.(*ast.Ident)
	last := n.Results[len(n.Results)-1]
	if ok && declared.Name == "error" && c.text(last) != "nil" {
		c.replace(last.Pos(), last.End(), "nil", "no error: "+c.text(n))
	}
}

// statements removes statements that are there for what they do.
func (c *changes) statements(list []ast.Stmt) {
	for _, s := range list {
		switch s := s.(type) {
		case *ast.AssignStmt:
			if s.Tok == token.DEFINE {
				continue
			}
		case *ast.ExprStmt:
			if c.tells(s.X) {
				continue
			}
		case *ast.IncDecStmt, *ast.SendStmt, *ast.DeferStmt, *ast.GoStmt:
		default:
			continue
		}
		c.replace(s.Pos(), s.End(), "", "removed: "+c.text(s))
	}
}

// tells reports whether a call only tells people something, or marks a place for tests.
func (c *changes) tells(call ast.Expr) bool {
	text := c.text(call)
	return strings.Contains(strings.ToLower(text), "logger.") || strings.HasPrefix(text, "failpoint.")
}

func (c *changes) replace(start, end token.Pos, text, what string) {
	what, _, cut := strings.Cut(what, "\n")
	if cut {
		what += " …"
	}
	c.found = append(c.found, mutant{
		file: c.path, line: c.file.Line(start), what: what,
		start: c.file.Offset(start), end: c.file.Offset(end), text: text,
	})
}

func (c *changes) text(n ast.Node) string {
	return string(c.source[c.file.Offset(n.Pos()):c.file.Offset(n.End())])
}
