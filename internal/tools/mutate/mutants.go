package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// mutant is one change of one file.
type mutant struct {
	file   string // absolute
	line   int
	what   string
	pieces []piece
}

// piece is text that is put into a file. "#" stands for the mutant's number: what the pieces
// make of the code does what it did, unless that mutant is on.
type piece struct {
	at, drop int // offset, and how many bytes are left out there
	text     string
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
	case *ast.CallExpr:
		if f, ok := n.Fun.(*ast.Ident); ok && f.Name == "make" {
			return nil // how large something is made only makes it faster
		}
	case *ast.IfStmt:
		c.condition(n.Cond)
	case *ast.BinaryExpr:
		c.operator(n)
	case *ast.UnaryExpr:
		if n.Op == token.NOT {
			c.around(n, "(mutantOn(#) != (", "))", "not negated: "+c.text(n))
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
	c.around(cond, "(!mutantOn(#) && (", "))", "never: if "+text)
	c.around(cond, "(mutantOn(#) || (", "))", "always: if "+text)
}

// operator swaps an operator for its neighbour.
func (c *changes) operator(n *ast.BinaryExpr) {
	what := func(swap string) string { return fmt.Sprintf("%s for %s in %s", swap, n.Op, c.text(n)) }
	calls := map[token.Token][2]string{
		token.LSS: {"<=", "mutantLess"}, token.LEQ: {"<", "mutantAtMost"}, token.GTR: {">=", "mutantMore"}, token.GEQ: {">", "mutantAtLeast"},
		token.ADD: {"-", "mutantPlus"}, token.SUB: {"+", "mutantMinus"},
	}
	lazy := map[token.Token][2]string{token.LAND: {"||", "mutantAnd"}, token.LOR: {"&&", "mutantOr"}}
	if call, ok := calls[n.Op]; ok {
		c.between(n, call[1]+"(#, (", "), (", "))", what(call[0]))
	} else if call, ok := lazy[n.Op]; ok {
		c.between(n, call[1]+"(#, (", "), func() bool { return (", ") })", what(call[0]))
	} else if n.Op == token.EQL {
		c.around(n, "(mutantOn(#) != (", "))", what("!="))
	} else if n.Op == token.NEQ {
		c.around(n, "(mutantOn(#) != (", "))", what("=="))
	}
}

// constant swaps true and false.
func (c *changes) constant(n *ast.Ident) {
	if other := map[string]string{"true": "false", "false": "true"}[n.Name]; other != "" {
		c.around(n, "(mutantOn(#) != (", "))", other+" for "+n.Name)
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
		without := string(c.source[c.offset(n.Pos()):c.offset(last.Pos())]) + "nil"
		c.add(n, "no error: "+c.text(n), piece{at: c.offset(n.Pos()), text: "if mutantOn(#) { " + without + " }; "})
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
		case *ast.DeferStmt:
			if c.text(s) == "defer cancel()" { // it ends what has ended, a little later
				continue
			}
		case *ast.IncDecStmt, *ast.SendStmt, *ast.GoStmt:
		default:
			continue
		}
		c.around(s, "if !mutantOn(#) { ", " }", "removed: "+c.text(s))
	}
}

// telling is a call of a logger.
var telling = regexp.MustCompile(`(?i)logger(\(\))?\.`)

// tells reports whether a call only tells people something, or marks a place for tests, or
// is one without which the function would not compile.
func (c *changes) tells(call ast.Expr) bool {
	text := c.text(call)
	return telling.MatchString(text) ||
		strings.HasPrefix(text, "failpoint.") || strings.HasPrefix(text, "panic(")
}

// around puts text before and after a node.
func (c *changes) around(n ast.Node, before, after, what string) {
	c.add(n, what, piece{at: c.offset(n.Pos()), text: before}, piece{at: c.offset(n.End()), text: after})
}

// between makes an operator's operands those of a call.
func (c *changes) between(n *ast.BinaryExpr, before, middle, after, what string) {
	c.add(n, what, piece{at: c.offset(n.Pos()), text: before}, piece{c.offset(n.OpPos), len(n.Op.String()), middle},
		piece{at: c.offset(n.End()), text: after})
}

func (c *changes) add(n ast.Node, what string, pieces ...piece) {
	what, _, cut := strings.Cut(what, "\n")
	if cut {
		what += " …"
	}
	c.found = append(c.found, mutant{file: c.path, line: c.file.Line(n.Pos()), what: what, pieces: pieces})
}

func (c *changes) offset(p token.Pos) int { return c.file.Offset(p) }

func (c *changes) text(n ast.Node) string {
	return string(c.source[c.offset(n.Pos()):c.offset(n.End())])
}
